//! Two JVMs with the same load of garbage: one has hardly any room beside what it keeps, and collects all the time; the other
//! has room, and its heap fills and empties like the teeth of a saw. Heap in use says the same of both.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;
use tidegate_core::health::{Dimension, Readings, Scales, Signal};
use tidegate_core::time::Mono;
use tidegate_lab::load::Kind;

use crate::harness::{
    Args, Drill, Figure, Keys, Tomcat, TomcatSetup, Verdict, Viewer, Watched, ask, probe, send,
};

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-jvm",
    promise: "a JVM that collects all the time is named for it within 10 s; one with room and much garbage is not, though its heap is as full",
    takes: Duration::from_secs(75),
    run,
};

/// Requests each second.
const RATE: f64 = 60.0;
const SECONDS: u64 = 24;
/// Before that the JVM still compiles and loads what it needs.
const WARM_UP: Duration = Duration::from_secs(5);
/// Within which it is to be named.
const NAMED_MS_MAX: f64 = 10_000.0;
/// Above this much left, nobody says that a node is in trouble.
const WELL_ABOVE: f64 = 0.55;
const USED_MEAN_MAX: f64 = 0.10;
/// What alarms on heap in use usually begin at.
const HEAP_ALARM: f64 = 0.80;
const MIB_AT_ONCE: u32 = 5;

/// Each request makes a megabyte of garbage, in pieces.
const WORK: &str = "<%@page session=\"false\"%><% int sum = 0;
for (int i = 0; i < 1000; i++) { byte[] it = new byte[1000]; it[i] = 1; sum += it.length; } %><%=sum%>
";
const KEEP: &str = "<%@page session=\"false\"%><%! static final java.util.ArrayList<byte[]> kept = new java.util.ArrayList<>(); %><%
for (int i = 1024 * Integer.parseInt(request.getParameter(\"mb\")); i > 0; i--) kept.add(new byte[1000]); %><%=kept.size()%>
";
const HEAP: &str = "<%@page session=\"false\"%><% Runtime it = Runtime.getRuntime();
out.print((it.totalMemory() - it.freeMemory()) / (double) it.maxMemory()); %>
";

/// A JVM, and how much it keeps.
struct Plan {
    name: &'static str,
    java: &'static str,
    keeps_mib: u32,
}

/// What was seen of one.
#[derive(Default)]
struct Story {
    /// When the node was first in trouble for its collections.
    named: Option<Duration>,
    /// Second by second, 0 to 1: how much is used of the time for collections, and of the old generation.
    gc: Vec<f64>,
    old: Vec<f64>,
    /// How much of the heap was in use at most, 0 to 1.
    heap_max: f64,
    /// What was said of it last.
    last: String,
    p99_ms: f64,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let length = args.length(SECONDS);
    let small = observe(
        &verdict,
        length,
        &Plan {
            name: "small",
            java: "-Xmx64m -XX:+UseSerialGC",
            keeps_mib: 35,
        },
    )?;
    let large = observe(
        &verdict,
        length,
        &Plan {
            name: "large",
            java: "-Xms512m -Xmx512m -XX:+UseG1GC",
            keeps_mib: 260,
        },
    )?;
    let ms = |at: Option<Duration>| at.map_or(f64::NAN, |at| at.as_secs_f64() * 1_000.0);
    verdict.add(
        Figure::ms("in trouble for its collections (gc) after", ms(small.named))
            .at_most(NAMED_MS_MAX)
            .beside("the JVM with room", ms(large.named)),
    );
    verdict.add(
        Figure::share(
            "used of the time for collections, on average",
            large.gc_mean(),
        )
        .at_most(USED_MEAN_MAX)
        .beside("the small JVM", small.gc_mean()),
    );
    verdict.add(
        Figure::share(
            "least that collections left of the JVM with room",
            large.left_min(),
        )
        .at_least(WELL_ABOVE)
        .beside("of the small one", small.left_min()),
    );
    verdict.add(
        Figure::count(
            "times that the JVM with room was in trouble for its memory",
            f64::from(u8::from(large.named.is_some())),
        )
        .exactly(0.0),
    );
    verdict.add(
        Figure::share("heap in use at most, which says nothing", large.heap_max)
            .at_least(HEAP_ALARM)
            .beside("of the small JVM", small.heap_max),
    );
    verdict.add(
        Figure::ms("p99 of answers of the small JVM", small.p99_ms)
            .beside("of the large one", large.p99_ms),
    );
    Ok(verdict)
}

/// Loads a Tomcat, and looks at it.
fn observe(verdict: &Verdict, length: Duration, plan: &Plan) -> anyhow::Result<Story> {
    let setup = TomcatSetup::new(50)
        .java(plan.java)
        .page(("work.jsp", WORK))
        .page(("keep.jsp", KEEP))
        .page(("heap.jsp", HEAP));
    let tomcat = Tomcat::start(&setup)?;
    for page in ["/work.jsp", "/heap.jsp"] {
        ask(tomcat.address(), page)?;
    }
    for _ in 0..plan.keeps_mib / MIB_AT_ONCE {
        ask(tomcat.address(), &format!("/keep.jsp?mb={MIB_AT_ONCE}"))?;
    }
    let node = Watched::start(plan.name, &tomcat, Viewer::Probe, None, Keys::default())?;
    let load = send(
        node.address(),
        vec![Kind::get("visitor", "/work.jsp")],
        RATE,
        WARM_UP + length,
    )?;
    sleep(WARM_UP);
    let mut story = Story::default();
    let begun = Instant::now();
    while begun.elapsed() + Duration::from_secs(2) < length {
        story.look(&tomcat, &node, begun)?;
    }
    let report = load.join()?;
    story.p99_ms = report.kinds[0].good.p99_ms;
    verdict.say(format!(
        "{}: {}; collections took {:.0} % of what they may on average, heap in use was {:.0} % at most",
        plan.name,
        story.last,
        100.0 * story.gc_mean(),
        100.0 * story.heap_max
    ));
    Ok(story)
}

impl Story {
    /// One look, which takes a second.
    fn look(&mut self, tomcat: &Tomcat, node: &Watched, begun: Instant) -> anyhow::Result<()> {
        let (manager, password) = (tomcat.manager(), tomcat.file("password"));
        let user = Viewer::Probe.name();
        let seen = probe(
            &[
                "--profile",
                "tomcat",
                "--url",
                &manager,
                "--user",
                user,
                "--password-file",
                &password,
            ],
            1,
        )?;
        // What is not known is not counted: an old generation that was not collected yet says nothing.
        self.gc.extend(used(&seen, Dimension::Gc)?);
        self.old.extend(used(&seen, Dimension::OldGen)?);
        let heap = String::from_utf8(ask(tomcat.second_connector(), "/heap.jsp")?)?;
        self.heap_max = self.heap_max.max(heap.trim().parse()?);
        if let Some(seen) = node.seen()? {
            if seen.is_in_trouble() && (seen.is_bound_by("gc") || seen.is_bound_by("oldgen")) {
                self.named.get_or_insert_with(|| begun.elapsed());
            }
            self.last = seen.text();
        }
        Ok(())
    }

    fn gc_mean(&self) -> f64 {
        self.gc.iter().sum::<f64>() / self.gc.len() as f64
    }

    fn left_min(&self) -> f64 {
        let used = self.gc.iter().chain(&self.old);
        1.0 - used.copied().fold(0.0, f64::max)
    }
}

/// How much of `dimension` is used by what a probe has `seen`, as nodes are judged; `None` when that is not known.
fn used(seen: &Value, dimension: Dimension) -> anyhow::Result<Option<f64>> {
    let signals = seen["signals"].as_array().context("a probe has signals")?;
    let now = Mono::from_millis(0);
    let of_it = signals
        .iter()
        .filter(|it| it["dimension"] == dimension.name())
        .filter_map(|it| Some((it["value"].as_f64()?, it["limit"].as_f64()?)))
        .map(|(value, limit)| Signal::read(dimension, value, limit, now));
    let readings = Readings::of(&Scales::default(), &of_it.collect::<Vec<_>>(), now);
    Ok(readings.used(dimension, now))
}
