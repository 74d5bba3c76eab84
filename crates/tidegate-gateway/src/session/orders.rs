//! From the head of an application's answer to what it leaves behind: changes in the store, cookies
//! on the answer.

use std::mem;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use tidegate_core::session::SessionId;

use crate::context::Thread;
use crate::session::commands::Commands;
use crate::session::cookie::Cookies;
use crate::session::guest::{Guest, Known};
use crate::session::outcome::Dropped;
use crate::session::plan::OnUnstored;
use crate::session::work::Work;

/// What an application wants to have done.
///
/// Dropped before it was done, because the client has left, it is done all the same: the
/// application has done its part of the work, and remembers it in the session.
#[derive(Default)]
pub(crate) struct Orders {
    lines: Vec<(HeaderName, HeaderValue)>,
    holder: Option<Arc<Known>>,
}

/// What is left to be done with an answer.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// The cookies that it sets.
    pub(crate) cookies: Cookies,
    /// Whether something that the application wanted was not done.
    pub(crate) unstored: bool,
    /// What has become of the session that the browser has the secret of.
    pub(crate) since: Since,
}

/// What has become of the session that a browser has the secret of, by an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Since {
    /// It is the same.
    #[default]
    Same,
    /// It has this id from now on.
    Is(SessionId),
    /// The browser has none from now on.
    Gone,
}

impl Orders {
    /// The commands of an answer to a request of `holder`.
    pub(crate) const fn new(
        lines: Vec<(HeaderName, HeaderValue)>,
        holder: Option<Arc<Known>>,
    ) -> Self {
        Self { lines, holder }
    }

    /// Takes out the lines of this name, which are for another part of Tidegate.
    pub(crate) fn take(&mut self, of: &str) -> Vec<HeaderValue> {
        let taken = self.lines.extract_if(.., |(name, _)| name.as_str() == of);
        taken.map(|(_, value)| value).collect()
    }

    /// Does what the application wants for `guest`, and says what that makes of the answer.
    pub(crate) async fn settle(
        mut self,
        thread: &Arc<Thread>,
        app: usize,
        route: usize,
        guest: Guest,
    ) -> Settled {
        let lines = mem::take(&mut self.lines);
        let known = match guest {
            Guest::Uninvolved | Guest::New if lines.is_empty() => return Settled::default(),
            Guest::Uninvolved => {
                let count = lines.len() as u64;
                thread
                    .recorder
                    .session_dropped(app, Dropped::Uninvolved, count);
                // Somebody has taken the route out of sessions: that is no reason to fail it.
                return Settled::default();
            }
            Guest::New => Arc::new(Known::newcomer(thread, app, route)),
            Guest::Known(known) => known,
        };
        let commands = Commands::parse(&lines);
        let work = Work::new(known);
        if commands.is_empty() && !work.is_rotation_due() {
            return work.settle(commands.malformed);
        }
        let done = thread.runtime.spawn(work.carry_out(commands));
        // It has panicked: what was done nobody knows.
        done.await.unwrap_or(Settled {
            unstored: true,
            ..Settled::default()
        })
    }
}

impl Settled {
    /// Whether the answer is to be replaced by a refusal.
    pub(crate) fn fails(&self, on_unstored: OnUnstored) -> bool {
        self.unstored && on_unstored == OnUnstored::Fail
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        let Some(holder) = self.holder.take().filter(|_| !self.lines.is_empty()) else {
            return;
        };
        let commands = Commands::parse(&self.lines);
        let runtime = holder.thread.runtime.clone();
        runtime.spawn(Work::new(holder).carry_out(commands));
    }
}
