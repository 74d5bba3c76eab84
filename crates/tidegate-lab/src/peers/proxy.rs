//! A TCP proxy that breaks on demand.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::{PeerError, free_port};

/// Connections at a time; further ones are closed at once.
const CONNECTIONS_MAX: usize = 1024;
/// Connections that the system may hold until they are accepted.
const BACKLOG: u32 = 1024;
/// Bytes under way in one direction of one connection; when they are so many, no more are read.
const UNDER_WAY_MAX: usize = 16 * 1024 * 1024;
/// Bytes read at once.
const READ_MAX: usize = 64 * 1024;
/// How often a port that was given up is tried again.
const BIND_INTERVAL: Duration = Duration::from_millis(20);
/// Ports tried before giving up.
const BINDS_MAX: usize = 5;

/// A proxy before one server, switched at run time. Bytes arrive as late as they are told to, but
/// as fast one after the other as they came: a long line, not a thin one. Dropping it closes its
/// connections.
pub struct FaultProxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    counts: Arc<Counts>,
    /// Ends the thread when it is dropped.
    alive: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    /// From who connected to the server.
    Server,
    /// From the server to who connected.
    Client,
}

#[derive(Clone, Copy, Debug)]
struct State {
    upstream: SocketAddr,
    listening: bool,
    /// Accept, and swallow everything in both directions.
    hung: bool,
    /// Connections with a lower number are reset.
    cut_below: u64,
    lines: [Line; 2],
}

/// One direction.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    delay: Duration,
    held: bool,
    /// Connections with a lower number get no more bytes in this direction, but the end of them.
    closed_below: u64,
}

#[derive(Default)]
struct Counts {
    next: AtomicU64,
    open: AtomicUsize,
    bytes: [AtomicU64; 2],
}

/// Why a direction of a connection is over.
enum Over {
    /// Its end was passed on.
    Ended,
    /// The whole connection is to be reset.
    Reset,
}

impl FaultProxy {
    /// Listens on a free port and passes everything on to `upstream`.
    ///
    /// # Errors
    ///
    /// When no port or thread is to be had.
    pub fn start(upstream: SocketAddr) -> Result<Self, PeerError> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (address, listener) = {
            let _entered = runtime.enter();
            bind_free()?
        };
        let (state, watched) = watch::channel(State {
            upstream,
            listening: true,
            hung: false,
            cut_below: 0,
            lines: [Line::default(); 2],
        });
        let counts = Arc::new(Counts::default());
        let (alive, gone) = oneshot::channel::<()>();
        let counted = Arc::clone(&counts);
        let thread = std::thread::Builder::new()
            .name("fault-proxy".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, address, watched, &counted) => {}
                        _ = gone => {}
                    }
                });
            })?;
        Ok(Self {
            address,
            state,
            counts,
            alive: Some(alive),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.counts.open.load(Ordering::Relaxed)
    }

    /// Connections that were made so far.
    pub fn accepted(&self) -> u64 {
        self.counts.next.load(Ordering::Relaxed)
    }

    /// Bytes that were delivered in one direction so far.
    pub fn bytes(&self, toward: Toward) -> u64 {
        self.counts.bytes[toward as usize].load(Ordering::Relaxed)
    }

    /// Passes new connections on to another server; the old ones stay.
    pub fn point_to(&self, upstream: SocketAddr) {
        self.state.send_modify(|state| state.upstream = upstream);
    }

    /// Delivers what comes from now on in one direction so much later.
    pub fn delay(&self, toward: Toward, by: Duration) {
        self.line(toward, |line| line.delay = by);
    }

    /// Holds what comes in one direction back until [`FaultProxy::release`]; nothing is lost.
    pub fn hold(&self, toward: Toward) {
        self.line(toward, |line| line.held = true);
    }

    /// Delivers what was held back and what comes from now on.
    pub fn release(&self, toward: Toward) {
        self.line(toward, |line| line.held = false);
    }

    /// Accepts connections and swallows everything, in both directions, until [`FaultProxy::heal`].
    /// Connections that were open are of no more use: healing resets them.
    pub fn hang(&self) {
        self.state.send_modify(|state| state.hung = true);
    }

    /// Resets every connection that is open. New ones are passed on.
    pub fn cut(&self) {
        let below = self.accepted();
        self.state.send_modify(|state| state.cut_below = below);
    }

    /// Ends one direction of every connection that is open, properly, and leaves the other one open.
    pub fn half_close(&self, toward: Toward) {
        let below = self.accepted();
        self.line(toward, |line| line.closed_below = below);
    }

    /// Stops to listen: whoever connects is refused. Open connections stay.
    pub fn refuse(&self) {
        self.state.send_modify(|state| state.listening = false);
    }

    /// Ends every fault: listens, without delay and holding back. Connections of a hang are reset.
    pub fn heal(&self) {
        let below = self.accepted();
        self.state.send_modify(|state| {
            if state.hung {
                state.cut_below = below;
            }
            state.hung = false;
            state.listening = true;
            for line in &mut state.lines {
                line.delay = Duration::ZERO;
                line.held = false;
            }
        });
    }

    fn line(&self, toward: Toward, change: impl FnOnce(&mut Line)) {
        self.state
            .send_modify(|state| change(&mut state.lines[toward as usize]));
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            // It panics only if this file is wrong, and then it has said so.
            let _ = thread.join();
        }
    }
}

fn bind_free() -> Result<(SocketAddr, TcpListener), PeerError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        match bind(address) {
            Ok(listener) => return Ok((address, listener)),
            // Somebody else was faster.
            Err(_) if tries < BINDS_MAX => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(
    listener: TcpListener,
    address: SocketAddr,
    mut state: watch::Receiver<State>,
    counts: &Arc<Counts>,
) {
    let mut listener = Some(listener);
    loop {
        let listening = state.borrow_and_update().listening;
        if !listening {
            listener = None;
        } else if listener.is_none() {
            listener = bind(address).ok();
        }
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await.ok(),
                // Somebody may have taken the port meanwhile; they may leave it again.
                None if listening => {
                    tokio::time::sleep(BIND_INTERVAL).await;
                    None
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = state.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            accepted = accepted => {
                // Too many open files and the like: the client sees a reset, as it should.
                if let Some((client, _)) = accepted {
                    start_connection(client, &state, counts);
                }
            }
        }
    }
}

fn start_connection(client: TcpStream, state: &watch::Receiver<State>, counts: &Arc<Counts>) {
    if counts.open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
        counts.open.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let number = counts.next.fetch_add(1, Ordering::Relaxed);
    let (state, counts) = (state.clone(), Arc::clone(counts));
    tokio::spawn(async move {
        connect(number, client, state, &counts).await;
        counts.open.fetch_sub(1, Ordering::Relaxed);
    });
}

async fn connect(
    number: u64,
    mut client: TcpStream,
    state: watch::Receiver<State>,
    counts: &Counts,
) {
    let upstream = state.borrow().upstream;
    let Ok(mut server) = TcpStream::connect(upstream).await else {
        reset_on_drop(&client);
        return;
    };
    // Without these the proxy would add delays of its own.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let over = {
        // Borrowed halves: owned ones would end the connection properly before a reset.
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let up = Pump::new(
            number,
            Toward::Server,
            from_client,
            to_server,
            state.clone(),
        );
        let down = Pump::new(number, Toward::Client, from_server, to_client, state);
        // Both at once; when one wants a reset, the other is over with it.
        tokio::try_join!(up.run(counts), down.run(counts))
    };
    if over.is_err() {
        reset_on_drop(&client);
        reset_on_drop(&server);
    }
}

/// One direction of one connection.
struct Pump<'a> {
    number: u64,
    toward: Toward,
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    state: watch::Receiver<State>,
    under_way: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    ended: bool,
}

impl<'a> Pump<'a> {
    const fn new(
        number: u64,
        toward: Toward,
        from: ReadHalf<'a>,
        to: WriteHalf<'a>,
        state: watch::Receiver<State>,
    ) -> Self {
        Self {
            number,
            toward,
            from,
            to,
            state,
            under_way: VecDeque::new(),
            bytes: 0,
            ended: false,
        }
    }

    async fn run(mut self, counts: &Counts) -> Result<(), ()> {
        match self.pass(counts).await {
            Ok(Over::Ended) => {
                // The other direction goes on. When this fails, whoever reads has gone already.
                let _ = self.to.shutdown().await;
                Ok(())
            }
            Ok(Over::Reset) | Err(_) => Err(()),
        }
    }

    async fn pass(&mut self, counts: &Counts) -> io::Result<Over> {
        let mut buffer = vec![0; READ_MAX];
        loop {
            let state = *self.state.borrow_and_update();
            let line = state.lines[self.toward as usize];
            if self.number < state.cut_below {
                return Ok(Over::Reset);
            }
            if self.number < line.closed_below || (self.ended && self.under_way.is_empty()) {
                return Ok(Over::Ended);
            }
            let due = self.under_way.front().map(|(due, _)| *due);
            let due = due.filter(|_| !line.held && !state.hung);
            tokio::select! {
                changed = self.state.changed() => {
                    if changed.is_err() {
                        return Ok(Over::Reset);
                    }
                }
                read = self.from.read(&mut buffer), if !self.ended && self.bytes < UNDER_WAY_MAX => {
                    let read = read?;
                    self.ended = read == 0;
                    if read > 0 && !state.hung {
                        self.bytes += read;
                        self.under_way.push_back((Instant::now() + line.delay, buffer[..read].to_vec()));
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.deliver(counts).await?;
                }
            }
        }
    }

    /// Writes as much of the first piece as is taken at once; the state may change before the rest.
    async fn deliver(&mut self, counts: &Counts) -> io::Result<()> {
        let Some((_, piece)) = self.under_way.front_mut() else {
            return Ok(());
        };
        let mut changed = self.state.clone();
        let written = tokio::select! {
            written = self.to.write(piece) => written?,
            // Whoever reads has stopped to: a cut must still be seen.
            _ = changed.changed() => 0,
        };
        piece.drain(..written);
        if piece.is_empty() {
            self.under_way.pop_front();
        }
        self.bytes -= written;
        counts.bytes[self.toward as usize].fetch_add(written as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn reset_on_drop(stream: &TcpStream) {
    // A close with nothing to linger for is a reset. It can only fail on a socket that is gone.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net;

    use super::*;

    /// Longest wait for anything in these tests.
    const WITHIN: Duration = Duration::from_secs(20);

    struct Line {
        proxy: FaultProxy,
        client: net::TcpStream,
        server: net::TcpStream,
    }

    fn line() -> Line {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = FaultProxy::start(listener.local_addr().unwrap()).unwrap();
        let client = net::TcpStream::connect(proxy.address()).unwrap();
        let (server, _) = listener.accept().unwrap();
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(WITHIN)).unwrap();
        }
        Line {
            proxy,
            client,
            server,
        }
    }

    fn read(stream: &mut net::TcpStream, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn bytes_arrive_later_but_no_slower() {
        let mut line = line();
        let delay = Duration::from_millis(500);
        line.proxy.delay(Toward::Server, delay);
        let sent = vec![7; 4 * 1024 * 1024];

        let begun = std::time::Instant::now();
        let mut client = line.client.try_clone().unwrap();
        let writer = std::thread::spawn(move || client.write_all(&sent).map(|()| sent));
        let received = read(&mut line.server, 4 * 1024 * 1024);

        // Piece by piece, 64 pieces and more would have waited for 32 s together.
        assert!(begun.elapsed() >= delay);
        assert!(begun.elapsed() < 32 * delay);
        assert_eq!(received, writer.join().unwrap().unwrap());
        line.server.write_all(b"back").unwrap();
        assert_eq!(read(&mut line.client, 4), b"back");
    }

    #[test]
    fn what_is_held_arrives_when_it_is_released() {
        let mut line = line();
        line.proxy.hold(Toward::Client);
        line.server.write_all(b"late").unwrap();
        line.client
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        assert!(line.client.read(&mut [0; 4]).is_err());

        line.proxy.release(Toward::Client);

        line.client.set_read_timeout(Some(WITHIN)).unwrap();
        assert_eq!(read(&mut line.client, 4), b"late");
    }

    #[test]
    fn a_cut_resets_both_ends_and_new_connections_pass() {
        let mut line = line();

        line.proxy.cut();

        for end in [&mut line.client, &mut line.server] {
            let error = end.read(&mut [0; 1]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        assert!(net::TcpStream::connect(line.proxy.address()).is_ok());
    }

    #[test]
    fn a_half_close_ends_one_direction_only() {
        let mut line = line();

        line.proxy.half_close(Toward::Client);

        assert_eq!(line.client.read(&mut [0; 1]).unwrap(), 0);
        line.client.write_all(b"still").unwrap();
        assert_eq!(read(&mut line.server, 5), b"still");
    }

    #[test]
    fn a_hang_swallows_and_healing_resets_what_hung() {
        let mut line = line();
        line.proxy.hang();
        line.client.write_all(b"lost").unwrap();
        let mut during = net::TcpStream::connect(line.proxy.address()).unwrap();
        during
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        during.write_all(b"lost").unwrap();
        assert!(during.read(&mut [0; 1]).is_err());

        line.proxy.heal();

        assert!(line.server.read(&mut [0; 4]).is_err());
        assert!(line.client.read(&mut [0; 1]).is_err());
        assert_eq!(line.proxy.bytes(Toward::Server), 0);
    }

    #[test]
    fn who_connects_is_refused_until_it_listens_again() {
        let Line { proxy, .. } = line();
        let connects = |wanted: bool| {
            let until = std::time::Instant::now() + WITHIN;
            while std::time::Instant::now() < until {
                if net::TcpStream::connect(proxy.address()).is_ok() == wanted {
                    return true;
                }
            }
            false
        };

        proxy.refuse();
        assert!(connects(false));
        proxy.heal();
        assert!(connects(true));
    }
}
