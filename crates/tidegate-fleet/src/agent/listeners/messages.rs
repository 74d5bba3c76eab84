//! What is asked of the kernel about sockets, and what it answers: `sock_diag(7)`, byte for byte.
//!
//! Numbers are in the order of the machine, but ports and addresses in that of the network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes before the payload of every message.
const HEADER: usize = 16;
/// The message that asks for sockets of a family, and that answers it with one of them.
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// A question, to be answered with all that there are.
const REQUEST_DUMP: u16 = 0x301;
/// Only sockets that listen: the bit of that state.
const LISTENING: u32 = 1 << 10;
const TCP: u8 = 6;
/// Of Unix sockets the name and the lengths of queues are wanted.
const SHOW_NAME_AND_QUEUE: u32 = 0x11;
const ATTRIBUTE_NAME: u16 = 0;
const ATTRIBUTE_QUEUE: u16 = 4;
const FAMILY_UNIX: u8 = 1;
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;

/// Which sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
    Unix,
}

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listening<'a> {
    pub(super) name: Name<'a>,
    /// Connections that wait to be accepted.
    pub(super) pending: u32,
    /// What it was told to hold. The kernel holds one more.
    pub(super) limit: u32,
}

/// What a socket is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name<'a> {
    Tcp(SocketAddr),
    /// As it was bound; a name without a file begins with a zero byte.
    Unix(&'a [u8]),
}

/// One message of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    Listening(Listening<'a>),
    /// Something that nobody asked for.
    Other,
    /// There are no more.
    Done,
    /// The kernel refuses, with this error number.
    Refused(i32),
}

/// The question for all listening sockets of `family`.
pub(super) fn question(family: Family, sequence: u32) -> Vec<u8> {
    let mut payload = Vec::with_capacity(56);
    match family {
        Family::V4 | Family::V6 => {
            let number = if family == Family::V4 {
                FAMILY_V4
            } else {
                FAMILY_V6
            };
            payload.extend([number, TCP, 0, 0]);
            payload.extend(LISTENING.to_ne_bytes());
            // Any address.
            payload.extend([0; 48]);
        }
        Family::Unix => {
            payload.extend([FAMILY_UNIX, 0, 0, 0]);
            payload.extend(LISTENING.to_ne_bytes());
            // Any inode.
            payload.extend(0_u32.to_ne_bytes());
            payload.extend(SHOW_NAME_AND_QUEUE.to_ne_bytes());
            payload.extend([0; 8]);
        }
    }
    let mut message = Vec::with_capacity(HEADER + payload.len());
    message.extend(((HEADER + payload.len()) as u32).to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST_DUMP.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    // From whoever we are.
    message.extend(0_u32.to_ne_bytes());
    message.extend(payload);
    message
}

/// The first message of `answer` that belongs to question `sequence`, and the bytes behind it; `None` at the end of
/// them.
pub(super) fn next(mut answer: &[u8], sequence: u32) -> Option<(Message<'_>, &[u8])> {
    loop {
        let length = u32_at(answer, 0)? as usize;
        if length < HEADER || length > answer.len() {
            return None;
        }
        let (message, rest) = (
            answer.get(..length)?,
            answer.get(aligned(length)..).unwrap_or_default(),
        );
        if u32_at(message, 8)? == sequence {
            return Some((read(u16_at(message, 4)?, &message[HEADER..]), rest));
        }
        // The end of an answer that was given up.
        answer = rest;
    }
}

fn read(kind: u16, payload: &[u8]) -> Message<'_> {
    match kind {
        DONE => Message::Done,
        // The number is negative; zero is an acknowledgement.
        ERROR => match u32_at(payload, 0).map(|number| number as i32) {
            Some(0) => Message::Done,
            Some(number) => Message::Refused(-number),
            None => Message::Other,
        },
        BY_FAMILY => {
            let listening = match payload.first() {
                Some(&FAMILY_UNIX) => unix(payload),
                Some(&(FAMILY_V4 | FAMILY_V6)) => tcp(payload),
                _ => None,
            };
            listening.map_or(Message::Other, Message::Listening)
        }
        _ => Message::Other,
    }
}

fn tcp(payload: &[u8]) -> Option<Listening<'_>> {
    let port = u16::from_be_bytes(payload.get(4..6)?.try_into().ok()?);
    let address: [u8; 16] = payload.get(8..24)?.try_into().ok()?;
    let ip = if payload[0] == FAMILY_V4 {
        let [a, b, c, d, ..] = address;
        IpAddr::from(Ipv4Addr::new(a, b, c, d))
    } else {
        IpAddr::from(Ipv6Addr::from(address))
    };
    Some(Listening {
        name: Name::Tcp(SocketAddr::new(ip, port)),
        pending: u32_at(payload, 56)?,
        limit: u32_at(payload, 60)?,
    })
}

fn unix(payload: &[u8]) -> Option<Listening<'_>> {
    let (mut name, mut queue) = (None, None);
    let mut attributes = payload.get(16..)?;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        let value = attributes.get(4..length)?;
        match kind {
            ATTRIBUTE_NAME => name = Some(value),
            ATTRIBUTE_QUEUE => queue = Some((u32_at(value, 0)?, u32_at(value, 4)?)),
            _ => {}
        }
        attributes = attributes.get(aligned(length)..).unwrap_or_default();
    }
    let (pending, limit) = queue?;
    Some(Listening {
        // A path may end with the zero of a C string.
        name: Name::Unix(name.map(|name| name.strip_suffix(&[0]).unwrap_or(name))?),
        pending,
        limit,
    })
}

const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + payload.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    #[test]
    fn questions_are_as_long_as_the_kernel_wants_them() {
        assert_eq!(question(Family::V4, 1).len(), HEADER + 56);
        assert_eq!(question(Family::Unix, 1).len(), HEADER + 24);
    }

    #[test]
    fn a_unix_socket_is_read_from_its_attributes() {
        let mut payload = vec![FAMILY_UNIX, 1, 10, 0];
        payload.extend([0; 12]);
        payload.extend([9, 0, 0, 0]);
        payload.extend(b"/run\0");
        payload.extend([0; 3]);
        payload.extend([12, 0, 4, 0]);
        payload.extend(5_u32.to_ne_bytes());
        payload.extend(8_u32.to_ne_bytes());
        let mut answer = message(BY_FAMILY, 7, &payload);
        answer.extend(message(DONE, 7, &[0; 4]));

        let (first, rest) = next(&answer, 7).unwrap();

        let listening = Listening {
            name: Name::Unix(b"/run"),
            pending: 5,
            limit: 8,
        };
        assert_eq!(first, Message::Listening(listening));
        assert_eq!(next(rest, 7), Some((Message::Done, &[][..])));
    }

    #[test]
    fn what_is_left_of_an_older_answer_is_passed_over() {
        let mut answer = message(DONE, 6, &[0; 4]);
        answer.extend(message(ERROR, 7, &(-2_i32).to_ne_bytes()));

        assert_eq!(next(&answer, 7), Some((Message::Refused(2), &[][..])));
        assert_eq!(next(&answer, 8), None);
    }

    #[test]
    fn what_is_cut_off_or_nonsense_is_nothing() {
        let mut payload = vec![FAMILY_V4; 40];
        let whole = message(BY_FAMILY, 1, &payload);
        assert_eq!(next(&whole, 1).unwrap().0, Message::Other);
        for length in 0..whole.len() {
            assert_eq!(next(&whole[..length], 1), None);
        }
        payload.clear();
        // A length below that of a header must not stop the reader.
        assert_eq!(next(&[0; 64], 0), None);
    }
}
