//! Readings that applications post by themselves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_core::health::{Dimension, Signal, Validity};
use tidegate_core::time::Mono;

use super::sight::Sight;

/// Whoever posts: an application that has more sources posts under one name.
const SOURCES_MAX: usize = 16;
/// Readings of one source.
pub const POSTED_MAX: usize = 32;
/// How long what was posted is remembered. It has said nothing for far longer by then.
const KEPT: Duration = Duration::from_secs(60);

/// One reading that was posted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Posted {
    /// What was read.
    pub dimension: Dimension,
    /// So much of so much; `None` is a thing that the application knows nothing of.
    pub figures: Option<(f64, f64)>,
}

/// What was posted last, for whoever looks. Its copies are one board.
#[derive(Clone, Debug)]
pub struct Board {
    posts: Arc<Mutex<Vec<Post>>>,
    /// Where the time of its readings begins.
    origin: Instant,
}

#[derive(Debug)]
struct Post {
    source: String,
    at: Instant,
    posted: Vec<Posted>,
}

impl Post {
    fn is_kept(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < KEPT
    }
}

/// There is no room for another source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{SOURCES_MAX} sources have posted within a minute: post under fewer names")]
pub struct BoardFull;

impl Board {
    /// An empty one, whose time began at `origin`.
    pub fn new(origin: Instant) -> Self {
        Self {
            posts: Arc::default(),
            origin,
        }
    }

    /// Now, in the time of its readings.
    pub fn now(&self) -> Mono {
        self.mono(Instant::now())
    }

    /// Puts readings in place of all that `source` has posted before.
    ///
    /// # Errors
    ///
    /// When others have taken all the room.
    pub fn post(&self, source: &str, posted: Vec<Posted>) -> Result<(), BoardFull> {
        let now = Instant::now();
        let mut posts = self.lock();
        posts.retain(|post| post.is_kept(now) && post.source != source);
        if posts.len() == SOURCES_MAX {
            return Err(BoardFull);
        }
        posts.push(Post {
            source: source.to_owned(),
            at: now,
            posted,
        });
        Ok(())
    }

    /// Everything that is there, behind what is in `sights`. Its age is for whoever reads it to judge.
    pub fn put_on(&self, sights: &mut Vec<Sight>) {
        let now = Instant::now();
        // Of a source that has gone for good nothing is missing: it would be looked for in vain for ever.
        for post in self.lock().iter().filter(|post| post.is_kept(now)) {
            let at = self.mono(post.at);
            for &Posted { dimension, figures } in &post.posted {
                let sight = match figures {
                    Some(figures) => Sight::of(dimension, figures, post.source.clone(), at),
                    None => Sight {
                        signal: Signal::unknown(dimension, Validity::Unsupported, at),
                        source: post.source.clone().into(),
                        why: Some("it says that it does not know".into()),
                    },
                };
                sights.push(sight);
            }
        }
    }

    fn mono(&self, at: Instant) -> Mono {
        let since = at.saturating_duration_since(self.origin).as_nanos();
        Mono::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Post>> {
        // What is behind it is whole after every statement.
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(value: f64) -> Vec<Posted> {
        vec![Posted {
            dimension: Dimension::Pool,
            figures: Some((value, 10.0)),
        }]
    }

    #[test]
    fn a_source_replaces_what_it_said_and_nothing_of_others() {
        let board = Board::new(Instant::now());
        board.post("a", pool(1.0)).unwrap();
        board.post("b", pool(2.0)).unwrap();
        board.post("a", pool(3.0)).unwrap();

        let mut sights = Vec::new();
        board.put_on(&mut sights);

        let seen: Vec<_> = sights
            .iter()
            .map(|sight| (sight.source.as_ref(), sight.signal.value))
            .collect();
        assert_eq!(seen, [("b", 2.0), ("a", 3.0)]);
        assert_eq!(sights[0].signal.ratio(board.now()), Some(0.2));
    }

    #[test]
    fn what_was_posted_long_ago_is_not_looked_for_any_more() {
        let begun = Instant::now();
        let board = Board::new(begun);
        board.post("a", pool(1.0)).unwrap();
        let seen = || {
            let mut sights = Vec::new();
            board.put_on(&mut sights);
            sights.len()
        };
        assert_eq!(seen(), 1);

        let long_ago = begun.checked_sub(KEPT);
        board.lock()[0].at = long_ago.expect("the machine has run for longer than a minute");

        assert_eq!(seen(), 0);
    }

    #[test]
    fn there_is_room_for_so_many_sources() {
        let board = Board::new(Instant::now());
        for number in 0..SOURCES_MAX {
            board.post(&number.to_string(), pool(1.0)).unwrap();
        }

        assert_eq!(board.post("more", pool(1.0)), Err(BoardFull));
        assert_eq!(board.post("3", pool(1.0)), Ok(()));
    }

    #[test]
    fn what_is_not_known_and_what_makes_no_sense_say_nothing() {
        let board = Board::new(Instant::now());
        let posted = [None, Some((-1.0, 10.0)), Some((1.0, 0.0))].map(|figures| Posted {
            dimension: Dimension::Threads,
            figures,
        });
        board.post("a", posted.to_vec()).unwrap();

        let mut sights = Vec::new();
        board.put_on(&mut sights);

        assert!(
            sights
                .iter()
                .all(|sight| sight.signal.ratio(board.now()).is_none() && sight.why.is_some())
        );
    }
}
