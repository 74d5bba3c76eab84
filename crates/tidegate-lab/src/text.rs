//! Texts of others that are shown to people: in one line, of bounded length, and without anything
//! that a terminal would obey.

/// The most characters of somebody's value that are shown.
pub const SHOWN_MAX: usize = 80;

/// Whether `text` is what it looks like: no control characters, no line breaks, and no marks that
/// turn the direction of writing or cannot be seen.
pub fn is_plain(text: &str) -> bool {
    !text.chars().any(obeyed)
}

/// `text` with whatever a terminal would obey written out, line breaks and tabs excepted.
pub fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        if obeyed(letter) && !matches!(letter, '\n' | '\t') {
            plain.extend(letter.escape_unicode());
        } else {
            plain.push(letter);
        }
    }
    plain
}

/// The first `most` characters of `text`, with an ellipsis where there are more.
pub fn shortened(text: &str, most: usize) -> String {
    let mut short: String = text.chars().take(most).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// A value as it is shown in a message: short and harmless.
pub fn shown(text: &str) -> String {
    escaped(&shortened(text, SHOWN_MAX))
}

fn obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert!(is_plain("Höchstlast – 3×"));
        for text in ["\u{1b}[2J", "a\nb", "\u{9b}31m", "\u{202e}txt", "a\u{2066}"] {
            assert!(!is_plain(text), "{text:?}");
        }
        assert_eq!(escaped("a\u{1b}[2J\n\u{202e}b"), "a\\u{1b}[2J\n\\u{202e}b");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), SHOWN_MAX + 1);
    }
}
