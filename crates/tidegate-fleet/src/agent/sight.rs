//! What was seen, where, and why nothing was when nothing was.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use tidegate_core::health::{Dimension, Signal, Validity};
use tidegate_core::time::Mono;

/// One reading with where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Sight {
    /// The reading.
    pub signal: Signal,
    /// Where it was read, in the words of whoever told: a file, a metric, a bean.
    pub source: Cow<'static, str>,
    /// Why it says nothing, when it does not.
    pub why: Option<Cow<'static, str>>,
}

/// Why nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blank {
    /// [`Validity::Unsupported`] where there is no such thing here, else [`Validity::Error`].
    pub validity: Validity,
    /// The reason, for people.
    pub why: Cow<'static, str>,
}

impl Sight {
    /// `value` of `limit`. What cannot be is not believed, whoever says it: −1 and NaN are how sources say that they do not
    /// know.
    pub(crate) fn of(
        dimension: Dimension,
        (value, limit): (f64, f64),
        source: impl Into<Cow<'static, str>>,
        at: Mono,
    ) -> Self {
        let signal = Signal::read(dimension, value, limit, at);
        let makes_none = signal.validity != Validity::Ok;
        Self {
            signal,
            source: source.into(),
            why: makes_none.then(|| Cow::Owned(disbelief(value, limit))),
        }
    }

    /// Nothing, and why.
    pub(crate) fn blank(
        dimension: Dimension,
        blank: Blank,
        source: impl Into<Cow<'static, str>>,
        at: Mono,
    ) -> Self {
        Self {
            signal: Signal::unknown(dimension, blank.validity, at),
            source: source.into(),
            why: Some(blank.why),
        }
    }

    /// What was read, or why nothing was.
    pub(crate) fn read(
        dimension: Dimension,
        read: Result<(f64, f64), Blank>,
        source: impl Into<Cow<'static, str>>,
        at: Mono,
    ) -> Self {
        match read {
            Ok(figures) => Self::of(dimension, figures, source, at),
            Err(blank) => Self::blank(dimension, blank, source, at),
        }
    }
}

/// Why `value` of `limit` says nothing.
fn disbelief(value: f64, limit: f64) -> String {
    let is_unknown = |figure: f64| figure.is_nan() || figure == -1.0;
    // Plain digits of 1e20 would be read as a number that somebody has counted.
    let figure = |figure: f64| {
        if figure.abs() < 1e15 {
            format!("{figure}")
        } else {
            format!("{figure:e}")
        }
    };
    let said = format!("not believed: {} of {}", figure(value), figure(limit));
    if is_unknown(value) || is_unknown(limit) {
        said + ", which is how a source says that it does not know"
    } else {
        said
    }
}

impl Blank {
    /// There is no such thing here.
    pub(crate) fn unsupported(why: impl Into<Cow<'static, str>>) -> Self {
        Self {
            validity: Validity::Unsupported,
            why: why.into(),
        }
    }

    /// It should be there, and says nothing.
    pub(crate) fn error(why: impl Into<Cow<'static, str>>) -> Self {
        Self {
            validity: Validity::Error,
            why: why.into(),
        }
    }

    /// Nothing yet: what is told by a difference needs two looks.
    pub(crate) const fn first_look() -> Self {
        Self {
            validity: Validity::Unsupported,
            why: Cow::Borrowed("a difference needs two looks, and time between them"),
        }
    }

    /// What `error` means when `path` was to be read. A file that is not there, and one that a kernel has compiled in
    /// and switched off, are things that there are not: they are never zero.
    pub(crate) fn of_file(error: &io::Error, path: &Path) -> Self {
        let off = error.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error());
        let path = path.display();
        if off {
            Self::unsupported(format!("{path} is switched off in this kernel"))
        } else if error.kind() == io::ErrorKind::NotFound {
            Self::unsupported(format!("there is no {path}"))
        } else {
            Self::error(format!("cannot read {path}: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_has_pressure_switched_off_is_not_one_without_pressure() {
        let switched_off = io::Error::from(rustix::io::Errno::OPNOTSUPP);
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        let path = Path::new("pressure/cpu");

        let of = |error| Blank::of_file(error, path).validity;

        assert_eq!(of(&switched_off), Validity::Unsupported);
        assert_eq!(of(&missing), Validity::Unsupported);
        assert_eq!(of(&refused), Validity::Error);
        let at = Mono::from_millis(0);
        let blank = Blank::of_file(&switched_off, path);
        let sight = Sight::blank(Dimension::PsiCpu, blank, "pressure/cpu", at);
        assert_eq!(sight.signal.ratio(at), None);
    }

    #[test]
    fn minus_one_is_told_as_not_known() {
        let at = Mono::from_millis(0);

        let sight = Sight::of(Dimension::Threads, (3.0, -1.0), "x", at);

        assert_eq!(sight.signal.validity, Validity::Error);
        assert_eq!(
            sight.why.unwrap(),
            "not believed: 3 of -1, which is how a source says that it does not know"
        );
    }

    #[test]
    fn a_figure_that_cannot_be_is_shown_and_not_used() {
        let at = Mono::from_millis(0);
        for (figures, why) in [
            ((1e20, 150.0), "not believed: 1e20 of 150"),
            ((-7.0, 150.0), "not believed: -7 of 150"),
            ((3_000.0, 150.0), "not believed: 3000 of 150"),
            ((1.0, f64::INFINITY), "not believed: 1 of inf"),
        ] {
            let sight = Sight::of(Dimension::Threads, figures, "x", at);

            assert_eq!(sight.signal.ratio(at), None);
            assert_eq!(sight.why.as_deref(), Some(why));
        }
    }
}
