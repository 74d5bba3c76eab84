//! Debian's application servers, small and with pages that take as long as they are told to.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;

use super::path_in;
use crate::harness::{Peer, TempDir, free_port, loopback, program};

/// Names that Debian has given PHP-FPM.
const PHP_FPM: [&str; 4] = ["php-fpm8.2", "php-fpm8.4", "php-fpm8.3", "php-fpm"];
/// Known to everybody, on a machine of one's own.
const SECRET: &str = "health-runtimes";

const SLOW_PHP: &str = "<?php usleep(1000 * (int) $_GET['ms']); echo 'done';\n";
const SLOW_RUBY: &str = "run ->(env) { sleep(env['QUERY_STRING'].delete('^0-9').to_i / 1000.0); [200, {}, ['done']] }\n";
const SLOW_PYTHON: &str = "import time
def app(environ, start):
    time.sleep(int(environ['QUERY_STRING'].partition('=')[2] or 0) / 1000)
    start('200 OK', [])
    return [b'done']
";

/// A running server. Dropping it stops it.
pub(crate) struct Server {
    peer: Peer,
    dir: PathBuf,
}

/// What a server listens on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Over {
    Tcp,
    Unix,
}

/// Where a server listens.
#[derive(Clone, Debug)]
pub(super) enum At {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Server {
    /// Where its clients connect; of PHP-FPM, where it tells its status.
    pub(crate) fn address(&self) -> SocketAddr {
        self.peer.address()
    }

    /// A file of it, as a flag has it.
    pub(crate) fn file(&self, name: &str) -> String {
        path_in(&self.dir, name)
    }

    /// Starts `command` in `dir`; what it says goes to a file there.
    fn start(command: &[&str], address: SocketAddr, dir: TempDir) -> anyhow::Result<Self> {
        let at = dir.path().to_owned();
        let shell = "cd \"$0\" && exec \"$@\" >log 2>&1";
        let mut whole = vec![
            "sh".to_owned(),
            "-c".to_owned(),
            shell.to_owned(),
            at.display().to_string(),
        ];
        whole.extend(command.iter().map(|&part| part.to_owned()));
        Ok(Self {
            peer: Peer::start(&whole, address, dir, None)?,
            dir: at,
        })
    }

    /// PHP-FPM with so many children, and room for so many connections; where it listens, and where it tells its status.
    pub(super) fn php_fpm(
        children: u32,
        backlog: u32,
        over: Over,
    ) -> anyhow::Result<(Self, At, SocketAddr)> {
        let found = PHP_FPM
            .iter()
            .find_map(|name| program(name, "php-fpm").ok());
        let php = found.context("PHP-FPM is not installed: it is in Debian's package php-fpm")?;
        let dir = TempDir::new()?;
        let status = loopback(free_port()?);
        let (at, listen) = match over {
            Over::Unix => {
                let path = dir.path().join("fpm.sock");
                (At::Unix(path.clone()), path.display().to_string())
            }
            Over::Tcp => {
                let address = loopback(free_port()?);
                (At::Tcp(address), address.to_string())
            }
        };
        // Started by root it wants to be somebody else, and by others it ignores who.
        let conf = format!(
            "[global]\ndaemonize = no\nerror_log = {dir}/fpm.log\n[www]\nuser = www-data\ngroup = www-data\n\
             listen = {listen}\nlisten.mode = 0666\nlisten.backlog = {backlog}\npm = static\n\
             pm.max_children = {children}\npm.status_path = /status\npm.status_listen = {status}\n",
            dir = dir.path().display()
        );
        let file = dir.path().join("fpm.conf");
        fs::write(&file, conf)?;
        fs::write(dir.path().join("slow.php"), SLOW_PHP)?;
        let (php, file) = (php.display().to_string(), file.display().to_string());
        Ok((
            Self::start(&[&php, "-n", "-F", "-y", &file], status, dir)?,
            at,
            status,
        ))
    }

    /// Puma with so many threads, its control server, and the token of that.
    pub(super) fn puma(threads: u32) -> anyhow::Result<(Self, SocketAddr, &'static str)> {
        let puma = program("puma", "puma")?.display().to_string();
        let dir = TempDir::new()?;
        let (address, control) = (loopback(free_port()?), loopback(free_port()?));
        fs::write(dir.path().join("config.ru"), SLOW_RUBY)?;
        fs::write(dir.path().join("token"), SECRET)?;
        let (bind, control_url) = (format!("tcp://{address}"), format!("tcp://{control}"));
        let threads = format!("{threads}:{threads}");
        let command = [
            puma.as_str(),
            "-b",
            &bind,
            "-t",
            &threads,
            "--control-url",
            &control_url,
            "--control-token",
            SECRET,
            "config.ru",
        ];
        Ok((Self::start(&command, address, dir)?, control, SECRET))
    }

    /// gunicorn with so many workers, and where it sends what it counts.
    pub(super) fn gunicorn(workers: u32) -> anyhow::Result<(Self, SocketAddr)> {
        let gunicorn = program("gunicorn", "gunicorn")?.display().to_string();
        let dir = TempDir::new()?;
        let (address, statsd) = (loopback(free_port()?), loopback(free_port()?));
        fs::write(dir.path().join("slow.py"), SLOW_PYTHON)?;
        let (at, statsd_at, workers) =
            (address.to_string(), statsd.to_string(), workers.to_string());
        let command = [
            gunicorn.as_str(),
            "-w",
            &workers,
            "-b",
            &at,
            "--statsd-host",
            &statsd_at,
            "slow:app",
        ];
        Ok((Self::start(&command, address, dir)?, statsd))
    }
}
