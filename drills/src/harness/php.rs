//! Debian's PHP with its own sessions, as they are when nobody has changed a setting.

use std::fs;
use std::net::SocketAddr;

use super::peer::{Peer, loopback, program};
use super::{TempDir, free_port};

/// Answers like the application of the drills. `session_regenerate_id` is called at a sign-in, as
/// the manual says, and with the parameters that it has when none is given.
const ROUTER: &str = r"<?php
session_start();
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$known = ['uid' => $_SESSION['uid'] ?? null, 'session' => session_id(), 'state' => null,
    'attributes' => (object) array_diff_key($_SESSION, ['uid' => 0])];
if ($path === '/sign-in') {
    session_regenerate_id();
    $_SESSION['uid'] = $_GET['uid'];
} elseif ($path === '/put') {
    $_SESSION[$_GET['name']] = str_repeat('v', (int) $_GET['bytes']);
}
echo json_encode($known);
";

/// Starts PHP's own server with that application.
pub(crate) fn start() -> anyhow::Result<Peer> {
    let dir = TempDir::new()?;
    let address: SocketAddr = loopback(free_port()?);
    let router = dir.path().join("router.php");
    fs::write(&router, ROUTER)?;
    let php = program("php", "php-cli")?.display().to_string();
    let mut command = vec![php, "-n".to_owned(), "-q".to_owned(), "-d".to_owned()];
    command.push(format!("session.save_path={}", dir.path().display()));
    command.extend(["-S".to_owned(), address.to_string()]);
    command.push(router.display().to_string());
    Peer::start(&command, address, dir, None)
}
