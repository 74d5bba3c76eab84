//! The connections of applications to one dependency's listener: so many at once, and who goes when there is no room.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::time::Mono;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::connections::Kind;
use crate::context::Clock;
use crate::link::Link;

/// How soon another idle connection is told to go while there is still no room.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// All connections to one listener.
pub(super) struct Callers {
    places: Arc<Semaphore>,
    links: Mutex<Vec<Arc<Link>>>,
}

/// The right to have one. Dropping it makes room.
pub(super) struct Caller {
    callers: Arc<Callers>,
    link: Arc<Link>,
    _place: OwnedSemaphorePermit,
}

impl Callers {
    /// Room for so many.
    pub(super) fn new(connections_max: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(connections_max)),
            links: Mutex::default(),
        }
    }

    /// Room for one that is there, at the cost of those that have been idle longest; waits while all are busy.
    pub(super) async fn admit(self: &Arc<Self>, clock: Clock) -> Caller {
        let place = loop {
            let place = Arc::clone(&self.places).acquire_owned();
            if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
                break place;
            }
            self.evict();
            if let Ok(place) = timeout(LOOK_EVERY, place).await {
                break place.expect("the semaphore is never closed");
            }
        };
        let mut links = self.lock();
        let link = Link::new(links.len(), Kind::Normal, clock.now());
        let link = Arc::new(link);
        links.push(Arc::clone(&link));
        Caller {
            callers: Arc::clone(self),
            link,
            _place: place,
        }
    }

    /// Tells the connection to go that has been idle longest.
    fn evict(&self) {
        let links = self.lock();
        let idle = |link: &&Arc<Link>| -> Option<Mono> {
            let has_head = link.head_since().is_some();
            link.idle_since()
                .filter(|_| !has_head && !link.is_evicted())
        };
        let longest = links.iter().filter_map(|link| Some((idle(&link)?, link)));
        if let Some((_, link)) = longest.min_by_key(|(since, _)| *since) {
            link.evict();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller {
    pub(super) const fn link(&self) -> &Arc<Link> {
        &self.link
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut links = self.callers.lock();
        let place = self.link.place();
        links.swap_remove(place);
        if let Some(moved) = links.get(place) {
            moved.move_to(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn who_has_been_idle_longest_goes_first_and_who_is_busy_stays() {
        let (clock, callers) = (Clock::start(), Arc::new(Callers::new(3)));
        let busy = callers.admit(clock).await;
        let _exchange = busy.link().begin(clock);
        let idle = callers.admit(clock).await;
        let later = callers.admit(clock).await;
        drop(later.link().begin(clock));

        let mut next = pin!(callers.admit(clock));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(next.as_mut().poll(&mut context), Poll::Pending));

        assert!(idle.link().is_evicted());
        assert!(!busy.link().is_evicted() && !later.link().is_evicted());
        drop(idle);
        next.await;
        assert_eq!(callers.lock().len(), 2);
    }
}
