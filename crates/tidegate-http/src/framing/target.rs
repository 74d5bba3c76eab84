//! The request line and the authority that it may name.

use super::FramingFault;
use super::line::is_token;
use http::Uri;

/// The longest target that the engine takes.
const TARGET_BYTES_MAX: usize = 65_534;

/// A request line, as far as framing is concerned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestLine {
    pub(super) http_10: bool,
    /// Where the target says that it is; `None` when it is a path or `*`.
    pub(super) authority: Option<Authority>,
}

/// A host, perhaps with a port, that a target names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Authority {
    text: Vec<u8>,
    default_port: &'static [u8],
}

impl RequestLine {
    pub(super) fn parse(line: &[u8]) -> Result<Self, FramingFault> {
        let mut parts = line.split(|&byte| byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(FramingFault::RequestLine);
        };
        let http_10 = match version {
            b"HTTP/1.1" => false,
            b"HTTP/1.0" => true,
            _ => return Err(FramingFault::Version),
        };
        if !is_token(method) || target.is_empty() || target.contains(&b'\t') {
            return Err(FramingFault::RequestLine);
        }
        let authority = match target {
            _ if method == b"CONNECT" => Some(Authority::parse(target, b":443")?),
            [b'/', ..] | b"*" => None,
            _ => Some(Authority::of_absolute(target)?),
        };
        if !is_target(target) {
            return Err(FramingFault::RequestLine);
        }
        Ok(Self { http_10, authority })
    }
}

impl Authority {
    /// Whether `host` (the value of a `Host` field) is the same place.
    pub(super) fn agrees_with(&self, host: &[u8]) -> bool {
        self.without_default_port(&self.text)
            .eq_ignore_ascii_case(self.without_default_port(host))
    }

    fn of_absolute(target: &[u8]) -> Result<Self, FramingFault> {
        let Some(scheme_bytes) = memchr::memmem::find(target, b"://") else {
            return Err(FramingFault::RequestLine);
        };
        let scheme = &target[..scheme_bytes];
        let default_port: &'static [u8] = if scheme.eq_ignore_ascii_case(b"http") {
            b":80"
        } else if scheme.eq_ignore_ascii_case(b"https") {
            b":443"
        } else {
            return Err(FramingFault::RequestLine);
        };
        let rest = &target[scheme_bytes + 3..];
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
            .unwrap_or(rest.len());
        Self::parse(&rest[..end], default_port)
    }

    fn parse(text: &[u8], default_port: &'static [u8]) -> Result<Self, FramingFault> {
        if text.is_empty() {
            return Err(FramingFault::HostInvalid);
        }
        check_host(text)?;
        Ok(Self {
            text: text.to_vec(),
            default_port,
        })
    }

    fn without_default_port<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        text.strip_suffix(self.default_port)
            .or_else(|| text.strip_suffix(b":"))
            .unwrap_or(text)
    }
}

/// Whether the engine can read `target`. Its own parser is asked when there is anything in it that
/// is not in most of them.
fn is_target(target: &[u8]) -> bool {
    let is_plain = |byte: &u8| {
        matches!(
            byte,
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'/' | b'-' | b'.' | b'_' | b'~' | b'%' | b'!'
                | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@'
                | b'?'
        )
    };
    // What is too long to be one has an answer of its own (414), which the engine gives.
    (target.starts_with(b"/") && target.iter().all(is_plain))
        || target.len() > TARGET_BYTES_MAX
        || Uri::try_from(target).is_ok()
}

/// Whether `host` can be a host with or without a port. An empty one is what RFC 9112 §3.2 asks for
/// when there is no authority. A user's name, a path or a second host in it cannot be.
pub(super) fn check_host(host: &[u8]) -> Result<(), FramingFault> {
    let fits = |byte: &u8| {
        matches!(
            byte,
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$'
                | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b';' | b'=' | b':' | b'[' | b']'
        )
    };
    match host.iter().all(fits) {
        true => Ok(()),
        false => Err(FramingFault::HostInvalid),
    }
}
