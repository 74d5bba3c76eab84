//! Just enough of Redis's protocol to ask a server how it is.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::PeerError;

/// Longest wait for a connection and for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest answer, in bytes, and most parts of one.
const ANSWER_MAX: usize = 64 * 1024 * 1024;

/// A connection to a server that is asked one thing at a time.
pub struct Wire(BufReader<TcpStream>);

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A whole number.
    Int(i64),
    /// A text, or bytes that are read as one.
    Text(String),
    /// A refusal.
    Error(String),
    /// Several.
    Array(Vec<Self>),
}

impl Wire {
    /// Connects to `address`, within 5 s.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_nodelay(true)?;
        let mut wire = Self(BufReader::new(stream));
        wire.set_timeout(TIMEOUT)?;
        Ok(wire)
    }

    /// Waits for an answer no longer than this, instead of 5 s.
    pub fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.0.get_ref().set_read_timeout(Some(timeout))?;
        self.0.get_ref().set_write_timeout(Some(timeout))
    }

    /// Sends a command and reads its answer. After an error the connection is of no more use.
    pub fn ask(&mut self, command: &[&str]) -> io::Result<Reply> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for part in command {
            bytes.extend_from_slice(format!("${}\r\n{part}\r\n", part.len()).as_bytes());
        }
        self.0.get_mut().write_all(&bytes)?;
        self.read()
    }

    fn read(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at_checked(1).ok_or_else(garbled)?;
        let number = || rest.parse::<i64>().map_err(|_| garbled());
        Ok(match kind {
            "+" => Reply::Text(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Int(number()?),
            "$" | "*" if rest == "-1" => Reply::Nil,
            "$" => Reply::Text(self.read_text(length(number()?)?)?),
            "*" => {
                let parts = 0..length(number()?)?;
                Reply::Array(parts.map(|_| self.read()).collect::<io::Result<_>>()?)
            }
            _ => return Err(garbled()),
        })
    }

    fn read_text(&mut self, length: usize) -> io::Result<String> {
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Reply {
    /// The answer, with a refusal as an error.
    pub fn granted(self) -> Result<Self, PeerError> {
        match self {
            Self::Error(error) => Err(PeerError::Refused(error)),
            reply => Ok(reply),
        }
    }

    /// Its text; empty when it is none.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Error(text) => text,
            _ => "",
        }
    }

    /// Its number; `None` when it is none.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Its parts; none when it is no array.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Array(parts) => parts,
            _ => &[],
        }
    }
}

fn length(number: i64) -> io::Result<usize> {
    let length = usize::try_from(number).map_err(|_| garbled())?;
    if length > ANSWER_MAX {
        return Err(garbled());
    }
    Ok(length)
}

fn garbled() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not what a Redis server says")
}
