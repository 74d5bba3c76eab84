//! A table of text, columns as wide as what is in them.

use std::fmt;

/// A table with a head and rows. The first column is flush left, the others flush right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    pub fn new<S: Into<String>>(heads: impl IntoIterator<Item = S>) -> Self {
        Self {
            rows: vec![heads.into_iter().map(Into::into).collect()],
        }
    }

    /// Adds a row; cells past the last head get a column without one.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, (width, cell)) in widths.iter().zip(row).enumerate() {
                let pad = " ".repeat(width - cell.chars().count());
                match column {
                    0 => line.extend([cell.as_str(), &pad]),
                    _ => line.extend(["  ", &pad, cell.as_str()]),
                }
            }
            writeln!(out, "{}", line.trim_end())?;
            if index == 0 {
                let rule = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
                writeln!(out, "{}", "-".repeat(rule))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_flush_left_and_figures_flush_right() {
        let mut table = Table::new(["class", "offered", "good"]);
        table
            .row(["critical", "7", "100.0 %"])
            .row(["static", "1234567890", "0"]);

        let text = table.to_string();

        assert_eq!(
            text,
            "class        offered     good\n\
             -----------------------------\n\
             critical           7  100.0 %\n\
             static    1234567890        0\n"
        );
    }
}
