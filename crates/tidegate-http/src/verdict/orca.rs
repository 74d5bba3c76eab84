//! Load reports in the text form of ORCA, for balancers that work out weights themselves.
//!
//! One key that such a balancer does not know, or one value that is no number, and the whole report is dropped: the
//! node then gets the median of the others, and an overloaded one is promoted. So nothing is written here but two
//! keys that everybody knows, with plain decimal numbers.

use super::Load;

/// What completed requests a second are multiplied by. A balancer cuts requests ÷ utilization to a whole number, which
/// would be 0 for a node with few requests; only the ratios between nodes matter.
pub const RPS_SCALE: f64 = 10.0;

/// Utilizations above this say nothing more.
const UTILIZATION_MAX: f64 = 1_000.0;
/// A node that is used less than this gets no larger weight for it: the weight has 32 bits.
const UTILIZATION_MIN: f64 = 0.001;
/// Requests a second above this say nothing more, for the same reason.
const RPS_MAX: f64 = 100_000.0;

/// The report of `load`. `None` when it would say nothing: without completed requests, or when something is no number.
///
/// Errors count as load, once: a node that fails fast is otherwise the least used of all and gets everything.
pub fn text(load: &Load) -> Option<String> {
    let figures = [load.utilization, load.error_ratio, load.completed_per_s];
    if figures.iter().any(|it| !it.is_finite() || *it < 0.0) {
        return None;
    }
    let used = load.utilization + load.error_ratio.min(1.0);
    let used = used.clamp(UTILIZATION_MIN, UTILIZATION_MAX);
    let rps = load.completed_per_s.min(RPS_MAX) * RPS_SCALE;
    // What would be written as zero is no rate: such a report is not used either.
    (rps >= 0.001)
        .then(|| format!("TEXT application_utilization={used:.3},rps_fractional={rps:.3}"))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::super::{LOAD_METRICS, LOAD_METRICS_BIN, Verdict, X_LOAD_METRICS, report_load};
    use super::*;

    /// A generator that is good enough to draw bit patterns.
    struct Bits(u64);

    impl Bits {
        fn draw(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        /// Any number there is, and those that are special more often than chance would have it.
        fn number(&mut self) -> f64 {
            let special = [
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                0.0,
                -0.0,
                -1.0,
                f64::MAX,
                f64::MIN_POSITIVE,
                5e-324,
                1e300,
            ];
            match self.draw() % 4 {
                0 => special[(self.draw() % special.len() as u64) as usize],
                1 => f64::from_bits(self.draw()),
                2 => (self.draw() % 1_000_000) as f64 / 1_000.0,
                _ => (self.draw() % 2_000) as f64 / 1_000.0,
            }
        }
    }

    /// Reads a report as strictly as the strictest balancer does.
    fn parse(text: &str) -> (f64, f64) {
        let mut figures = [None, None];
        for pair in text.strip_prefix("TEXT ").expect("the form").split(',') {
            let (key, value) = pair.split_once('=').expect("a pair");
            let place = match key {
                "application_utilization" => 0,
                "rps_fractional" => 1,
                other => panic!("the unknown key {other}"),
            };
            let plain = |byte: u8| byte.is_ascii_digit() || byte == b'.';
            assert!(value.bytes().all(plain), "{value} is no plain decimal");
            assert!(figures[place].is_none(), "{key} twice");
            figures[place] = Some(value.parse().unwrap());
        }
        (figures[0].expect("used"), figures[1].expect("a rate"))
    }

    #[test]
    fn whatever_is_measured_a_report_has_two_known_keys_and_two_numbers_or_is_none() {
        let mut bits = Bits(0x9e37_79b9_7f4a_7c15);
        let mut said = 0;
        for _ in 0..200_000 {
            let load = Load {
                utilization: bits.number(),
                error_ratio: bits.number(),
                completed_per_s: bits.number(),
            };
            let Some(text) = text(&load) else { continue };
            said += 1;

            let (used, rps) = parse(&text);

            assert!((0.001..=1_000.0).contains(&used), "{text}");
            assert!(rps > 0.0, "{text}");
            assert!(rps / used < f64::from(u32::MAX), "{text}");
        }
        assert!(said > 10_000, "hardly anything was said: {said}");
    }

    #[test]
    fn an_answer_carries_one_sound_report_or_none_whatever_stood_there() {
        let mut bits = Bits(0x0123_4567_89ab_cdef);
        let others = [
            "TEXT rps=5",
            "JSON {\"cpu_utilization\": 1}",
            "TEXT application_utilization=nan",
            "",
        ];
        let names = [LOAD_METRICS, X_LOAD_METRICS, LOAD_METRICS_BIN];
        let mut said = 0;
        for _ in 0..20_000 {
            let verdict = Verdict {
                headroom: Some(bits.number()),
                load: (!bits.draw().is_multiple_of(4)).then(|| Load {
                    utilization: bits.number(),
                    error_ratio: bits.number(),
                    completed_per_s: bits.number(),
                }),
                ..Verdict::UNKNOWN
            };
            let mut headers = HeaderMap::new();
            for name in &names {
                for _ in 0..bits.draw() % 3 {
                    let other = others[(bits.draw() % others.len() as u64) as usize];
                    headers.append(name, HeaderValue::from_static(other));
                }
            }

            report_load(&mut headers, verdict.report());

            assert!(!headers.contains_key(LOAD_METRICS_BIN));
            let [one, other] = [LOAD_METRICS, X_LOAD_METRICS].map(|name| {
                let values = headers.get_all(name).iter();
                values
                    .map(|value| value.to_str().unwrap())
                    .collect::<Vec<_>>()
            });
            assert_eq!(one, other);
            match one[..] {
                [] => {}
                [report] => {
                    said += 1;
                    let (used, rps) = parse(report);
                    assert!(used >= 0.001 && rps > 0.0, "{report}");
                }
                _ => panic!("{one:?}"),
            }
        }
        assert!(said > 1_000, "hardly anything was said: {said}");
    }

    #[test]
    fn errors_count_as_load() {
        let load = Load {
            utilization: 0.05,
            error_ratio: 1.0,
            completed_per_s: 100.0,
        };

        assert_eq!(parse(&text(&load).unwrap()), (1.05, 1_000.0));
    }

    #[test]
    fn a_node_that_completes_nothing_reports_nothing() {
        let load = Load {
            utilization: 0.9,
            error_ratio: 0.0,
            completed_per_s: 0.0,
        };

        assert_eq!(text(&load), None);
    }
}
