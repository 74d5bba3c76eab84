//! Where a listener is: one that only this machine reaches, or one that others reach too.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tidegate_http::local::Listen;

use super::section::Section;

/// The longest path of a socket that every system takes.
pub(super) const SOCKET_PATH_LEN_MAX: usize = 103;

/// How a good value looks, and what a bad one would mean.
pub(super) struct Example {
    /// A socket.
    pub(super) socket: &'static str,
    /// An address.
    pub(super) address: &'static str,
    /// What would happen at an address that other machines reach.
    pub(super) exposed: &'static str,
}

/// The place at `listen`. `own` are the addresses that are taken.
pub(super) fn listen(section: &Section<'_>, example: &Example, own: &[SocketAddr]) -> Listen {
    let text = section.text("listen");
    let stand_in = Listen::Socket(PathBuf::new());
    if !section.sound(&["listen"]) {
        return stand_in;
    }
    let refuse = |why: &str, fix: &str| {
        section.refuse("listen", format!("`listen = \"{text}\"` {why}"), fix);
    };
    if let Some(path) = text.strip_prefix("unix:") {
        if !Path::new(path).is_absolute() || path.ends_with('/') {
            refuse(
                "is no whole path of a socket",
                &format!("write it from the root on, such as \"{}\"", example.socket),
            );
        } else if path.len() > SOCKET_PATH_LEN_MAX {
            refuse(
                "is a path too long for a socket",
                "systems take about 100 bytes: write a shorter one",
            );
        }
        return Listen::Socket(PathBuf::from(path));
    }
    let fix = format!(
        "write \"{}\" or \"{}\", say",
        example.socket, example.address
    );
    let Ok(address) = text.parse::<SocketAddr>() else {
        refuse("is neither a socket's path nor an address", &fix);
        return stand_in;
    };
    if !address.ip().is_loopback() {
        refuse(
            &format!("is no loopback address: {}", example.exposed),
            &fix,
        );
    }
    let taken = own.iter().find(|own| {
        own.port() == address.port()
            && own.port() != 0
            && (own.ip() == address.ip() || own.ip().is_unspecified())
    });
    if taken.is_some() {
        refuse(
            "is taken by a listener of Tidegate's own",
            "choose another port",
        );
    }
    Listen::Loopback(address)
}

/// The address at `key`, which other machines may reach; `good` is how to write one. `own` are the addresses that are taken.
pub(super) fn public(
    section: &Section<'_>,
    key: &'static str,
    good: &str,
    own: &[SocketAddr],
) -> SocketAddr {
    let text = section.text(key);
    let stand_in = SocketAddr::from(([127, 0, 0, 1], 0));
    if !section.sound(&[key]) {
        return stand_in;
    }
    let refuse = |why: &str, fix: &str| {
        section.refuse(key, format!("`{key} = \"{text}\"` {why}"), fix);
    };
    let Ok(address) = text.parse::<SocketAddr>() else {
        refuse("is no address and port", good);
        return stand_in;
    };
    let taken = own.iter().any(|own| {
        own.port() == address.port()
            && own.port() != 0
            && (own.ip() == address.ip()
                || own.ip().is_unspecified()
                || address.ip().is_unspecified())
    });
    if taken {
        refuse(
            "is taken by a listener of Tidegate's own",
            "choose another port",
        );
    }
    address
}

/// The address of a listener that has one.
pub(super) const fn address(listen: &Listen) -> Option<SocketAddr> {
    match listen {
        Listen::Loopback(address) => Some(*address),
        Listen::Socket(_) => None,
    }
}
