//! The application of a page, run as the page says.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::process::{PATIENCE, TempDir};
use crate::tomcat::Tomcat;

/// The compiler that Tomcat brings along for its pages: no development kit is needed.
const COMPILER: &str = "/usr/share/java/eclipse-jdt-core.jar";
const SERVLET_API: &str = "/usr/share/tomcat10/lib/servlet-api.jar";

/// A running application. Dropping it stops it and what it has started.
pub(super) struct Application {
    address: SocketAddr,
    _process: Process,
}

#[expect(dead_code, reason = "held until it is dropped")]
enum Process {
    Group(Group),
    Tomcat(Tomcat),
}

/// A process and those that it has started: a group of their own.
struct Group(Child);

impl Application {
    /// PHP's own server, with as many processes as the page has workers.
    pub(super) fn php(directory: &TempDir, port: u16) -> Self {
        let mut command = Command::new("php");
        command.env("PHP_CLI_SERVER_WORKERS", "4");
        command.args(["-S", &format!("127.0.0.1:{port}"), "shop.php"]);
        Self::group(directory, port, command)
    }

    pub(super) fn node(directory: &TempDir, port: u16) -> Self {
        let mut command = Command::new("node");
        command.arg("shop.mjs");
        Self::group(directory, port, command)
    }

    pub(super) fn python(directory: &TempDir, port: u16) -> Self {
        let mut command = Command::new("python3");
        command.arg("shop.py");
        Self::group(directory, port, command)
    }

    /// Tomcat with the page's servlet as its only application.
    pub(super) fn tomcat(directory: &TempDir, port: u16) -> Self {
        let root = directory.path().join("ROOT");
        let classes = root.join("WEB-INF/classes");
        fs::create_dir_all(&classes).unwrap();
        assert!(
            Path::new(COMPILER).exists(),
            "Debian's package libeclipse-jdt-core-java is missing; ./test installs it with Tomcat"
        );
        let compiled = Command::new("java")
            .args([
                "-cp",
                COMPILER,
                "org.eclipse.jdt.internal.compiler.batch.Main",
            ])
            .args(["-17", "-proc:none", "-nowarn", "-cp", SERVLET_API, "-d"])
            .arg(&classes)
            .args(["Session.java", "Shop.java"])
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(
            compiled.status.success(),
            "{}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        let context = format!(r#"<Context path="" docBase="{}"/>"#, root.display());
        Self {
            address: ([127, 0, 0, 1], port).into(),
            _process: Process::Tomcat(Tomcat::start_with(port, &context)),
        }
    }

    fn group(directory: &TempDir, port: u16, mut command: Command) -> Self {
        let child = command
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let program = command.get_program().to_string_lossy().into_owned();
        let child = child.unwrap_or_else(|error| panic!("{program}: {error}; ./test installs it"));
        Self {
            address: ([127, 0, 0, 1], port).into(),
            _process: Process::Group(Group(child)),
        }
    }

    pub(super) fn wait_until_it_listens(&self) {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            assert!(
                begun.elapsed() < PATIENCE,
                "the application does not listen"
            );
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}
