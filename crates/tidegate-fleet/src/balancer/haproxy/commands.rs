//! HAProxy's command line: one command on a connection, answered until its end.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Type};

/// Longest time for a command, from connecting to the end of its answer.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(2);
/// Bytes of an answer: ten thousand servers have about 5 MB.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of a refusal that are told on.
const REFUSAL_BYTES_MAX: usize = 200;

/// Where a command line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Socket {
    /// A Unix socket.
    Unix(PathBuf),
    /// An address.
    Tcp(SocketAddr),
}

/// A command line. Each command has a connection of its own, so there is nothing that could break in between.
#[derive(Debug)]
pub struct Commands {
    socket: Socket,
}

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// HAProxy cannot be reached, or does not answer in time.
    #[error("{socket} does not answer: {source}")]
    Unreachable {
        /// Where it should be.
        socket: Socket,
        /// Why it is not.
        source: io::Error,
    },
    /// It refuses the command, in these words.
    #[error("HAProxy says: {0}")]
    Refused(String),
    /// It answers with something else.
    #[error("HAProxy's answer makes no sense: {0}")]
    Senseless(&'static str),
    /// Of one backend it tells nothing.
    #[error(
        "of backend {backend} nothing is known ({why}): `backends` names those of HAProxy's configuration"
    )]
    Backend {
        /// The backend.
        backend: String,
        /// What HAProxy says, or what makes no sense of it.
        why: String,
    },
}

/// Both kinds of connections.
enum Line {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

impl Commands {
    /// Those at `socket`.
    pub const fn new(socket: Socket) -> Self {
        Self { socket }
    }

    /// The answer to `command`.
    ///
    /// # Errors
    ///
    /// When there is none, or it is too long, or does not come in time.
    pub fn ask(&self, command: &str) -> Result<String, CommandError> {
        self.exchange(command)
            .map_err(|source| CommandError::Unreachable {
                socket: self.socket.clone(),
                source: in_words(source),
            })
    }

    /// Has `command` done, which has nothing to answer.
    ///
    /// # Errors
    ///
    /// When it is not done, or nobody knows.
    pub fn tell(&self, command: &str) -> Result<(), CommandError> {
        let answer = self.ask(command)?;
        let said = answer.trim();
        if said.is_empty() {
            return Ok(());
        }
        Err(CommandError::Refused(first_line(said)))
    }

    fn exchange(&self, command: &str) -> io::Result<String> {
        let until = Instant::now() + COMMAND_TIME_MAX;
        let mut line = Line::connect(&self.socket)?;
        line.set_timeouts(COMMAND_TIME_MAX)?;
        line.write_all(format!("{command}\n").as_bytes())?;
        let mut answer = Vec::new();
        let mut part = vec![0; 64 * 1024];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            line.set_timeouts(left)?;
            let bytes = line.read(&mut part)?;
            if bytes == 0 {
                break;
            }
            if answer.len() + bytes > ANSWER_BYTES_MAX {
                return Err(io::Error::other("the answer is too long"));
            }
            answer.extend_from_slice(&part[..bytes]);
        }
        String::from_utf8(answer).map_err(|_| io::Error::other("the answer is no text"))
    }
}

/// The system's words for a time that is over say something else.
fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let said = format!("nothing came within {} s", COMMAND_TIME_MAX.as_secs());
            io::Error::new(io::ErrorKind::TimedOut, said)
        }
        _ => error,
    }
}

/// One line is enough to know why.
pub(super) fn first_line(said: &str) -> String {
    let line = said.trim().lines().next().unwrap_or_default();
    let line = line.chars().filter(|c| !c.is_control());
    line.take(REFUSAL_BYTES_MAX).collect()
}

impl Line {
    fn connect(socket: &Socket) -> io::Result<Self> {
        match socket {
            Socket::Unix(path) => {
                // Before a process that accepts nothing, connecting waits for as long as writing may.
                let stream = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
                stream.set_write_timeout(Some(COMMAND_TIME_MAX))?;
                stream.connect(&SockAddr::unix(path)?)?;
                Ok(Self::Unix(stream.into()))
            }
            Socket::Tcp(address) => {
                TcpStream::connect_timeout(address, COMMAND_TIME_MAX).map(Self::Tcp)
            }
        }
    }

    fn set_timeouts(&self, within: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(within))?;
                stream.set_write_timeout(Some(within))
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(within))?;
                stream.set_write_timeout(Some(within))
            }
        }
    }
}

impl Read for Line {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.flush(),
            Self::Tcp(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Somebody at an address who answers the first command with `answer` and then closes, or not.
    fn answering(answer: &'static [u8], times: usize, closes: bool) -> Commands {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut command = String::new();
            BufReader::new(&stream).read_line(&mut command).unwrap();
            for _ in 0..times {
                if stream.write_all(answer).is_err() {
                    return;
                }
            }
            if !closes {
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        Commands::new(Socket::Tcp(address))
    }

    #[test]
    fn an_empty_answer_is_yes_and_any_other_is_why_not() {
        assert!(answering(b"\n", 1, true).tell("set").is_ok());
        let refused = answering(b"No such server.\n\n", 1, true).tell("set");
        assert_eq!(
            refused.unwrap_err().to_string(),
            "HAProxy says: No such server."
        );
    }

    #[test]
    fn an_answer_without_an_end_is_given_up() {
        let begun = Instant::now();

        let hung = answering(b"half", 1, false).ask("show");

        let said = hung.unwrap_err().to_string();
        assert!(
            said.ends_with("does not answer: nothing came within 2 s"),
            "{said}"
        );
        assert!(begun.elapsed() >= COMMAND_TIME_MAX);
    }

    #[test]
    fn an_answer_that_is_too_long_is_given_up() {
        static MUCH: [u8; 1024 * 1024] = [b'x'; 1024 * 1024];

        let flood = answering(&MUCH, 9, true).ask("show").unwrap_err();

        assert!(flood.to_string().contains("too long"), "{flood}");
    }

    #[test]
    fn one_that_accepts_nobody_is_given_up() {
        let directory = std::env::temp_dir().join(format!("tidegate-deaf-{}", std::process::id()));
        let _ = std::fs::remove_file(&directory);
        let deaf = std::os::unix::net::UnixListener::bind(&directory).unwrap();
        let address = SockAddr::unix(&directory).unwrap();
        // Whoever waits to be accepted takes a place, until there is none.
        let waiting: Vec<_> = (0..10_000)
            .map(|_| {
                let stream = socket2::Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
                stream.set_nonblocking(true).unwrap();
                stream.connect(&address).map(|()| stream)
            })
            .take_while(Result::is_ok)
            .collect();
        assert!(waiting.len() < 10_000);

        let given_up = Commands::new(Socket::Unix(directory.clone())).ask("show");

        assert!(given_up.is_err());
        drop(deaf);
        let _ = std::fs::remove_file(&directory);
    }

    #[test]
    fn nobody_there_is_an_error_and_no_wait() {
        let nobody = Commands::new(Socket::Unix("/nowhere/at/all".into()));

        assert!(nobody.ask("show").is_err());
    }
}
