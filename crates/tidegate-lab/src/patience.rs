//! How a test waits for what comes about by itself: it looks again and again, and not for ever.
//!
//! A pause that ought to be long enough is too short on some busy day and too long on all others.
//! Whoever waits names what for, so that a test that waits in vain says so.

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Longest wait, far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `look` finds, as soon as it finds anything: it looks at once, and then 2 ms after each look
/// in vain.
///
/// # Panics
///
/// When there is nothing after 60 s, with the name of `what` was waited for. A look that is under
/// way by then is dropped.
pub async fn until<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    found_within(PATIENCE, what, look).await
}

/// Waits until `is_so` says so, as [`until`] does.
///
/// # Panics
///
/// When it does not within 60 s, with the name of `what` was waited for.
pub async fn until_so(what: &str, mut is_so: impl FnMut() -> bool) {
    until(what, async || is_so().then_some(())).await;
}

async fn found_within<T>(
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let looking = timeout(patience, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            sleep(LOOK_EVERY).await;
        }
    });
    match looking.await {
        Ok(found) => found,
        Err(_) => panic!("not in time: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const SHORT: Duration = Duration::from_millis(10);

    #[tokio::test]
    async fn it_looks_until_there_is_something() {
        let mut looks = 0;

        let found = until("the third look", async || {
            looks += 1;
            (looks == 3).then_some("here")
        });

        assert_eq!(found.await, "here");
        until_so("one more look", || {
            looks += 1;
            looks > 4
        })
        .await;
        assert_eq!(looks, 5);
    }

    #[tokio::test]
    #[should_panic(expected = "not in time: the moon")]
    async fn in_vain_it_says_what_it_waited_for() {
        found_within(SHORT, "the moon", async || None::<()>).await;
    }

    #[tokio::test]
    #[should_panic(expected = "not in time: an answer")]
    async fn a_look_that_does_not_end_is_not_waited_for_either() {
        found_within(SHORT, "an answer", async || {
            pending::<()>().await;
            Some(())
        })
        .await;
    }
}
