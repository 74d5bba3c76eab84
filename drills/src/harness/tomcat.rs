//! Debian's Tomcat with pages of the drill's own, and with its manager on a connector of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::peer::{Peer, loopback};
use super::{TempDir, free_port};

const HOME: &str = "/usr/share/tomcat10";
const MANAGER: &str = "/usr/share/tomcat10-admin/manager";
/// A page that takes the milliseconds that it is asked for.
pub(crate) const SLOW_PAGE: (&str, &str) = (
    "slow.jsp",
    "<%@page session=\"false\"%><% Thread.sleep(Long.parseLong(request.getParameter(\"ms\"))); %>done\n",
);
/// A page for the health checks of balancers.
pub(crate) const HEALTH_PAGE: (&str, &str) = ("health.html", "well\n");
/// Known to everybody, on a machine of one's own.
const SECRET: &str = "health-drill";

/// A Tomcat to be started.
#[derive(Clone, Debug)]
pub(crate) struct TomcatSetup {
    /// Threads for clients.
    threads: u32,
    /// Options of its JVM.
    java: &'static str,
    pages: Vec<(&'static str, &'static str)>,
    /// What is declared in its context.
    context: String,
    /// An archive that all applications see, such as a driver.
    archive: Option<&'static str>,
}

/// A running Tomcat. Dropping it stops it.
pub(crate) struct Tomcat {
    peer: Peer,
    dir: PathBuf,
    manager: SocketAddr,
    threads: u32,
}

/// Who may see what of a Tomcat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Viewer {
    /// Threads, collections and pools.
    Probe,
    /// Threads alone.
    Plain,
}

impl TomcatSetup {
    /// With so many threads, a heap of 128 MiB and no page.
    pub(crate) const fn new(threads: u32) -> Self {
        Self {
            threads,
            java: "-Xmx128m",
            pages: Vec::new(),
            context: String::new(),
            archive: None,
        }
    }

    /// The same with one more page: its name, and its text.
    #[must_use]
    pub(crate) fn page(mut self, page: (&'static str, &'static str)) -> Self {
        self.pages.push(page);
        self
    }

    /// The same with these options of the JVM, parted by spaces.
    #[must_use]
    pub(crate) const fn java(mut self, options: &'static str) -> Self {
        self.java = options;
        self
    }

    /// The same with `resource`, XML of a context, and the `archive` that it needs.
    #[must_use]
    pub(crate) fn resource(mut self, resource: String, archive: &'static str) -> Self {
        self.context = resource;
        self.archive = Some(archive);
        self
    }

    /// Fills `dir` with all that a Tomcat at `address` needs.
    fn write(&self, dir: &Path, address: SocketAddr, manager: SocketAddr) -> anyhow::Result<()> {
        for folder in ["conf", "logs", "temp", "webapps/ROOT", "work"] {
            fs::create_dir_all(dir.join(folder))?;
        }
        for entry in fs::read_dir(Path::new(HOME).join("skel/conf"))? {
            let path = entry?.path();
            let name = path.file_name().context("a file has a name")?;
            fs::copy(&path, dir.join("conf").join(name))?;
        }
        if let Some(archive) = self.archive {
            let file = dir.join("conf/catalina.properties");
            let text = fs::read_to_string(&file)?;
            let wider = format!("common.loader=\"{archive}\",");
            let text = text.replacen("common.loader=", &wider, 1);
            anyhow::ensure!(text.contains(&wider), "Tomcat's class loader is elsewhere");
            fs::write(&file, text)?;
        }
        fs::write(
            dir.join("conf/server.xml"),
            server_xml(self, address, manager),
        )?;
        let user = |name, roles| {
            format!("<user username=\"{name}\" password=\"{SECRET}\" roles=\"{roles}\"/>")
        };
        let users = format!(
            "<tomcat-users>{}{}</tomcat-users>",
            user(Viewer::Probe.name(), "manager-status,manager-jmx"),
            user(Viewer::Plain.name(), "manager-status")
        );
        fs::write(dir.join("conf/tomcat-users.xml"), users)?;
        for (name, text) in &self.pages {
            fs::write(dir.join("webapps/ROOT").join(name), text)?;
        }
        fs::write(dir.join("password"), SECRET)?;
        Ok(())
    }
}

impl Tomcat {
    /// Starts one and waits until it accepts connections.
    pub(crate) fn start(setup: &TomcatSetup) -> anyhow::Result<Self> {
        anyhow::ensure!(
            Path::new(MANAGER).is_dir() && Path::new(HOME).join("skel/conf").is_dir(),
            "Tomcat is not installed: it is in Debian's packages tomcat10-user and tomcat10-admin"
        );
        let dir = TempDir::new()?;
        let (address, manager) = (loopback(free_port()?), loopback(free_port()?));
        setup.write(dir.path(), address, manager)?;
        let base = dir.path().to_owned();
        let at = base.display().to_string();
        let command = [
            "sh".to_owned(),
            "-c".to_owned(),
            "cd \"$0\" && exec \"$@\" >log 2>&1".to_owned(),
            at.clone(),
            "env".to_owned(),
            format!("CATALINA_HOME={HOME}"),
            format!("CATALINA_BASE={at}"),
            format!("JAVA_OPTS={}", setup.java),
            format!("{HOME}/bin/catalina.sh"),
            "run".to_owned(),
        ];
        Ok(Self {
            peer: Peer::start(&command, address, dir, None)?,
            dir: base,
            manager,
            threads: setup.threads,
        })
    }

    /// Where its clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.peer.address()
    }

    /// Its threads for clients.
    pub(crate) const fn threads(&self) -> u32 {
        self.threads
    }

    /// Where its manager is.
    pub(crate) fn manager(&self) -> String {
        format!("http://{}/manager", self.manager)
    }

    /// Where its manager's connector serves everything else as well.
    pub(crate) const fn second_connector(&self) -> SocketAddr {
        self.manager
    }

    /// A file of it, as a flag has it.
    pub(crate) fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Bytes that it has logged so far.
    pub(crate) fn logged(&self) -> anyhow::Result<u64> {
        Ok(fs::metadata(self.dir.join("log"))?.len())
    }

    /// Keys of `[agent]` for an agent that looks at it as `viewer`.
    pub(crate) fn keys(&self, viewer: Viewer) -> String {
        format!(
            "runtime = \"tomcat\"\nurl = \"{}\"\nuser = \"{}\"\npassword_file = \"{}\"\nlisten = [\"{}\"]\n",
            self.manager(),
            viewer.name(),
            self.file("password"),
            self.address()
        )
    }
}

impl Viewer {
    /// Whom Tomcat knows it as.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Plain => "plain",
        }
    }
}

fn server_xml(setup: &TomcatSetup, address: SocketAddr, manager: SocketAddr) -> String {
    let connector = |at: SocketAddr, threads| {
        format!(
            "<Connector port=\"{}\" address=\"127.0.0.1\" maxThreads=\"{threads}\"/>",
            at.port()
        )
    };
    let (first, second) = (connector(address, setup.threads), connector(manager, 2));
    let context = &setup.context;
    format!(
        r#"<Server port="-1">
  <GlobalNamingResources><Resource name="users" type="org.apache.catalina.UserDatabase"
    factory="org.apache.catalina.users.MemoryUserDatabaseFactory" pathname="conf/tomcat-users.xml"/>
  </GlobalNamingResources>
  <Service name="Catalina">{first}{second}
    <Engine name="Catalina" defaultHost="localhost">
      <Realm className="org.apache.catalina.realm.UserDatabaseRealm" resourceName="users"/>
      <Host name="localhost" appBase="webapps" autoDeploy="false">
        <Context path="" docBase="ROOT">{context}</Context>
        <Context path="/manager" docBase="{MANAGER}" privileged="true"/>
      </Host>
    </Engine>
  </Service>
</Server>"#
    )
}
