//! Lines of an HAProxy configuration as words, by HAProxy's own rules of quoting.
//!
//! A backslash takes the next character as it is, single quotes take everything, double quotes all but backslashes and
//! variables. A `#` outside of quotes ends the line, also in the middle of a word. There is no way to go on in the next
//! line.

/// Words of a line, more than HAProxy takes.
const WORDS_MAX: usize = 256;

/// A word, and where it begins: its column, counted in characters from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) column: usize,
    /// It has a variable of the environment in it, so nobody knows what it says.
    pub(super) is_open: bool,
}

/// Why a line is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineError {
    /// A quote that is opened in this column is never closed.
    Quote(usize),
    /// It ends with a backslash, in this column.
    Continued(usize),
    /// There are too many words.
    Words,
}

/// The words of `line`, which has no line end.
pub(super) fn words(line: &str) -> Result<Vec<Word>, LineError> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    // The quote that is open, and where it was opened.
    let mut quote: Option<(char, usize)> = None;
    let mut chars = (1..).zip(line.chars()).peekable();
    while let Some((column, c)) = chars.next() {
        let begun = quote.is_some() || !(c.is_ascii_whitespace() || c == '#');
        if !begun {
            words.extend(word.take());
            if c == '#' {
                break;
            }
            continue;
        }
        if word.is_none() && words.len() == WORDS_MAX {
            return Err(LineError::Words);
        }
        let word = word.get_or_insert_with(|| Word {
            text: String::new(),
            column,
            is_open: false,
        });
        match (c, quote) {
            ('\\', None | Some(('"', _))) => {
                let (_, next) = chars.next().ok_or(LineError::Continued(column))?;
                word.text.push(next);
            }
            ('"' | '\'', None) => quote = Some((c, column)),
            (_, Some((open, _))) if c == open => quote = None,
            ('$', Some(('"', _))) => {
                word.is_open |= is_variable(chars.peek().map(|&(_, next)| next));
                word.text.push(c);
            }
            _ => word.text.push(c),
        }
    }
    if let Some((_, column)) = quote {
        return Err(LineError::Quote(column));
    }
    words.extend(word);
    Ok(words)
}

/// Whether what follows a `$` is the name of a variable.
fn is_variable(next: Option<char>) -> bool {
    next.is_some_and(|next| next == '{' || next == '_' || next.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        let words = words(line).unwrap();
        words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_parted_by_spaces_and_tabs() {
        assert_eq!(
            texts("  server\ta  127.0.0.1:1 "),
            ["server", "a", "127.0.0.1:1"]
        );
        assert!(texts("").is_empty());
        assert!(texts(" \t ").is_empty());
    }

    #[test]
    fn a_word_knows_its_column() {
        let words = words("  server a").unwrap();

        assert_eq!((words[0].column, words[1].column), (3, 10));
    }

    #[test]
    fn quotes_and_backslashes_are_taken_as_haproxy_takes_them() {
        assert_eq!(texts(r#"a "b c" d"#), ["a", "b c", "d"]);
        assert_eq!(texts(r"a 'b \c' d"), ["a", r"b \c", "d"]);
        assert_eq!(texts(r"a\ b c\#d"), ["a b", "c#d"]);
        assert_eq!(texts(r#"200'm's "in"ter"#), ["200ms", "inter"]);
        assert_eq!(texts(r#""" x"#), ["", "x"]);
        assert_eq!(texts(r#""say \"x\"""#), [r#"say "x""#]);
    }

    #[test]
    fn a_comment_begins_anywhere_outside_of_quotes() {
        assert_eq!(texts("# all"), Vec::<String>::new());
        assert_eq!(texts("check#no"), ["check"]);
        assert_eq!(texts("'#a' \"#b\" # c"), ["#a", "#b"]);
    }

    #[test]
    fn a_variable_makes_a_word_unknown() {
        let is_open = |line| words(line).unwrap()[0].is_open;

        assert!(is_open("\"$WEIGHT\""));
        assert!(is_open("\"a${WEIGHT}\""));
        assert!(!is_open("$WEIGHT"));
        assert!(!is_open("'$WEIGHT'"));
        assert!(!is_open("\"\\$WEIGHT\""));
        assert!(!is_open("\"5$\""));
    }

    #[test]
    fn what_is_not_closed_is_an_error() {
        assert_eq!(words("a 'b"), Err(LineError::Quote(3)));
        assert_eq!(words("a \"b\\\""), Err(LineError::Quote(3)));
        assert_eq!(words("balance \\"), Err(LineError::Continued(9)));
    }

    #[test]
    fn a_line_of_too_many_words_is_none() {
        assert_eq!(words(&"w ".repeat(256)).unwrap().len(), 256);
        assert_eq!(words(&"w ".repeat(257)), Err(LineError::Words));
    }
}
