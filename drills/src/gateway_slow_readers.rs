//! Clients who read their pages very slowly hold no worker: the gateway has read the answer long
//! before they have, within a stated amount of memory.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::bail;
use tidegate_lab::load::{Kind, LoadPlan, Phase, Report, Request, raw};
use tidegate_lab::measure;
use tokio::task::JoinSet;

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, ShopProcess, ShopSetup, Verdict, capacity, play,
};

const READERS: usize = 1_000;
const PAGE: &str = "/page?bytes=262144";
const BYTES_PER_SECOND: u32 = 1_000;
/// Between two readers: at half of what the shop can do.
const READER_GAP: Duration = Duration::from_millis(2);
const SLOTS: u32 = 50;
const SERVICE_MS: u64 = 50;
/// Visitors, in multiples of the capacity.
const OFFERED: f64 = 1.2;
const SECONDS: u64 = 15;
/// What the readers' pages may take in the gateway.
const BUFFERS_MIB: u32 = 256;
/// What each of their connections may take beside: its task, and its buffer for requests.
const CONNECTION_KIB: f64 = 48.0;
/// A reader that has got so much is being served, and is not reading a refusal.
const SERVED_BYTES: u64 = 2_000;
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);
const MIB: f64 = 1024.0 * 1024.0;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "gateway-slow-readers",
    promise: "1,000 clients reading at 1 KB/s cost less than 5 % of goodput and stay within the buffer cap",
    takes: Duration::from_secs(90),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let length = args.length(SECONDS);
    let bare = bare(length)?;

    let shop = ShopProcess::open(&ShopSetup::new(SLOTS, SERVICE_MS))?;
    let keys = format!("workers = {SLOTS}\nresponse_buffers_max = \"{BUFFERS_MIB}MiB\"");
    let gateway = Gateway::start(&GatewaySetup::app(shop.address(), &keys))?;
    let c = capacity(gateway.address(), SLOTS)?.per_second;
    let without = goodput(&play(visitors(gateway.address(), c, length))?);

    let before = measure::sample(gateway.id())?;
    let readers = Readers::start(gateway.address(), length)?;
    let done = AtomicBool::new(false);
    let (report, most) = thread::scope(|scope| {
        let sampler = scope.spawn(|| watch(&gateway, &done));
        let report = play(visitors(gateway.address(), c, length));
        done.store(true, Ordering::Relaxed);
        (report, sampler.join())
    });
    let with = goodput(&report?);
    let Ok(most) = most else {
        bail!("the sampler panicked")
    };
    let most = most?;
    let served = readers.join()?;

    verdict.add(Figure::per_second("capacity C", c));
    verdict.add(
        Figure::ratio("goodput with slow readers to that without", with / without)
            .at_least(0.95)
            .beside("bare", bare),
    );
    verdict.add(Figure::per_second("goodput with slow readers", with).beside("without", without));
    verdict.add(Figure::count("slow readers served", served as f64).exactly(READERS as f64));
    let cap = f64::from(BUFFERS_MIB);
    verdict.add(Figure::mib("answers buffered at most", most.buffered / MIB).at_most(cap));
    let grown = most.rss_bytes.saturating_sub(before.rss_bytes) as f64 / MIB;
    let connections = READERS as f64 * CONNECTION_KIB / 1024.0;
    verdict.add(
        Figure::mib("memory grown by", grown)
            .at_most(cap + connections)
            .beside("resident before", before.rss_bytes as f64 / MIB),
    );
    Ok(verdict)
}

/// The bare shop's goodput with slow readers, as a part of its capacity.
fn bare(length: Duration) -> anyhow::Result<f64> {
    let shop = ShopProcess::open(&ShopSetup::new(SLOTS, SERVICE_MS))?;
    let c = capacity(shop.address(), SLOTS)?.per_second;
    let readers = Readers::start(shop.address(), length)?;
    let good = goodput(&play(visitors(shop.address(), c, length))?);
    readers.join()?;
    Ok(good / c)
}

fn visitors(target: SocketAddr, c: f64, length: Duration) -> LoadPlan {
    let phase = Phase::new("offered", OFFERED * c, length);
    LoadPlan::new(target, vec![Kind::get("browse", "/browse/1")], vec![phase])
}

fn goodput(report: &Report) -> f64 {
    report.goodput(report.steady(0), |_| true)
}

/// All slow readers, on a thread of their own.
struct Readers(JoinHandle<anyhow::Result<usize>>);

impl Readers {
    /// Lets all of them come, and then read for at least `length`.
    fn start(target: SocketAddr, length: Duration) -> anyhow::Result<Self> {
        let coming = READER_GAP * READERS as u32;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = thread::Builder::new()
            .name("readers".to_owned())
            .spawn(move || runtime.block_on(read(target, coming + length)))?;
        thread::sleep(coming);
        Ok(Self(thread))
    }

    /// How many were served.
    fn join(self) -> anyhow::Result<usize> {
        match self.0.join() {
            Ok(served) => served,
            Err(_) => bail!("the readers panicked"),
        }
    }
}

async fn read(target: SocketAddr, length: Duration) -> anyhow::Result<usize> {
    let mut readers = JoinSet::new();
    let begin = tokio::time::Instant::now();
    for number in 0..READERS {
        tokio::time::sleep_until(begin + READER_GAP * number as u32).await;
        readers.spawn(async move {
            raw::read_slowly(target, &Request::get(PAGE), BYTES_PER_SECOND, length).await
        });
    }
    let got = readers.join_all().await;
    let served = got
        .iter()
        .filter(|got| got.as_ref().is_ok_and(|&bytes| bytes >= SERVED_BYTES));
    Ok(served.count())
}

#[derive(Default)]
struct Most {
    rss_bytes: u64,
    buffered: f64,
}

/// The most memory that is seen until `done`.
fn watch(gateway: &Gateway, done: &AtomicBool) -> anyhow::Result<Most> {
    let mut most = Most::default();
    while !done.load(Ordering::Relaxed) {
        let rss_bytes = measure::sample(gateway.id())?.rss_bytes;
        let metrics = gateway.metrics()?;
        let buffered = metrics.sum("tidegate_response_buffer_bytes", &[]);
        most.rss_bytes = most.rss_bytes.max(rss_bytes);
        most.buffered = most.buffered.max(buffered);
        thread::sleep(SAMPLE_INTERVAL);
    }
    Ok(most)
}
