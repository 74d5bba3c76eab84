//! A Tomcat whose pages take as long as they are told to, and whose workers somebody else may take.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;

use crate::harness::{HEALTH_PAGE, SLOW_PAGE, Tomcat, TomcatSetup, ask, wait_for};
use crate::health_runtimes::clients::Clients;

/// Threads of the connector that serves pages.
pub(crate) const WORKERS: u32 = 24;
/// How long a page takes when all is well.
pub(crate) const SERVICE: Duration = Duration::from_millis(100);

const PAGE: (&str, &str) = (
    "page.jsp",
    "<%@page session=\"false\"%><% Object ms = application.getAttribute(\"ms\"); \
     Thread.sleep(ms == null ? 100L : (Long) ms); %>done\n",
);
const SET: (&str, &str) = (
    "set.jsp",
    "<%@page session=\"false\"%><% application.setAttribute(\"ms\", Long.valueOf(request.getParameter(\"ms\"))); %>set\n",
);
/// Keeps a worker until its time is over, or until all workers are freed.
const HOLD: (&str, &str) = (
    "hold.jsp",
    "<%@page session=\"false\"%><% Object then = application.getAttribute(\"freed\");
long until = System.currentTimeMillis() + Long.parseLong(request.getParameter(\"ms\"));
while (System.currentTimeMillis() < until && application.getAttribute(\"freed\") == then) { Thread.sleep(20L); } %>done\n",
);
const FREE: (&str, &str) = (
    "free.jsp",
    "<%@page session=\"false\"%><% application.setAttribute(\"freed\", new Object()); %>freed\n",
);
/// Busy threads of the connector at a port.
const BUSY: (&str, &str) = (
    "busy.jsp",
    "<%@page session=\"false\" trimDirectiveWhitespaces=\"true\" \
     import=\"java.lang.management.ManagementFactory,javax.management.MBeanServer,javax.management.ObjectName\"%><%
MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
for (ObjectName pool : beans.queryNames(new ObjectName(\"Catalina:type=ThreadPool,name=*\"), null)) {
  if (pool.getKeyProperty(\"name\").endsWith(\"-\" + request.getParameter(\"port\") + \"\\\"\")) {
    out.print(beans.getAttribute(pool, \"currentThreadsBusy\"));
  }
} %>",
);

/// A running Tomcat. Dropping it stops it.
pub(crate) struct Shop {
    server: Tomcat,
    probe: SocketAddr,
}

/// Looks at how many threads of a Tomcat are busy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eye {
    port: u16,
    probe: SocketAddr,
}

impl Eye {
    /// Threads that are busy with pages.
    pub(crate) fn busy(&self) -> anyhow::Result<u32> {
        let told = ask(self.probe, &format!("/busy.jsp?port={}", self.port))?;
        let told = String::from_utf8(told)?;
        let told = told.trim();
        told.parse()
            .with_context(|| format!("Tomcat says that {told:?} threads are busy"))
    }
}

impl Shop {
    /// Starts one, and waits until its pages are compiled.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let pages = [PAGE, SLOW_PAGE, SET, HOLD, FREE, BUSY, HEALTH_PAGE];
        let setup = pages
            .into_iter()
            .fold(TomcatSetup::new(WORKERS), TomcatSetup::page);
        let server = Tomcat::start(&setup)?;
        let probe = server.second_connector();
        let shop = Self { server, probe };
        // Whoever asks first waits for the compiler, on a busy machine longer than one question may take.
        for path in ["/page.jsp", "/slow.jsp?ms=0", "/hold.jsp?ms=0", "/free.jsp"] {
            wait_for("a page of Tomcat is compiled", || {
                Ok(ask(shop.address(), path).is_ok())
            })?;
        }
        wait_for("Tomcat tells how many threads are busy", || {
            Ok(shop.busy().is_ok())
        })?;
        wait_for("Tomcat may be told how long a page takes", || {
            Ok(shop.set_service(SERVICE).is_ok())
        })?;
        Ok(shop)
    }

    /// Where visitors connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Another connector, with threads of its own: the manager, and a health page.
    pub(crate) const fn probe(&self) -> SocketAddr {
        self.probe
    }

    /// The file with the password of Tomcat's manager.
    pub(crate) fn password_file(&self) -> String {
        self.server.file("password")
    }

    /// From now on a page takes so long.
    pub(crate) fn set_service(&self, service: Duration) -> anyhow::Result<()> {
        let path = format!("/set.jsp?ms={}", service.as_millis());
        ask(self.probe, &path).map(drop)
    }

    /// Threads that are busy with pages.
    pub(crate) fn busy(&self) -> anyhow::Result<u32> {
        self.eye().busy()
    }

    /// An eye on it, for another thread.
    pub(crate) fn eye(&self) -> Eye {
        Eye {
            port: self.address().port(),
            probe: self.probe,
        }
    }

    /// Frees the workers that were taken.
    pub(crate) fn free(&self) -> anyhow::Result<()> {
        ask(self.probe, "/free.jsp").map(drop)
    }

    /// Takes `count` workers for `span`, past every balancer: an import, say, or whoever else knows this server by its
    /// own address. Clients that leave do not free them, as in any blocking application.
    pub(crate) fn take(&self, count: usize, span: Duration) -> anyhow::Result<Clients> {
        let path = format!("/hold.jsp?ms={}", span.as_millis());
        Clients::http(self.address(), &path, count)
    }
}
