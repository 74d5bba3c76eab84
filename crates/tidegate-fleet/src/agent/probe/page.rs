//! The text format of Prometheus, as far as numbers go.

/// One number of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    /// What stands between the braces.
    labels: &'a str,
    pub(super) value: f64,
}

/// The numbers on `page`, in their order. A line that makes no sense is passed over.
pub(super) fn samples(page: &str) -> impl Iterator<Item = Sample<'_>> {
    page.lines().filter_map(sample)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let end = line.find(|c: char| c == '{' || c.is_ascii_whitespace())?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inner) => {
            let close = closing(inner)?;
            (&inner[..close], &inner[close + 1..])
        }
        None => ("", rest),
    };
    // A time may stand behind it.
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample {
        name,
        labels,
        value,
    })
}

/// Where the braces close: not within a value.
fn closing(inner: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

impl<'a> Sample<'a> {
    /// Its labels: names, and values as they were written.
    pub(super) fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut rest = self.labels;
        std::iter::from_fn(move || {
            let (name, behind) = rest.trim_start_matches([',', ' ']).split_once("=\"")?;
            let end = quote(behind)?;
            rest = &behind[end + 1..];
            Some((name.trim(), &behind[..end]))
        })
    }

    /// Its labels as they stand on the page.
    pub(super) const fn written_labels(&self) -> &'a str {
        self.labels
    }

    /// The value of the label `name`.
    pub(super) fn label(&self, name: &str) -> Option<&'a str> {
        self.labels()
            .find_map(|(its, value)| (its == name).then_some(value))
    }

    /// Whether `limit` is the limit of this one: nothing that says what it is of says something else here.
    pub(super) fn is_limited_by(&self, limit: &Self) -> bool {
        limit
            .labels()
            .all(|(name, value)| self.label(name) == Some(value))
    }
}

fn quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_numbers_are_told_apart() {
        let page = "# HELP a b\n# TYPE a gauge\na{x=\"1, }\",y=\"q\\\"}\",} 2.5 1700000000\nb 3\nc NaN\nd{ 4\ne{} x\n\nf{z=\"\"} -1\n";

        let read: Vec<Sample<'_>> = samples(page).collect();

        assert_eq!(read.len(), 4);
        assert_eq!((read[0].name, read[0].value), ("a", 2.5));
        let labels: Vec<_> = read[0].labels().collect();
        assert_eq!(labels, [("x", "1, }"), ("y", "q\\\"}")]);
        assert_eq!((read[1].name, read[1].value), ("b", 3.0));
        assert!(read[2].value.is_nan());
        assert_eq!((read[3].label("z"), read[3].value), (Some(""), -1.0));
    }

    #[test]
    fn a_limit_is_that_of_the_same_thing() {
        let page =
            "used{pool=\"a\",state=\"used\"} 1\nmax{pool=\"a\"} 2\nmax{pool=\"b\"} 3\nmax 4\n";
        let read: Vec<Sample<'_>> = samples(page).collect();

        assert!(read[0].is_limited_by(&read[1]));
        assert!(!read[0].is_limited_by(&read[2]));
        assert!(read[0].is_limited_by(&read[3]));
    }
}
