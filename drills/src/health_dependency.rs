//! One database behind three nodes becomes slow, so all three are full at once. A real HAProxy goes by what Tidegate says of
//! them; beside it, in the same HAProxy, by a health page that asks the database, as many applications have one.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_lab::load::{Kind, Report};
use tidegate_lab::peers::{Haproxy, RedisServer, free_port};

use crate::harness::{
    Args, DRIVER, Drill, Figure, Keys, Metrics, Outlook, Postgres, Tomcat, TomcatSetup, Verdict,
    Viewer, Watched, ask, loopback, send, wait_for,
};

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-dependency",
    promise: "a database slows three nodes at once: none is taken out, the fleet's word says so within 6 s, and so does tidegate node why",
    takes: Duration::from_secs(90),
    run,
};

const NODES: [&str; 3] = ["a", "b", "c"];
const CONNECTIONS: u32 = 8;
const THREADS: u32 = 100;
/// Requests each second, of all visitors, and of those who come by way of the health page.
const RATE: f64 = 150.0;
const RATE_BESIDE: f64 = 15.0;
const PACE: Duration = Duration::from_millis(24);
/// How long a query takes while the database is in trouble: 8 connections do 16 of the 55 that come to each node.
const SLOW: Duration = Duration::from_millis(500);
const CALM: Duration = Duration::from_secs(6);
const TROUBLE: Duration = Duration::from_secs(20);
const AFTER: Duration = Duration::from_secs(12);
const LOOK: Duration = Duration::from_millis(200);
const NAMED_MS_MAX: f64 = 6_000.0;
const HEALTHY_MS_MAX: f64 = 30_000.0;
/// What an operator is told.
const SAID: &str = "A shared dependency is in trouble: its pool of connections (pool)";

/// The shop: a database, three nodes, and a balancer before them.
struct Site {
    postgres: Postgres,
    nodes: Vec<Watched>,
    haproxy: Haproxy,
    front: u16,
    beside: u16,
    _redis: RedisServer,
    _tomcats: Vec<Tomcat>,
}

/// What was seen.
#[derive(Default)]
struct Seen {
    /// Nodes that got nothing at once at most, by our word and by the health page.
    out: u32,
    out_beside: u32,
    /// When the leader first said what it is.
    named: Option<Duration>,
    dimension: String,
    /// The least part of the usual that admission was told to let in.
    admission: f64,
    /// What `tidegate node why` said then.
    why: String,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let site = Site::start()?;
    let before = site.metrics()?;
    let length = CALM + TROUBLE + AFTER;
    let load = |port, rate| {
        send(
            loopback(port),
            vec![Kind::get("visitor", "/item.jsp")],
            rate,
            length,
        )
    };
    let (ours, beside) = (load(site.front, RATE)?, load(site.beside, RATE_BESIDE)?);
    let seen = watch(&site)?;
    let (ours, beside) = (ours.join()?, beside.join()?);

    judge(&mut verdict, &seen);
    slowed_by_the_word(&mut verdict, &site, &before)?;
    let after = (CALM + TROUBLE).as_secs() as usize + 6..length.as_secs() as usize;
    for (what, during) in [
        (
            "in trouble",
            CALM.as_secs() as usize..(CALM + TROUBLE).as_secs() as usize,
        ),
        ("after it", after),
    ] {
        let good = |report: &Report| report.sum(during.clone(), |_| true).good_share();
        verdict.add(
            Figure::share(format!("answered within a second, {what}"), good(&ours))
                .beside("by a health page that asks the database", good(&beside)),
        );
    }
    let mut healthy: f64 = 0.0;
    for node in &site.nodes {
        let after = node.healthy_after(&["pool", "threads", "inflight", "latency"])?;
        healthy = if after.is_nan() {
            after
        } else {
            healthy + after
        };
    }
    verdict.add(
        Figure::ms("healthy again after the last visitor, all of them", healthy)
            .at_most(HEALTHY_MS_MAX),
    );
    Ok(verdict)
}

impl Site {
    fn start() -> anyhow::Result<Self> {
        let postgres = Postgres::start()?;
        let redis = RedisServer::plain()?;
        let setup = TomcatSetup::new(THREADS)
            .java("-Xmx96m")
            .page(("item.jsp", Postgres::PAGE))
            .resource(postgres.pool(CONNECTIONS), DRIVER);
        let (mut nodes, mut tomcats) = (Vec::new(), Vec::new());
        for name in NODES {
            let tomcat = Tomcat::start(&setup)?;
            ask(tomcat.address(), "/item.jsp")?;
            let store = Some(redis.address());
            nodes.push(Watched::start(
                name,
                &tomcat,
                Viewer::Probe,
                store,
                Keys::default(),
            )?);
            tomcats.push(tomcat);
        }
        postgres.pace(PACE, Duration::ZERO)?;
        for node in &nodes {
            node.healthy_after(&[])?;
        }
        let (front, beside) = (free_port()?, free_port()?);
        let haproxy = Haproxy::start(&sections(&nodes, &tomcats, front, beside))?;
        let site = Self {
            postgres,
            nodes,
            haproxy,
            front,
            beside,
            _redis: redis,
            _tomcats: tomcats,
        };
        wait_for("all nodes are in", || {
            Ok(site.out("nodes")? + site.out("beside")? == 0)
        })?;
        Ok(site)
    }

    /// Nodes of a backend that get nothing new.
    fn out(&self, backend: &str) -> anyhow::Result<u32> {
        let mut out = 0;
        for name in NODES {
            let status = self.haproxy.stat(backend, name, "status")?;
            let weight = self.haproxy.stat(backend, name, "uweight")?;
            out += u32::from(!status.starts_with("UP") || weight == "0");
        }
        Ok(out)
    }

    fn metrics(&self) -> anyhow::Result<Vec<Metrics>> {
        self.nodes.iter().map(|it| it.gateway().metrics()).collect()
    }
}

/// Two backends of the same nodes: one goes by what agents say, the other by a page that asks the database.
fn sections(nodes: &[Watched], tomcats: &[Tomcat], front: u16, beside: u16) -> String {
    let servers = |more: &dyn Fn(usize) -> String| -> String {
        let named = NODES.iter().zip(nodes).enumerate();
        let lines = named.map(|(at, (name, node))| {
            format!(
                " server {name} {} weight 100 check inter 1s fall 2 rise 2 {}\n",
                node.address(),
                more(at)
            )
        });
        lines.collect()
    };
    let agents = servers(&|at| {
        let port = nodes[at].agent().port();
        format!("agent-check agent-port {port} agent-inter 1s")
    });
    let pages = servers(&|at| format!("port {}", tomcats[at].address().port()));
    format!(
        "frontend visitors\n bind 127.0.0.1:{front}\n default_backend nodes\n\
         frontend others\n bind 127.0.0.1:{beside}\n default_backend beside\n\
         backend nodes\n option httpchk GET /.tidegate/readyz\n{agents}\
         backend beside\n option httpchk GET /item.jsp\n{pages}"
    )
}

/// Lets the database be slow for a while, and looks at everybody.
fn watch(site: &Site) -> anyhow::Result<Seen> {
    let mut seen = Seen {
        admission: 1.0,
        ..Seen::default()
    };
    let begun = Instant::now();
    sleep(CALM);
    site.postgres.pace(SLOW, Duration::ZERO)?;
    let slow = Instant::now();
    while slow.elapsed() < TROUBLE {
        seen.look(site, slow.elapsed())?;
        sleep(LOOK);
    }
    site.postgres.pace(PACE, Duration::ZERO)?;
    while begun.elapsed() < CALM + TROUBLE + AFTER {
        seen.look(site, slow.elapsed())?;
        sleep(LOOK);
    }
    Ok(seen)
}

impl Seen {
    fn look(&mut self, site: &Site, at: Duration) -> anyhow::Result<()> {
        self.out = self.out.max(site.out("nodes")?);
        self.out_beside = self.out_beside.max(site.out("beside")?);
        let Outlook { fleet, .. } = site.nodes[0].fleet()?;
        let Some(word) = fleet else {
            return Ok(());
        };
        self.out = self.out.max(word.out);
        self.admission = self.admission.min(word.admission);
        if let Some(shared) = word.shared
            && word.freeze.as_deref() == Some("dependency")
            && self.named.is_none()
        {
            self.named = Some(at);
            self.dimension = shared.dimension;
            self.why = site.nodes[1].why()?;
        }
        Ok(())
    }
}

fn judge(verdict: &mut Verdict, seen: &Seen) {
    verdict.add(
        Figure::count("nodes out at once at most", f64::from(seen.out))
            .exactly(0.0)
            .beside(
                "by a health page that asks the database",
                f64::from(seen.out_beside),
            ),
    );
    let named = seen.named.map_or(f64::NAN, |at| at.as_secs_f64() * 1_000.0);
    verdict.add(Figure::ms("named as what the nodes share after", named).at_most(NAMED_MS_MAX));
    verdict.say(format!("it is {}; tidegate node why says", seen.dimension));
    for line in seen.why.lines() {
        verdict.say(format!("    {line}"));
    }
    let is_said = u32::from(seen.why.contains(SAID));
    verdict.add(Figure::count("tidegate node why says so", f64::from(is_said)).exactly(1.0));
    verdict.add(
        Figure::share(
            "of the usual that admission is told to let in, at least",
            seen.admission,
        )
        .below(1.0),
    );
}

/// What gateways refused because of that word, of all that came. The word and the refusals are told apart: what each node
/// refuses for want of its own room has other reasons.
fn slowed_by_the_word(
    verdict: &mut Verdict,
    site: &Site,
    before: &[Metrics],
) -> anyhow::Result<()> {
    let (mut came, mut slowed, mut refused) = (0.0, 0.0, 0.0);
    for (node, before) in site.nodes.iter().zip(before) {
        let since = node.gateway().metrics()?.since(before);
        let counted = since.sum("tidegate_refused_total", &[]);
        came += since.sum("tidegate_admitted_total", &[]) + counted;
        refused += counted;
        slowed += since.sum("tidegate_refused_total", &[("reason", "fleet")]);
    }
    verdict.add(
        Figure::share("refused by the fleet's word", slowed / came)
            .beside("refused for any reason", refused / came),
    );
    Ok(())
}
