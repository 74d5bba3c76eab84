//! Colours of a theme, and whether one can be read on another.

use std::fmt;

use serde::Deserialize;

/// A colour without transparency, written `#rgb` or `#rrggbb`. Nothing else gets into the style, so that a theme cannot bring
/// in more than colours, and so that contrast can be worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Colour([u8; 3]);

/// A text that is no [`Colour`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a colour is written #rgb or #rrggbb, not {0:?}")]
pub struct BadColour(pub String);

impl Colour {
    /// Of red, green and blue, in sRGB.
    pub const fn new(red: u8, green: u8, blue: u8) -> Self {
        Self([red, green, blue])
    }

    /// The colour that `text` writes.
    pub fn parse(text: &str) -> Result<Self, BadColour> {
        Self::hex(text).ok_or_else(|| BadColour(text.to_owned()))
    }

    fn hex(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#')?;
        let value =
            |at: usize| u8::try_from(char::from(*digits.as_bytes().get(at)?).to_digit(16)?).ok();
        let each = |index: usize| match digits.len() {
            3 => Some(value(index)? * 17),
            6 => Some(value(2 * index)? * 16 + value(2 * index + 1)?),
            _ => None,
        };
        Some(Self([each(0)?, each(1)?, each(2)?]))
    }

    /// How far the two are apart for the eye, from 1 (the same) to 21 (black and white): the contrast ratio of WCAG 2.2.
    pub fn contrast(self, other: Self) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// A mix of `part` (0 to 1) of this and the rest of `other`.
    #[must_use]
    pub fn mixed(self, part: f64, other: Self) -> Self {
        let mix = |at: usize| {
            let mixed = f64::from(self.0[at]) * part + f64::from(other.0[at]) * (1.0 - part);
            mixed.round().clamp(0.0, 255.0) as u8
        };
        Self([mix(0), mix(1), mix(2)])
    }

    /// The relative luminance of WCAG 2.2, from 0 to 1.
    fn luminance(self) -> f64 {
        let [red, green, blue] = self.0.map(|byte| {
            let part = f64::from(byte) / 255.0;
            if part <= 0.04045 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
}

impl TryFrom<String> for Colour {
    type Error = BadColour;

    fn try_from(text: String) -> Result<Self, BadColour> {
        Self::parse(&text)
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_is_three_or_six_digits_and_nothing_else() {
        assert_eq!(Colour::parse("#0b5c8a").unwrap(), Colour::new(11, 92, 138));
        assert_eq!(Colour::parse("#fA0").unwrap(), Colour::new(255, 170, 0));
        for bad in [
            "",
            "#",
            "0b5c8a",
            "#0b5c8",
            "#0b5c8aff",
            "#ggg",
            "red",
            "#fff;}",
            "#é00",
        ] {
            assert!(Colour::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Colour::new(11, 92, 138).to_string(), "#0b5c8a");
    }

    #[test]
    fn contrast_is_that_of_the_guidelines() {
        let (black, white) = (Colour::new(0, 0, 0), Colour::new(255, 255, 255));
        assert!((black.contrast(white) - 21.0).abs() < 1e-9);
        assert!((white.contrast(white) - 1.0).abs() < 1e-9);
        // #767676 on white is known as the lightest grey that passes.
        assert!(Colour::new(0x76, 0x76, 0x76).contrast(white) >= 4.5);
        assert!(Colour::new(0x77, 0x77, 0x77).contrast(white) < 4.5);
    }
}
