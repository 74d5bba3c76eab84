//! A web shop like a server with blocking workers: a fixed number of slots, an unbounded queue in
//! front of them, and jobs that run to their end even when their caller has left.
//!
//! It is what Tidegate protects in the demo and the drills. It protects itself from nothing: no
//! limit, no deadline, no timeout. All of it runs on one thread of its own.
//!
//! | path | what it does |
//! |---|---|
//! | `/browse/…`, `/checkout…`, `/static/…`, `/account/…`, `/background/…`, any other | one job of the service time |
//! | `/recommend/…` | the same, times the factor by which its dependency is slow |
//! | `/product/…` | a job, and then a call of the slot's own for recommendations, where there are some to be had; the page comes with them or without |
//! | `/hang?ms=N` | holds a slot for N ms |
//! | `/page?bytes=N` | a job, then N bytes that hold the slot until all but the last piece is taken |
//! | `/burn?us=N` | a slot that uses N µs of CPU time |
//! | `/echo`, `/headers` | the request's body, or its header fields; no slot |
//! | `/stats` | [`ShopStats`] as JSON; no slot |
//! | `/times?work=serve`, `/times?work=recommend` | how long slots were held for it, in µs, one a line, if times are kept; no slot |
//! | `/control?slots=N&recommend_factor=F&recommendations=A&stall_ms=N` | changes the shop while it runs, says at which address recommendations are to be had, or stops all work for N ms; no slot |

mod body;
mod plan;
mod site;
mod slots;
mod stall;
mod stats;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

pub use plan::{ServiceLaw, ShopPlan};
pub use stats::ShopStats;

use slots::Slots;

/// Connections that may wait to be accepted; the kernel cuts it to its own limit.
const BACKLOG: i32 = 65_535;

/// A shop that is open. Dropping it closes it at once, with whatever is inside.
pub struct Shop {
    address: SocketAddr,
    slots: Arc<Slots>,
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Shop {
    /// Opens a shop at `listen`; port 0 picks a free one.
    pub fn open(listen: SocketAddr, plan: ShopPlan) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            let socket = socket2::Socket::new(
                socket2::Domain::for_address(listen),
                socket2::Type::STREAM,
                None,
            )?;
            socket.set_reuse_address(true)?;
            socket.set_nonblocking(true)?;
            socket.bind(&listen.into())?;
            socket.listen(BACKLOG)?;
            tokio::net::TcpListener::from_std(socket.into())?
        };
        let address = listener.local_addr()?;
        let slots = Arc::new(Slots::new(plan, runtime.handle().clone()));
        let (close, closed) = oneshot::channel();

        let thread = std::thread::Builder::new().name("shop".to_owned()).spawn({
            let slots = Arc::clone(&slots);
            move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = site::serve(listener, slots) => {}
                        _ = closed => {}
                    }
                });
                // Jobs in progress are not waited for: a hung one may last for half a minute.
                runtime.shutdown_background();
            }
        })?;
        Ok(Self {
            address,
            slots,
            close: Some(close),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its own counters.
    pub fn stats(&self) -> ShopStats {
        self.slots.stats()
    }

    /// Starts `inside_max` and `queue_max` again from what is inside now.
    pub fn restart_maxima(&self) {
        self.slots.restart_maxima();
    }

    /// Changes the number of slots; jobs in slots that no longer exist end as usual.
    pub fn set_slots(&self, slots: u32) {
        self.slots.set_slots(slots);
    }

    /// Changes by how much `/recommend` jobs take longer, for jobs that start from now on.
    pub fn set_recommend_factor(&self, factor: f64) {
        self.slots.set_recommend_factor(factor);
    }

    /// Closes the shop and waits until its thread has ended.
    pub fn close(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.close.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
