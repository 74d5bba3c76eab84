//! Why a store is away, in a few words for the log.

use std::collections::BTreeSet;

/// Words that are told of what a server or a connection says.
const WORDS_MAX: usize = 12;
/// Characters of them.
const CHARS_MAX: usize = 120;
/// Different things that are told of one loss: what goes on changing is no news.
const TOLD_MAX: usize = 8;

/// What was heard of why calls fail.
#[derive(Debug, Default)]
pub(super) struct Said {
    last: String,
    told: BTreeSet<String>,
}

impl Said {
    /// Takes in what a server said, or why it said nothing.
    pub(super) fn hear(&mut self, said: &str) {
        let words: Vec<&str> = said.split_whitespace().take(WORDS_MAX).collect();
        self.last = words.join(" ").chars().take(CHARS_MAX).collect();
    }

    /// The first words of what was heard last.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// Whether that has not been told in this loss; it has been after this.
    pub(super) fn is_news(&mut self) -> bool {
        self.told.len() < TOLD_MAX && self.told.insert(self.last.clone())
    }

    /// The loss is over.
    pub(super) fn forget(&mut self) {
        self.last.clear();
        self.told.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_told_once_in_a_loss_and_never_for_ever() {
        let mut said = Said::default();
        said.hear("NOAUTH Authentication required.");
        assert!(said.is_news());
        assert_eq!(said.last(), "NOAUTH Authentication required.");
        assert!(!said.is_news());

        said.hear("LOADING Redis is loading the dataset in memory");
        assert!(said.is_news());
        said.hear("NOAUTH Authentication required.");
        assert!(!said.is_news());
        for number in 0..100 {
            said.hear(&number.to_string());
            assert_eq!(said.is_news(), number < 6, "{number}");
        }
        said.forget();

        said.hear("NOAUTH Authentication required.");
        assert!(said.is_news());
    }

    #[test]
    fn only_the_first_words_are_kept() {
        let mut said = Said::default();
        said.hear(&"word\n ".repeat(1_000));
        assert_eq!(said.last().split(' ').count(), WORDS_MAX);
        said.hear(&"x".repeat(1_000));
        assert_eq!(said.last().len(), CHARS_MAX);
    }
}
