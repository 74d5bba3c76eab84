//! Listens, accepts, and drives connections, so many at a time.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tidegate_store::Call;
use tidegate_store::limits::{LimitTable, LimitTablePlan, RedisLimits};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::charges::Limits;
use crate::counts::{Counts, Tally};
use crate::decide::Decider;
use crate::grpc::{self, Shared};
use crate::plan::RlsPlan;

/// Bytes of the headers of a call.
const HEAD_BYTES_MAX: u32 = 16 * 1024;
/// Calls that a client has taken back and we have not forgotten yet.
const RESET_STREAMS_MAX: usize = 64;
/// How long a client may take for what every client says first.
const FIRST_WORDS_WITHIN: Duration = Duration::from_secs(1);
/// How long that is (RFC 9113 §3.4).
const PREFACE_BYTES: usize = 24;
/// How often it is looked whether all of it is there, once some of it is.
const PREFACE_LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often it is looked whether a quiet client is still there, and how long it may take to say so.
const LOOK_EVERY: Duration = Duration::from_secs(30);
const LOOK_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait after the system refused a connection: it has no files left, most often.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long the first calls wait for the fleet's secret, and how often it is asked for meanwhile.
const SECRET_FIRST_WITHIN: Duration = Duration::from_secs(1);
const SECRET_FIRST_PAUSE: Duration = Duration::from_millis(5);
/// How often it is looked whether the store has the secret, and how often while it does not answer.
const SECRET_PAUSE: Duration = Duration::from_secs(30);
const SECRET_RETRY_PAUSE: Duration = Duration::from_millis(250);
/// How long calls under way may take at the end.
const LAST_CALLS_WITHIN: Duration = Duration::from_secs(1);

/// A running service, in a thread of its own. Dropping it ends it: clients are told to go elsewhere, and calls under way
/// are answered for a second more.
pub struct Rls {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Held for as long as it runs.
    alive: watch::Sender<()>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum RlsError {
    /// The address is not to be had.
    #[error("cannot listen on {address} for the rate limit service")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The system gives no thread.
    #[error("the thread of the rate limit service does not start")]
    Thread(#[source] io::Error),
}

impl Rls {
    /// Starts serving. Limits of a fleet are kept in `fleet`, or here where there is none.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub fn start(plan: RlsPlan, fleet: Option<RedisLimits>) -> Result<Self, RlsError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(RlsError::Thread)?;
        let bound = {
            // A listener belongs to the runtime that it was made in.
            let _guard = runtime.enter();
            bind(plan.listen)
        };
        let (listener, address) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                // The caller may be in a runtime of its own, where this one must not be waited for.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let counts = Arc::new(Counts::new(&plan));
        let table = LimitTable::new(LimitTablePlan {
            keys_max: plan.keys_max,
            // One thread asks.
            shards: 1,
        });
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).expect("the system has random bytes once it is up");
        let limits = Limits::new(plan.domains.clone(), plan.limits.clone(), secret);
        let shared = Arc::new(Shared {
            decider: Decider::new(limits, table, fleet, Arc::clone(&counts)),
            calls: Semaphore::new(plan.calls_max),
            started: Instant::now(),
            counts,
            plan,
        });
        let (alive, ended) = watch::channel(());
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("tidegate-rls".to_owned())
            .spawn(move || {
                runtime.block_on(run(listener, for_thread, ended));
                runtime.shutdown_background();
            })
            .map_err(RlsError::Thread)?;
        Ok(Self {
            address,
            shared,
            alive,
            thread: Some(thread),
        })
    }

    /// Where it listens; with the port that the system chose, where it was asked to choose.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells what was counted since the start, as often as it is asked, also after the end.
    pub fn teller(&self) -> impl Fn() -> Tally + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || {
            let stats = shared.decider.stats();
            Tally {
                keys: stats.keys,
                forgotten: stats.forgotten + stats.forgotten_in_debt,
                ..shared.counts.tally(&shared.plan)
            }
        }
    }
}

impl Drop for Rls {
    fn drop(&mut self) {
        let _ = self.alive.send(());
        if let Some(thread) = self.thread.take() {
            // It ends by itself within a second and a little.
            let _ = thread.join();
        }
    }
}

fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), RlsError> {
    let failed = |source| RlsError::Listen { address, source };
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let listener = TcpListener::from_std(listener).map_err(failed)?;
    Ok((listener, address))
}

async fn run(listener: TcpListener, shared: Arc<Shared>, mut ended: watch::Receiver<()>) {
    let most = shared.plan.connections_max;
    let connections = Arc::new(Semaphore::new(most));
    let theirs = ended.clone();
    if shared.decider.is_shared() {
        // Those who ask first are to be counted by the fleet's keys already.
        let call = Call::within(shared.plan.store_timeout);
        let known = async {
            while shared.decider.share_secret(call).await.is_err() {
                tokio::time::sleep(SECRET_FIRST_PAUSE).await;
            }
        };
        let _ = tokio::time::timeout(SECRET_FIRST_WITHIN, known).await;
        tokio::spawn(keep_secret(Arc::clone(&shared)));
    }
    tokio::select! {
        () = accept(&listener, &shared, &connections, &theirs) => {}
        _ = ended.changed() => {}
    }
    drop(listener);
    // All of them is none left.
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(LAST_CALLS_WITHIN, connections.acquire_many(most)).await;
}

/// Learns the secret of the fleet's keys, and keeps it in the store.
async fn keep_secret(shared: Arc<Shared>) {
    let call = Call::within(shared.plan.store_timeout);
    loop {
        let pause = match shared.decider.share_secret(call).await {
            Ok(()) => SECRET_PAUSE,
            Err(_) => SECRET_RETRY_PAUSE,
        };
        tokio::time::sleep(pause).await;
    }
}

async fn accept(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    connections: &Arc<Semaphore>,
    ended: &watch::Receiver<()>,
) {
    loop {
        let slot = Arc::clone(connections).acquire_owned().await;
        let slot = slot.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                tokio::spawn(drive(stream, Arc::clone(shared), ended.clone(), slot));
            }
            Err(error) => {
                tracing::warn!(%error, "the rate limit service cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Waits until all of what every client says first is there. It stays to be read.
async fn first_words(stream: &TcpStream) -> io::Result<()> {
    let mut words = [0; PREFACE_BYTES];
    loop {
        match stream.peek(&mut words).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            PREFACE_BYTES => return Ok(()),
            // What is there already keeps the socket readable, so nothing would wake us.
            _ => tokio::time::sleep(PREFACE_LOOK_EVERY).await,
        }
    }
}

/// Drives one connection to its end.
async fn drive(
    stream: TcpStream,
    shared: Arc<Shared>,
    mut ended: watch::Receiver<()>,
    _slot: OwnedSemaphorePermit,
) {
    // The engine waits for a client's first words for as long as it takes.
    tokio::select! {
        spoken = tokio::time::timeout(FIRST_WORDS_WITHIN, first_words(&stream)) => {
            if !matches!(spoken, Ok(Ok(()))) {
                return;
            }
        }
        _ = ended.changed() => return,
    }
    let streams_max = shared.plan.streams_max;
    let service = service_fn(move |request| grpc::serve(Arc::clone(&shared), request));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams_max)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_local_error_reset_streams(RESET_STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .keep_alive_interval(LOOK_EVERY)
        .keep_alive_timeout(LOOK_WITHIN);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // An error is a client that left or that speaks no HTTP/2: nothing that we could answer.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = ended.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
