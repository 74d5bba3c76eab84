//! Debian's PostgreSQL, whose queries take as long as the drill wants.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::peer::{Peer, loopback};
use super::{TempDir, free_port, wait_for};

/// Where Debian has it, a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The driver for Java, from Debian's package `libpostgresql-jdbc-java`.
pub(crate) const DRIVER: &str = "/usr/share/java/postgresql.jar";
/// It does not run as root; then it is this user.
const USER: &str = "postgres";
/// Longest time that it has to end in.
const STOP_WITHIN: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How long a query takes is in a table, as a line over time: what it began with, in seconds, and how much it grows each
/// second.
const SCHEMA: &str = "CREATE TABLE pace (since float8, base float8, per_s float8);
    INSERT INTO pace VALUES (0, 0.01, 0);
    CREATE FUNCTION pause() RETURNS float8 LANGUAGE sql VOLATILE AS $$
        SELECT base + per_s * (extract(epoch FROM clock_timestamp()) - since)::float8 FROM pace $$";

/// A running PostgreSQL. Dropping it stops it.
pub(crate) struct Postgres {
    peer: Peer,
    programs: PathBuf,
}

impl Postgres {
    /// A JSP that asks it once, by a connection of the pool, and takes as long as was said last.
    pub(crate) const PAGE: &str = "<%@page session=\"false\" import=\"javax.naming.InitialContext,javax.sql.DataSource,java.sql.*\"%><%
DataSource pool = (DataSource) new InitialContext().lookup(\"java:comp/env/jdbc/shop\");
try (Connection it = pool.getConnection(); Statement statement = it.createStatement();
    ResultSet rows = statement.executeQuery(\"SELECT pg_sleep(pause())\")) { rows.next(); } %>done
";

    /// Starts one that keeps nothing, and waits until it answers.
    pub(crate) fn start() -> anyhow::Result<Self> {
        anyhow::ensure!(
            Path::new(DRIVER).is_file(),
            "the driver is not installed: it is in Debian's package libpostgresql-jdbc-java"
        );
        let programs = programs()?;
        let dir = TempDir::new()?;
        let data = dir.path().join("data");
        fs::create_dir(&data)?;
        let mut as_user = Vec::new();
        if fs::metadata(dir.path())?.uid() == 0 {
            said(Command::new("chown").arg(format!("{USER}:")).arg(&data))?;
            let user = [
                "setpriv",
                "--reuid",
                USER,
                "--regid",
                USER,
                "--clear-groups",
            ];
            as_user.extend(user.map(str::to_owned));
        }
        let program = |name: &str| programs.join(name).display().to_string();
        let data = data.display().to_string();
        let mut init = as_user.clone();
        init.extend([program("initdb"), "-D".to_owned(), data.clone()]);
        let plain = ["-A", "trust", "-N", "-E", "UTF8", "--locale=C", "-U", USER];
        init.extend(plain.map(str::to_owned));
        said(Command::new(&init[0]).args(&init[1..]))?;

        let address = loopback(free_port()?);
        let mut command = as_user;
        command.extend([program("postgres"), "-D".to_owned(), data]);
        command.extend(["-p".to_owned(), address.port().to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=120",
            "fsync=off",
            "log_min_messages=panic",
        ] {
            command.extend(["-c".to_owned(), setting.to_owned()]);
        }
        let postgres = Self {
            peer: Peer::start(&command, address, dir, None)?,
            programs,
        };
        wait_for("PostgreSQL answers", || {
            Ok(postgres.execute("SELECT 1").is_ok())
        })?;
        postgres.execute(SCHEMA)?;
        Ok(postgres)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.peer.address()
    }

    /// From now on a query takes `base`, and each second `per_s` more.
    pub(crate) fn pace(&self, base: Duration, per_s: Duration) -> anyhow::Result<()> {
        let (base, per_s) = (base.as_secs_f64(), per_s.as_secs_f64());
        self.execute(&format!(
            "UPDATE pace SET base = {base}, per_s = {per_s}, since = extract(epoch FROM clock_timestamp())"
        ))
    }

    /// XML of a pool of `connections` connections called `jdbc/shop`, of the kind that Tomcat makes by itself. With an
    /// `initialSize` such a pool would be made before it has a name, and never show what is inside of it.
    pub(crate) fn pool(&self, connections: u32) -> String {
        format!(
            "<Resource name=\"jdbc/shop\" type=\"javax.sql.DataSource\" driverClassName=\"org.postgresql.Driver\"
              url=\"jdbc:postgresql://{}/postgres\" username=\"{USER}\" maxTotal=\"{connections}\"
              maxIdle=\"{connections}\" maxWaitMillis=\"30000\"/>",
            self.address()
        )
    }

    fn execute(&self, statement: &str) -> anyhow::Result<()> {
        let (host, port) = (self.address().ip(), self.address().port());
        said(
            Command::new(self.programs.join("psql"))
                .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", USER])
                .args(["-h", &host.to_string(), "-p", &port.to_string()])
                .args(["-d", "postgres", "-c", statement]),
        )
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Asked to end as others are, it would wait for its clients.
        let asked = Command::new("kill")
            .args(["-INT", &self.peer.id().to_string()])
            .status();
        let until = Instant::now() + STOP_WITHIN;
        while asked.is_ok() && TcpStream::connect(self.address()).is_ok() && Instant::now() < until
        {
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

/// Where the newest version has its programs.
fn programs() -> anyhow::Result<PathBuf> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin"));
    let found = programs.filter(|it| it.join("initdb").is_file()).max();
    found.context("PostgreSQL is not installed: it is in Debian's package postgresql")
}

/// Runs `command` to its end; what it says is shown when it fails.
fn said(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    anyhow::ensure!(
        output.status.success(),
        "{:?} failed: {}{}",
        command.get_program(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
