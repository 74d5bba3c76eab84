//! HAProxy's agent check: it connects, reads one line, and sets the server by it.
//!
//! The line is complete each time, state, readiness and weight, since each of the three stays what it was until it is said
//! anew: a server that was told `drain` once and only gets weights afterwards never comes back.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate_http::verdict::{Board, Told, Verdict};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::counts::AgentCheckTally;
use crate::counts::Count;

/// Longest time for a balancer to take the line and close.
const PARTING_TIME_MAX: Duration = Duration::from_secs(1);
/// Bytes that a balancer may have sent meanwhile (`agent-send`); they are not looked at.
const SENT_BYTES_MAX: usize = 1024;
/// How long to wait after the system refused a connection: it has no files left, most often.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How many intervals the last word is said for.
const FAREWELL_INTERVALS: u32 = 2;

/// What an agent check is started with, already checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCheckPlan {
    /// Where balancers ask.
    pub listen: SocketAddr,
    /// Connections that are looked after at once, 1 and more; further ones get their line and are closed at once.
    pub connections_max: usize,
    /// How often a balancer asks: its `agent-inter`.
    pub interval: Duration,
    /// Requests that one balancer may have at this node at once, if it is to be told.
    pub maxconn: Option<NonZeroU32>,
}

impl AgentCheckPlan {
    /// For how long the last word is said: until every balancer has asked.
    pub fn farewell(&self) -> Duration {
        self.interval * FAREWELL_INTERVALS
    }
}

/// A running agent check. Dropping it ends it at once; see [`AgentCheck::leave`] for the gentle way.
#[derive(Debug)]
pub struct AgentCheck {
    address: SocketAddr,
    farewell: Duration,
    counts: Arc<Counts>,
    leaving: watch::Sender<bool>,
    /// Held for as long as it runs.
    _alive: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct Counts {
    told: Count,
    crowded: Count,
    failed: Count,
}

struct Shared {
    board: Arc<Board>,
    maxconn: Option<NonZeroU32>,
    leaving: watch::Receiver<bool>,
    counts: Arc<Counts>,
}

impl AgentCheck {
    /// Listens, and tells what hangs on `board`, in a thread of its own: a gateway that has a lot to do still answers.
    ///
    /// # Errors
    ///
    /// When it cannot listen, or the system gives no thread.
    pub fn start(plan: &AgentCheckPlan, board: Arc<Board>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let socket = std::net::TcpListener::bind(plan.listen)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let counts = Arc::new(Counts::default());
        let (leaving, left) = watch::channel(false);
        let shared = Arc::new(Shared {
            board,
            maxconn: plan.maxconn,
            leaving: left,
            counts: counts.clone(),
        });
        let places = Arc::new(Semaphore::new(plan.connections_max));
        let (alive, ended) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("tidegate-agent-check".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(socket, shared, places) => {}
                        _ = ended => {}
                    }
                });
                runtime.shutdown_background();
            })?;
        Ok(Self {
            address,
            farewell: plan.farewell(),
            counts,
            leaving,
            _alive: alive,
        })
    }

    /// Where balancers ask; with the port that the system chose, where it was asked to choose.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Says from now on that the node is all right, unless an operator has taken it out, for two intervals, and then ends.
    ///
    /// A balancer keeps what an agent said last for ever. What a node should have while nobody watches it is everything.
    pub async fn leave(self) {
        self.leaving.send_replace(true);
        sleep(self.farewell).await;
    }

    /// Tells what was counted since the start, as often as it is asked, also after the end.
    pub fn teller(&self) -> impl Fn() -> AgentCheckTally + Send + Sync + use<> {
        let counts = Arc::clone(&self.counts);
        move || AgentCheckTally {
            told: counts.told.read(),
            crowded: counts.crowded.read(),
            failed: counts.failed.read(),
        }
    }
}

async fn accept(socket: std::net::TcpListener, shared: Arc<Shared>, places: Arc<Semaphore>) {
    let listener = match TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the agent check cannot listen");
            return;
        }
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let place = Arc::clone(&places).try_acquire_owned().ok();
                tell(stream, &shared, place);
            }
            Err(error) => {
                tracing::warn!(%error, "the agent check cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Tells one balancer. With a place it is waited for until it has closed, so that it loses nothing of the line.
fn tell(stream: TcpStream, shared: &Shared, place: Option<OwnedSemaphorePermit>) {
    let mut verdict = shared.board.current();
    if *shared.leaving.borrow() {
        verdict = verdict.last_word();
    }
    let line = line(&verdict, shared.maxconn);
    // The buffer of a new connection has room for a line, so this one write neither waits nor falls short. The runtime would
    // first want to hear that it may.
    let Ok(mut stream) = stream.into_std() else {
        shared.counts.failed.count();
        return;
    };
    if !stream
        .write(line.as_bytes())
        .is_ok_and(|bytes| bytes == line.len())
    {
        shared.counts.failed.count();
        return;
    }
    shared.counts.told.count();
    match place {
        Some(place) => drop(tokio::spawn(part(stream, place))),
        None => shared.counts.crowded.count(),
    }
}

/// Waits until the other side has closed. With bytes in it that nobody read, a closed connection would forget the line.
async fn part(stream: std::net::TcpStream, _place: OwnedSemaphorePermit) {
    let parted = async {
        let mut stream = TcpStream::from_std(stream)?;
        stream.shutdown().await?;
        let mut sent = [0; SENT_BYTES_MAX];
        let mut left = SENT_BYTES_MAX;
        while left > 0 {
            match stream.read(&mut sent[..left]).await? {
                0 => break,
                bytes => left -= bytes,
            }
        }
        io::Result::Ok(())
    };
    // Whoever does not close is left, and whoever has gone has the line or never will.
    let _ = timeout(PARTING_TIME_MAX, parted).await;
}

/// All that there is to say, in one line.
fn line(verdict: &Verdict, maxconn: Option<NonZeroU32>) -> String {
    let cap = maxconn.map_or_else(String::new, |maxconn| format!(" maxconn:{maxconn}"));
    match verdict.told() {
        Told::Serve(weight) => format!("up ready {weight}%{cap}\n"),
        Told::Leave => "up drain 0%\n".to_owned(),
        // Readiness and weight stay what they were: with the next line that says up, both are said anew.
        Told::Out => match verdict.binding {
            Some(binding) => format!("down # {}={:.2}\n", binding.dimension, binding.used),
            None => "down # saturated\n".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use tidegate_http::verdict::{Binding, State};

    use super::*;

    const LEASE: Duration = Duration::from_secs(600);

    fn verdict(state: State, weight: u8) -> Verdict {
        Verdict {
            state,
            weight,
            binding: Some(Binding {
                dimension: "threads",
                used: 1.0,
            }),
            ..Verdict::UNKNOWN
        }
    }

    fn plan(connections_max: usize) -> AgentCheckPlan {
        AgentCheckPlan {
            listen: ([127, 0, 0, 1], 0).into(),
            connections_max,
            interval: Duration::from_millis(20),
            maxconn: None,
        }
    }

    fn hear(address: SocketAddr) -> String {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        heard
    }

    #[test]
    fn every_line_is_complete() {
        let plain = |verdict: &Verdict| line(verdict, None);

        assert_eq!(plain(&Verdict::UNKNOWN), "up ready 100%\n");
        assert_eq!(plain(&verdict(State::Stressed, 40)), "up ready 40%\n");
        assert_eq!(
            plain(&verdict(State::Saturated, 5)),
            "down # threads=1.00\n"
        );
        let drained = Verdict {
            drain: true,
            ..verdict(State::Saturated, 5)
        };
        assert_eq!(plain(&drained), "up drain 0%\n");
        let nameless = Verdict {
            binding: None,
            ..verdict(State::Saturated, 5)
        };
        assert_eq!(plain(&nameless), "down # saturated\n");
    }

    #[test]
    fn a_node_that_the_fleet_cannot_spare_is_never_down() {
        let kept = Verdict {
            kept: true,
            ..verdict(State::Saturated, 0)
        };

        assert_eq!(line(&kept, None), "up ready 1%\n");
    }

    #[test]
    fn a_cap_is_said_where_it_is_set() {
        let line = line(&verdict(State::Healthy, 80), NonZeroU32::new(30));

        assert_eq!(line, "up ready 80% maxconn:30\n");
    }

    #[test]
    fn what_hangs_on_the_board_is_told_and_the_connection_ends() {
        let board = Arc::new(Board::default());
        let agent = AgentCheck::start(&plan(4), board.clone()).unwrap();
        assert_eq!(hear(agent.address()), "up ready 100%\n");

        board.post(verdict(State::Stressed, 25), LEASE);

        assert_eq!(hear(agent.address()), "up ready 25%\n");
        assert_eq!(agent.teller()().told, 2);
    }

    #[test]
    fn a_balancer_that_sends_something_first_gets_its_line_whole() {
        let agent = AgentCheck::start(&plan(4), Arc::default()).unwrap();
        let mut stream = std::net::TcpStream::connect(agent.address()).unwrap();
        stream.write_all(b"hello\n").unwrap();

        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();

        assert_eq!(heard, "up ready 100%\n");
    }

    #[test]
    fn those_who_hold_every_place_take_the_line_from_nobody() {
        let agent = AgentCheck::start(&plan(1), Arc::default()).unwrap();
        let _held = std::net::TcpStream::connect(agent.address()).unwrap();

        for _ in 0..20 {
            assert_eq!(hear(agent.address()), "up ready 100%\n");
        }
    }

    #[tokio::test]
    async fn it_leaves_with_a_good_word() {
        leaves_from(
            verdict(State::Stressed, 10),
            "up ready 10%\n",
            "up ready 100%\n",
        )
        .await;
    }

    #[tokio::test]
    async fn it_leaves_a_node_out_that_an_operator_took_out() {
        let drained = Verdict {
            drain: true,
            ..verdict(State::Stressed, 10)
        };
        leaves_from(drained, "up drain 0%\n", "up drain 0%\n").await;
    }

    async fn leaves_from(posted: Verdict, first: &str, last: &str) {
        let board = Arc::new(Board::default());
        board.post(posted, LEASE);
        let agent = AgentCheck::start(&plan(4), board).unwrap();
        let address = agent.address();
        let hear = || tokio::task::spawn_blocking(move || hear(address));
        assert_eq!(hear().await.unwrap(), first);
        let mut leaving = Box::pin(agent.leave());

        // Once, so that it begins; it is not over yet.
        let soon = timeout(Duration::ZERO, &mut leaving).await;

        assert!(soon.is_err());
        assert_eq!(hear().await.unwrap(), last);
        leaving.await;
        tidegate_lab::patience::until_so("nobody listens", || {
            std::net::TcpStream::connect(address).is_err()
        })
        .await;
    }
}
