//! The one place where client connections come in.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};

use crate::connections::{Connections, Permit, TurnedAway};
use crate::context::Clock;
use crate::serve::Server;
use crate::threads::Stage;

/// Connections that the system keeps for us until we accept them. It may cap this (somaxconn).
const BACKLOG: i32 = 4096;

/// Connections accepted before requests get their turn again.
const ACCEPT_BATCH_MAX: usize = 64;

/// Pause after the system could not give us a connection, for want of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Pauses of that kind while the backlog is emptied at the end; connections left then are reset.
const DRAIN_PAUSES_MAX: u32 = 20;

/// A connection on its way to the thread that serves it.
pub(crate) struct Handoff {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) permit: Permit,
}

/// Accepts connections and hands each to the thread with the fewest.
pub(crate) struct Listener {
    socket: AsyncFd<TcpListener>,
    connections: Arc<Connections>,
    clock: Clock,
    /// The first thread's own.
    server: Arc<Server>,
    /// The others', thread 1 first.
    mailboxes: Vec<mpsc::Sender<Handoff>>,
}

/// What one round of accepting came to.
enum Round {
    /// There may be more at once.
    More,
    /// The backlog is empty.
    Empty,
    /// The system has none to give, though there may be some.
    Failed,
}

/// Listens at `address`.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

impl Listener {
    /// Must be called on the first thread's runtime.
    #[expect(
        deprecated,
        reason = "its replacement is unsafe, and what that asks for (the descriptor stays open and \
                  the same) holds for a std listener that nobody else can reach"
    )]
    pub(crate) fn new(
        socket: TcpListener,
        connections: Arc<Connections>,
        clock: Clock,
        server: Arc<Server>,
        mailboxes: Vec<mpsc::Sender<Handoff>>,
    ) -> io::Result<Self> {
        let socket = AsyncFd::new(socket)?;
        Ok(Self {
            socket,
            connections,
            clock,
            server,
            mailboxes,
        })
    }

    /// Accepts until the stage changes, then what is in the backlog, and closes.
    pub(crate) async fn run(self, mut stage: watch::Receiver<Stage>) {
        loop {
            let ready = tokio::select! {
                ready = self.socket.readable() => ready,
                _ = stage.wait_for(|stage| *stage != Stage::Serving) => break,
            };
            let Ok(mut ready) = ready else { break };
            match self.accept_batch() {
                Round::More => tokio::task::yield_now().await,
                Round::Empty => ready.clear_ready(),
                Round::Failed => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }

        let mut pauses = 0;
        while pauses < DRAIN_PAUSES_MAX && *stage.borrow() != Stage::Stopped {
            match self.accept_batch() {
                Round::More => tokio::task::yield_now().await,
                Round::Empty => break,
                Round::Failed => {
                    pauses += 1;
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn accept_batch(&self) -> Round {
        for _ in 0..ACCEPT_BATCH_MAX {
            match self.socket.get_ref().accept() {
                Ok((stream, peer)) => self.hand_over(stream, peer),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Round::Empty,
                    // The client has gone before we came; the next one has not.
                    io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::Interrupted => self.connections.accept_failed(),
                    _ => {
                        self.connections.accept_failed();
                        return Round::Failed;
                    }
                },
            }
        }
        Round::More
    }

    fn hand_over(&self, stream: TcpStream, peer: SocketAddr) {
        let Some(permit) = self.connections.admit(peer, self.clock.now()) else {
            return;
        };
        // Without these the connection is of no use; both fail only if it has gone already.
        if stream.set_nonblocking(true).is_err() || stream.set_nodelay(true).is_err() {
            return;
        }
        let Some(mailbox) = permit.thread().checked_sub(1) else {
            self.server.spawn(stream, peer, permit);
            return;
        };
        let handoff = Handoff {
            stream,
            peer,
            permit,
        };
        if self.mailboxes[mailbox].try_send(handoff).is_err() {
            self.connections.turn_away(TurnedAway::ThreadBusy);
        }
    }
}
