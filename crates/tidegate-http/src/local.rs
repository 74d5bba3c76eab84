//! Listeners that only this machine reaches: a Unix socket, or a loopback address.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The socket is for its owner and group alone.
const SOCKET_MODE: u32 = 0o660;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A socket at this path, with mode 0660.
    Socket(PathBuf),
    /// A loopback address; port 0 picks a free one.
    Loopback(SocketAddr),
}

/// A listener, not blocking.
#[derive(Debug)]
pub enum Bound {
    /// On a socket.
    Socket(UnixListener),
    /// On a loopback address.
    Loopback(TcpListener),
}

/// A socket's path, which goes when this is dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

/// Why a listener is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The socket or the address is not to be had.
    #[error("cannot listen on {listen}")]
    Refused {
        /// Where.
        listen: Listen,
        /// Why.
        source: io::Error,
    },
    /// The socket's directory is missing.
    #[error(
        "cannot listen on {listen}: there is no directory {}. Make it, as with `sudo install -d -o \"$USER\" {}`, or \
         have systemd do it each time it starts Tidegate: `RuntimeDirectory=tidegate` makes /run/tidegate",
        .directory.display(), .directory.display()
    )]
    NoDirectory {
        /// Where.
        listen: Listen,
        /// What is missing.
        directory: PathBuf,
    },
    /// There is a file at the socket's path that is none of ours.
    #[error("{} is there already and is no socket: it is left alone", .0.display())]
    Occupied(PathBuf),
    /// Another process listens on the socket.
    #[error("another process listens on {}", .0.display())]
    InUse(PathBuf),
}

impl Listen {
    /// Listens there, and says where that is: with the port that the system chose, where it was asked to choose.
    ///
    /// # Errors
    ///
    /// When it cannot.
    pub fn bind(&self) -> Result<(Bound, Self), ListenError> {
        let refused = |source| ListenError::Refused {
            listen: self.clone(),
            source,
        };
        match self {
            Self::Socket(path) => {
                if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
                    return Err(ListenError::NoDirectory {
                        listen: self.clone(),
                        directory: directory.to_owned(),
                    });
                }
                clear(path)?;
                let listener = bind_private(path).map_err(refused)?;
                Ok((Bound::Socket(listener), self.clone()))
            }
            Self::Loopback(address) => {
                let listener = TcpListener::bind(address).map_err(refused)?;
                listener.set_nonblocking(true).map_err(refused)?;
                let address = listener.local_addr().map_err(refused)?;
                Ok((Bound::Loopback(listener), Self::Loopback(address)))
            }
        }
    }

    /// What takes the socket's path away in the end, where there is one.
    pub fn file(&self) -> Option<SocketFile> {
        match self {
            Self::Socket(path) => Some(SocketFile(path.clone())),
            Self::Loopback(_) => None,
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// As a configuration has it.
impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
            Self::Loopback(address) => write!(f, "{address}"),
        }
    }
}

/// Takes away a socket that an earlier process has left, and nothing else.
fn clear(path: &Path) -> Result<(), ListenError> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(ListenError::Occupied(path.to_owned()));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(ListenError::InUse(path.to_owned()));
    }
    // Where it cannot be removed, binding says why.
    let _ = fs::remove_file(path);
    Ok(())
}

/// Binds a socket that nobody else could ever open: under another name first, and moved when its
/// mode is right.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let _ = fs::remove_file(&draft);
    let listener = UnixListener::bind(&draft)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(SOCKET_MODE))?;
    fs::rename(&draft, path)?;
    Ok(listener)
}
