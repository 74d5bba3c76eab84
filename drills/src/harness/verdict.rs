//! Figures, the bars they are held against, and what a drill comes to.

use std::fmt::Display;

use serde_json::{Value, json};
use tidegate_lab::report::Table;

use super::Args;

/// What a drill has found so far. It prints as it goes.
pub(crate) struct Verdict {
    json: bool,
    figures: Vec<Figure>,
}

/// One figure: what it is, ours, what stands beside it, and the bar if it has one.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    what: String,
    unit: Unit,
    ours: f64,
    beside: Vec<(String, f64)>,
    bar: Option<Bar>,
}

#[derive(Clone, Copy, Debug)]
enum Unit {
    Share,
    PerSecond,
    Milliseconds,
    Microseconds,
    Count,
    Ratio,
    Mebibytes,
}

#[derive(Clone, Copy, Debug)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
    Exactly(f64),
    Between(f64, f64),
}

impl Figure {
    /// A part of a whole: 1 is all of it.
    pub(crate) fn share(what: impl Into<String>, ours: f64) -> Self {
        Self::new(what, Unit::Share, ours)
    }

    /// So many each second.
    pub(crate) fn per_second(what: impl Into<String>, ours: f64) -> Self {
        Self::new(what, Unit::PerSecond, ours)
    }

    /// A time in milliseconds.
    pub(crate) fn ms(what: impl Into<String>, ours: f64) -> Self {
        Self::new(what, Unit::Milliseconds, ours)
    }

    /// A time in microseconds.
    pub(crate) fn us(what: impl Into<String>, ours: f64) -> Self {
        Self::new(what, Unit::Microseconds, ours)
    }

    /// A number of things.
    pub(crate) fn count(what: impl Into<String>, ours: f64) -> Self {
        Self::new(what, Unit::Count, ours)
    }

    /// A multiple.
    pub(crate) fn ratio(what: impl Into<String>, ours: f64) -> Self {
        Self::new(what, Unit::Ratio, ours)
    }

    /// Memory in MiB.
    pub(crate) fn mib(what: impl Into<String>, ours: f64) -> Self {
        Self::new(what, Unit::Mebibytes, ours)
    }

    /// The same with what `who` reached.
    #[must_use]
    pub(crate) fn beside(mut self, who: impl Into<String>, figure: f64) -> Self {
        self.beside.push((who.into(), figure));
        self
    }

    /// It must be `bar` or more.
    #[must_use]
    pub(crate) fn at_least(mut self, bar: f64) -> Self {
        self.bar = Some(Bar::AtLeast(bar));
        self
    }

    /// It must be `bar` or less.
    #[must_use]
    pub(crate) fn at_most(mut self, bar: f64) -> Self {
        self.bar = Some(Bar::AtMost(bar));
        self
    }

    /// It must be less than `bar`.
    #[must_use]
    pub(crate) fn below(mut self, bar: f64) -> Self {
        self.bar = Some(Bar::Below(bar));
        self
    }

    /// It must be `least` or more, and `most` or less.
    #[must_use]
    pub(crate) fn between(mut self, least: f64, most: f64) -> Self {
        self.bar = Some(Bar::Between(least, most));
        self
    }

    /// It must be `bar`.
    #[must_use]
    pub(crate) fn exactly(mut self, bar: f64) -> Self {
        self.bar = Some(Bar::Exactly(bar));
        self
    }

    fn new(what: impl Into<String>, unit: Unit, ours: f64) -> Self {
        Self {
            what: what.into(),
            unit,
            ours,
            beside: Vec::new(),
            bar: None,
        }
    }

    fn held(&self) -> Option<bool> {
        self.bar.map(|bar| match bar {
            Bar::AtLeast(bar) => self.ours >= bar,
            Bar::AtMost(bar) => self.ours <= bar,
            Bar::Below(bar) => self.ours < bar,
            Bar::Exactly(bar) => self.ours == bar,
            Bar::Between(least, most) => (least..=most).contains(&self.ours),
        })
    }

    fn bar_text(&self) -> String {
        match self.bar {
            None => String::new(),
            Some(Bar::AtLeast(bar)) => format!("≥ {}", self.unit.text(bar)),
            Some(Bar::AtMost(bar)) => format!("≤ {}", self.unit.text(bar)),
            Some(Bar::Below(bar)) => format!("< {}", self.unit.text(bar)),
            Some(Bar::Exactly(bar)) => format!("= {}", self.unit.text(bar)),
            Some(Bar::Between(least, most)) => {
                format!("{} to {}", self.unit.text(least), self.unit.text(most))
            }
        }
    }

    fn beside_text(&self) -> String {
        let parts: Vec<String> = self
            .beside
            .iter()
            .map(|(who, figure)| format!("{who} {}", self.unit.text(*figure)))
            .collect();
        parts.join(", ")
    }

    fn cells(&self) -> [String; 5] {
        let word = match self.held() {
            None => "",
            Some(true) => "HOLDS",
            Some(false) => "MISSED",
        };
        [
            self.what.clone(),
            self.unit.text(self.ours),
            self.beside_text(),
            self.bar_text(),
            word.to_owned(),
        ]
    }

    fn json(&self) -> Value {
        let beside: serde_json::Map<String, Value> = self
            .beside
            .iter()
            .map(|(who, figure)| (who.clone(), json!(figure)))
            .collect();
        json!({
            "what": self.what,
            "unit": self.unit.name(),
            "ours": self.ours,
            "beside": beside,
            "bar": self.bar_text(),
            "holds": self.held(),
        })
    }
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::PerSecond => "per_second",
            Self::Milliseconds => "ms",
            Self::Microseconds => "us",
            Self::Count => "count",
            Self::Ratio => "ratio",
            Self::Mebibytes => "MiB",
        }
    }

    fn text(self, figure: f64) -> String {
        match self {
            Self::Share => format!("{:.2} %", figure * 100.0),
            Self::PerSecond => format!("{figure:.0}/s"),
            Self::Milliseconds => format!("{figure:.1} ms"),
            Self::Microseconds => format!("{figure:.2} µs"),
            Self::Count => format!("{figure:.0}"),
            Self::Ratio => format!("{figure:.3}"),
            Self::Mebibytes => format!("{figure:.1} MiB"),
        }
    }
}

impl Verdict {
    /// Nothing found yet.
    pub(crate) const fn new(args: &Args) -> Self {
        Self {
            json: args.json,
            figures: Vec::new(),
        }
    }

    /// Tells people what is going on.
    pub(crate) fn say(&self, line: impl Display) {
        say(self.json, line);
    }

    /// Shows a table.
    pub(crate) fn table(&self, table: &Table) {
        say(self.json, format!("\n{table}"));
    }

    /// Adds a figure, and says at once whether it clears its bar.
    pub(crate) fn add(&mut self, figure: Figure) {
        let [what, ours, beside, bar, word] = figure.cells();
        let beside = match beside.as_str() {
            "" => String::new(),
            some => format!("; {some}"),
        };
        let bar = match bar.as_str() {
            "" => String::new(),
            some => format!(" (bar {some})"),
        };
        say(self.json, format!("{word:6}  {what}: {ours}{bar}{beside}"));
        self.figures.push(figure);
    }

    /// Whether every bar is cleared. A drill without a bar has shown nothing.
    pub(crate) fn holds(&self) -> bool {
        let mut bars = self.figures.iter().filter_map(Figure::held).peekable();
        bars.peek().is_some() && bars.all(|held| held)
    }

    /// All figures, one a row.
    pub(crate) fn summary(&self) -> Table {
        let mut table = Table::new(["figure", "ours", "beside", "bar", ""]);
        for figure in &self.figures {
            table.row(figure.cells());
        }
        table
    }

    /// All figures, for programs.
    pub(crate) fn figures_json(&self) -> Value {
        self.figures.iter().map(Figure::json).collect()
    }
}

/// Prints for people: on standard error when standard output is for programs.
pub(crate) fn say(json: bool, line: impl Display) {
    if json {
        eprintln!("{line}");
    } else {
        println!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(figures: Vec<Figure>) -> Verdict {
        Verdict {
            json: true,
            figures,
        }
    }

    #[test]
    fn one_missed_bar_misses_and_no_bar_at_all_does_not_hold() {
        let good = Figure::share("good", 0.96).at_least(0.95);
        let bad = Figure::ms("wait", 201.0).at_most(200.0);
        let plain = Figure::count("seen", 1.0);

        assert!(verdict(vec![good.clone(), plain.clone()]).holds());
        assert!(!verdict(vec![good, bad]).holds());
        assert!(!verdict(vec![plain]).holds());
    }

    #[test]
    fn no_number_clears_no_bar() {
        assert_eq!(
            Figure::share("x", f64::NAN).at_least(0.0).held(),
            Some(false)
        );
        assert_eq!(
            Figure::share("x", f64::NAN).between(0.0, 1.0).held(),
            Some(false)
        );
        assert_eq!(
            Figure::share("x", f64::NAN).at_most(1.0).held(),
            Some(false)
        );
    }
}
