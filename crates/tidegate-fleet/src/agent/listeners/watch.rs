//! The fullest of the accept queues that are watched.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use super::Diag;
use super::messages::{Family, Listening, Name};
use crate::agent::sight::Blank;

/// Where an application listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// An address; with an address of all interfaces, whatever listens on its port.
    Tcp(SocketAddr),
    /// A socket at this path.
    Unix(PathBuf),
}

/// Why a text is no place to listen.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0} is no listener: write 127.0.0.1:8080, [::1]:8080, :8080, or unix:/run/app.sock")]
pub struct AtError(String);

/// Connections that wait to be accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// In the fullest queue.
    pub pending: u32,
    /// What that queue was told to hold; it holds one more.
    pub limit: u32,
    /// In all queues that are watched.
    pub pending_all: u32,
    /// Queues that are watched: several processes may each have one at the same address.
    pub sockets: u32,
    /// Whether connections wait at an address, at all sockets that there are of it: then nobody who accepts there is idle.
    /// At one of several (`SO_REUSEPORT`) they wait for the process that it belongs to, whoever else is idle.
    pub waits_everywhere: bool,
}

/// Addresses that are told apart by whether connections wait at them.
const ADDRESSES_MAX: usize = 64;

/// At which addresses connections wait at all sockets.
#[derive(Default)]
struct Waiting {
    tcp: Vec<(SocketAddr, bool)>,
    unix: bool,
}

impl Waiting {
    fn add(&mut self, listening: Listening<'_>) {
        let waits = listening.pending > 0;
        let Name::Tcp(address) = listening.name else {
            // Of a path there is one.
            self.unix |= waits;
            return;
        };
        let place = self.tcp.iter().position(|(it, _)| *it == address);
        match place {
            Some(place) => self.tcp[place].1 &= waits,
            None if self.tcp.len() < ADDRESSES_MAX => self.tcp.push((address, waits)),
            None => {}
        }
    }

    fn is_everywhere(&self) -> bool {
        self.unix || self.tcp.iter().any(|(_, all)| *all)
    }
}

/// The listeners of one application.
#[derive(Clone, Debug)]
pub struct Watch {
    at: Vec<At>,
}

impl At {
    fn is(&self, name: Name<'_>) -> bool {
        match (self, name) {
            (Self::Tcp(wanted), Name::Tcp(bound)) => {
                let same = wanted.port() == bound.port();
                same && (is_any(wanted.ip())
                    || is_any(bound.ip())
                    || plain(wanted.ip()) == plain(bound.ip()))
            }
            (Self::Unix(path), Name::Unix(bound)) => path.as_os_str().as_encoded_bytes() == bound,
            _ => false,
        }
    }
}

fn is_any(ip: IpAddr) -> bool {
    plain(ip).is_unspecified()
}

/// An address of the older version that is written as one of the newer.
fn plain(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

impl FromStr for At {
    type Err = AtError;

    fn from_str(text: &str) -> Result<Self, AtError> {
        let wrong = || AtError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(Self::Unix(PathBuf::from(path))),
                false => Err(wrong()),
            };
        }
        let whole = match text.strip_prefix(':') {
            Some(port) => format!("0.0.0.0:{port}"),
            None => text.replace("localhost:", "127.0.0.1:"),
        };
        let address: SocketAddr = whole.parse().map_err(|_| wrong())?;
        match address.port() {
            0 => Err(wrong()),
            _ => Ok(Self::Tcp(address)),
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Depth {
    /// How full the fullest queue is: 1 is what it was told to hold, and it takes one more than that before it refuses.
    pub fn ratio(&self) -> f64 {
        full(self.pending, self.limit)
    }

    fn add(&mut self, listening: Listening<'_>) {
        // One row for each socket of an address that several have: the fullest one refuses, whatever the others hold.
        if self.sockets == 0 || full(listening.pending, listening.limit) > self.ratio() {
            (self.pending, self.limit) = (listening.pending, listening.limit);
        }
        self.pending_all = self.pending_all.saturating_add(listening.pending);
        self.sockets += 1;
    }
}

fn full(pending: u32, limit: u32) -> f64 {
    // A queue for nobody still holds one.
    f64::from(pending) / f64::from(limit.max(1))
}

impl Watch {
    /// Watches what listens at any of `at`.
    pub const fn new(at: Vec<At>) -> Self {
        Self { at }
    }

    /// Where is looked.
    pub fn at(&self) -> &[At] {
        &self.at
    }

    /// How full they are now.
    ///
    /// # Errors
    ///
    /// Where nothing listens there, or the kernel does not tell.
    pub fn look(&self, diag: &mut Diag) -> Result<Depth, Blank> {
        let (mut depth, mut waiting) = (Depth::default(), Waiting::default());
        let mut see = |listening: Listening<'_>| {
            if self.at.iter().any(|at| at.is(listening.name)) {
                depth.add(listening);
                waiting.add(listening);
            }
        };
        let tcp = self.at.iter().any(|at| matches!(at, At::Tcp(_)));
        if tcp {
            diag.each(Family::V4, &mut see)?;
            diag.each(Family::V6, &mut see)?;
        }
        if self.at.iter().any(|at| matches!(at, At::Unix(_))) {
            diag.each(Family::Unix, &mut see)?;
        }
        if depth.sockets == 0 {
            let at: Vec<String> = self.at.iter().map(At::to_string).collect();
            return Err(Blank::error(format!(
                "nothing listens on {}",
                at.join(" or ")
            )));
        }
        depth.waits_everywhere = waiting.is_everywhere();
        Ok(depth)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread::JoinHandle;

    use rustix::net::{AddressFamily, SocketType, bind, listen, socket, sockopt};
    use tidegate_lab::patience::until;

    use super::*;

    const CLIENTS: usize = 12;

    /// A listener that nobody accepts from, with room for `backlog` and one more.
    fn deaf(address: SocketAddr, backlog: i32) -> TcpListener {
        let family = if address.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let bound = socket(family, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_reuseport(&bound, true).unwrap();
        bind(&bound, &address).unwrap();
        listen(&bound, backlog).unwrap();
        TcpListener::from(bound)
    }

    /// Clients of `address`: those that find no room try for as long as their thread lives.
    fn clients(address: SocketAddr, count: usize) -> Vec<JoinHandle<std::io::Result<TcpStream>>> {
        let patience = std::time::Duration::from_secs(20);
        (0..count)
            .map(|_| std::thread::spawn(move || TcpStream::connect_timeout(&address, patience)))
            .collect()
    }

    async fn seen(at: Vec<At>, enough: impl Fn(&Depth) -> bool) -> Depth {
        let (watch, mut diag) = (Watch::new(at), Diag::open().unwrap());
        until("the queue is as full as it gets", async || {
            watch.look(&mut diag).ok().filter(&enough)
        })
        .await
    }

    #[tokio::test]
    async fn a_full_queue_is_over_its_limit_by_one_in_both_versions() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let listener = deaf(host.parse().unwrap(), 5);
            let address = listener.local_addr().unwrap();
            let waiting = clients(address, CLIENTS);

            let depth = seen(vec![At::Tcp(address)], |depth| depth.pending == 6).await;

            assert_eq!((depth.pending, depth.limit, depth.sockets), (6, 5, 1));
            assert_eq!(depth.ratio(), 1.2);
            drop((listener, waiting));
        }
    }

    #[tokio::test]
    async fn of_several_sockets_at_one_address_the_fullest_counts() {
        let first = deaf(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 4);
        let address = first.local_addr().unwrap();
        let others = [deaf(address, 4), deaf(address, 4)];
        // Where connections go is drawn by the kernel; five find room however it draws.
        let waiting = clients(address, 9);
        let at = vec![At::Tcp(address)];

        let depth = seen(at, |depth| depth.pending_all >= 5).await;

        assert_eq!((depth.sockets, depth.limit), (3, 4));
        let mean = f64::from(depth.pending_all) / 3.0;
        assert!(f64::from(depth.pending) >= mean, "{depth:?}");
        drop((first, others, waiting));
    }

    #[tokio::test]
    async fn who_waits_at_one_of_several_sockets_says_nothing_of_the_others() {
        let first = deaf(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 64);
        let address = first.local_addr().unwrap();
        let second = deaf(address, 64);
        let (watch, at) = (Watch::new(vec![At::Tcp(address)]), At::Tcp(address));
        let mut waiting = clients(address, 1);

        let one = seen(vec![at.clone()], |depth| depth.pending_all == 1).await;
        assert!(!one.waits_everywhere, "{one:?}");

        // Where connections go is drawn by the kernel; of so many some go to each.
        waiting.extend(clients(address, 40));
        let all = seen(vec![at], |depth| depth.pending_all == 41).await;
        assert!(all.waits_everywhere, "{all:?}");
        drop(second);
        let left = watch.look(&mut Diag::open().unwrap()).unwrap();
        assert_eq!((left.sockets, left.waits_everywhere), (1, true));
        drop((first, waiting));
    }

    #[test]
    fn a_full_queue_is_full_whatever_stands_beside_it() {
        let mut depth = Depth::default();
        for pending in [1, 5, 3] {
            depth.add(Listening {
                name: Name::Unix(b""),
                pending,
                limit: 4,
            });
        }

        assert_eq!((depth.ratio(), depth.pending_all), (1.25, 9));
    }

    #[tokio::test]
    async fn a_unix_socket_is_seen_by_its_path() {
        let path = std::env::temp_dir().join(format!("tidegate-watch-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let waiting: Vec<UnixStream> = (0..5)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();

        let depth = seen(vec![At::Unix(path.clone())], |depth| depth.pending == 5).await;

        assert_eq!((depth.pending, depth.sockets), (5, 1));
        assert!(depth.limit >= 5);
        drop((listener, waiting));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn nothing_that_listens_is_not_an_empty_queue() {
        let gone = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        };

        let blank = Watch::new(vec![At::Tcp(gone)]).look(&mut Diag::open().unwrap());

        assert!(blank.unwrap_err().why.contains("nothing listens on"));
    }

    #[test]
    fn who_listens_everywhere_listens_here_too() {
        let at: At = "127.0.0.1:80".parse().unwrap();
        let bound = |text: &str| Name::Tcp(text.parse().unwrap());

        assert!(at.is(bound("0.0.0.0:80")) && at.is(bound("[::]:80")));
        assert!(at.is(bound("[::ffff:127.0.0.1]:80")));
        assert!(!at.is(bound("10.0.0.1:80")) && !at.is(bound("127.0.0.1:81")));
        let any: At = ":80".parse().unwrap();
        assert!(any.is(bound("10.0.0.1:80")));
    }

    #[test]
    fn a_place_is_written_as_people_write_it() {
        for text in ["127.0.0.1:8080", "[::1]:8080", "unix:/run/app.sock"] {
            assert_eq!(text.parse::<At>().unwrap().to_string(), text);
        }
        assert_eq!(
            "localhost:80".parse::<At>().unwrap().to_string(),
            "127.0.0.1:80"
        );
        for text in ["8080", "app:80", "unix:app.sock", "127.0.0.1:0", ""] {
            assert!(text.parse::<At>().is_err(), "{text}");
        }
    }
}
