//! The way to the kernel: one socket, opened once.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use super::messages::{Family, Listening, Message, next, question};
use crate::agent::sight::Blank;

/// Bytes of one read: what the kernel sends at once at most, unless it is asked for more.
const READ_BYTES: usize = 32 * 1024;
/// Reads of one answer; a hundred sockets fit into one.
const READS_MAX: usize = 256;
/// Longest wait for the kernel, which answers at once.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

/// Asks the kernel for the sockets that listen in this part of the network. Nothing but that needs a privilege.
pub struct Diag {
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// The questions of TCP, of its sixth version, and of Unix sockets, as bytes.
    questions: [(Family, Vec<u8>); 3],
    sequence: u32,
}

impl Diag {
    /// Opens the way.
    ///
    /// # Errors
    ///
    /// Where the kernel has no such socket, or forbids it.
    pub fn open() -> Result<Self, Blank> {
        let protocol = Some(netlink::SOCK_DIAG);
        let opened = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            protocol,
        );
        let socket = opened.map_err(|error| {
            Blank::unsupported(format!("the kernel tells nothing of sockets: {error}"))
        })?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIMEOUT))
            .map_err(|error| Blank::error(format!("no bound for the kernel's answer: {error}")))?;
        Ok(Self {
            socket,
            buffer: vec![0; READ_BYTES],
            questions: [Family::V4, Family::V6, Family::Unix]
                .map(|family| (family, question(family, 0))),
            sequence: 0,
        })
    }

    /// Shows every socket of `family` that listens to `see`.
    pub(super) fn each(
        &mut self,
        family: Family,
        mut see: impl FnMut(Listening<'_>),
    ) -> Result<(), Blank> {
        self.sequence = self.sequence.wrapping_add(1);
        let asked = self.questions.iter_mut().find(|(its, _)| *its == family);
        let Some((_, bytes)) = asked else {
            return Ok(());
        };
        // The sequence stands behind length, kind and flags.
        bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        send(&self.socket, bytes, SendFlags::empty())
            .map_err(|error| failed(family, &error.into()))?;
        for _ in 0..READS_MAX {
            let (length, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())
                .map_err(|error| failed(family, &error.into()))?;
            let mut rest = &self.buffer[..length];
            while let Some((message, behind)) = next(rest, self.sequence) {
                match message {
                    Message::Listening(listening) => see(listening),
                    Message::Other => {}
                    Message::Done => return Ok(()),
                    Message::Refused(number) => {
                        return Err(failed(family, &io::Error::from_raw_os_error(number)));
                    }
                }
                rest = behind;
            }
        }
        Err(Blank::error("more sockets listen than are looked at"))
    }
}

fn failed(family: Family, error: &io::Error) -> Blank {
    let kind = match family {
        Family::V4 | Family::V6 => "TCP",
        Family::Unix => "Unix",
    };
    if error.kind() == io::ErrorKind::NotFound {
        return Blank::unsupported(format!("this kernel tells nothing of {kind} sockets"));
    }
    Blank::error(format!("asking the kernel for {kind} sockets: {error}"))
}
