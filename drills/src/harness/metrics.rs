//! The text that `/metrics` answers, as numbers.

use std::collections::BTreeMap;

use anyhow::Context as _;

/// Every sample of one scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metrics {
    samples: BTreeMap<Series, f64>,
}

/// A name and its labels.
type Series = (String, Vec<(String, String)>);

impl Metrics {
    /// Reads the Prometheus text format.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut samples = BTreeMap::new();
        for line in text.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (series, value) =
                parse_line(line).with_context(|| format!("not a sample: {line}"))?;
            samples.insert(series, value);
        }
        Ok(Self { samples })
    }

    /// The sum of all samples called `name` that have every one of `labels`.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        // An empty list of floats sums to -0.
        0.0 + self
            .samples
            .iter()
            .filter(|((own, own_labels), _)| own == name && has(own_labels, labels))
            .map(|(_, value)| value)
            .sum::<f64>()
    }

    /// What was counted after `earlier`. Gauges become differences too.
    #[must_use]
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let samples = self
            .samples
            .iter()
            .map(|(series, value)| {
                let before = earlier.samples.get(series).copied().unwrap_or(0.0);
                (series.clone(), value - before)
            })
            .collect();
        Self { samples }
    }

    /// The upper end of the bucket that quantile `q` of the histogram `name` falls into, over all
    /// its series with `labels`; `None` when nothing was counted. An estimate that errs upward.
    pub(crate) fn quantile(&self, name: &str, labels: &[(&str, &str)], q: f64) -> Option<f64> {
        let bucket = format!("{name}_bucket");
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for ((own, own_labels), count) in &self.samples {
            if *own != bucket || !has(own_labels, labels) {
                continue;
            }
            let (_, end) = own_labels.iter().find(|(label, _)| label == "le")?;
            let end = match end.as_str() {
                "+Inf" => f64::INFINITY,
                end => end.parse().ok()?,
            };
            match buckets.iter_mut().find(|(known, _)| *known == end) {
                Some((_, sum)) => *sum += count,
                None => buckets.push((end, *count)),
            }
        }
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (_, total) = *buckets.last()?;
        let wanted = q * total;
        let found = buckets.iter().find(|(_, count)| *count >= wanted);
        found.filter(|_| total > 0.0).map(|(end, _)| *end)
    }

    /// Sums of `name` by the values of `label`.
    pub(crate) fn by(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for ((own, labels), value) in &self.samples {
            if own == name
                && let Some((_, key)) = labels.iter().find(|(own, _)| own == label)
            {
                *sums.entry(key.clone()).or_insert(0.0) += value;
            }
        }
        sums
    }
}

fn has(own: &[(String, String)], wanted: &[(&str, &str)]) -> bool {
    wanted
        .iter()
        .all(|(name, value)| own.iter().any(|(n, v)| n == name && v == value))
}

fn parse_line(line: &str) -> Option<(Series, f64)> {
    let (series, value) = match line.find('{') {
        Some(open) => {
            let close = line.rfind('}')?;
            let labels = parse_labels(line.get(open + 1..close)?)?;
            ((line[..open].to_owned(), labels), &line[close + 1..])
        }
        None => {
            let (name, value) = line.split_once(' ')?;
            ((name.to_owned(), Vec::new()), value)
        }
    };
    let value = value.split_whitespace().next()?.parse().ok()?;
    Some((series, value))
}

fn parse_labels(mut text: &str) -> Option<Vec<(String, String)>> {
    let mut labels = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = rest.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, letter) => value.push(letter),
            }
        };
        labels.push((name.to_owned(), value));
        text = rest[end + 1..].trim_start_matches(',');
    }
    Some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP a_total A.\n# TYPE a_total counter\n\
        a_total{app=\"x, y\",class=\"static\"} 3\na_total{app=\"z\",class=\"static\"} 4\nup 1\n\
        w_bucket{le=\"0.1\"} 90\nw_bucket{le=\"0.2\"} 99\nw_bucket{le=\"+Inf\"} 100\n";

    #[test]
    fn samples_are_summed_over_labels_that_were_not_asked_for() {
        let metrics = Metrics::parse(TEXT).unwrap();

        assert_eq!(metrics.sum("a_total", &[("class", "static")]), 7.0);
        assert_eq!(metrics.sum("a_total", &[("app", "x, y")]), 3.0);
        assert_eq!(metrics.sum("up", &[]), 1.0);
        assert_eq!(metrics.sum("down", &[]), 0.0);
        assert_eq!(metrics.by("a_total", "app")["z"], 4.0);
        assert_eq!(metrics.since(&metrics).sum("a_total", &[]), 0.0);
    }

    #[test]
    fn a_quantile_is_the_upper_end_of_its_bucket() {
        let metrics = Metrics::parse(TEXT).unwrap();

        assert_eq!(metrics.quantile("w", &[], 0.5), Some(0.1));
        assert_eq!(metrics.quantile("w", &[], 0.99), Some(0.2));
        assert_eq!(metrics.quantile("w", &[], 0.995), Some(f64::INFINITY));
        assert_eq!(metrics.quantile("v", &[], 0.5), None);
    }
}
