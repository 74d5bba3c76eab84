//! What a request costs to pass on and to refuse, in CPU time, beside nginx and HAProxy.
//!
//! Each gateway has one core to itself, with client and backend on the other. Rounds alternate, and
//! a figure is the median over rounds; a ratio is taken inside a round first. What counts is all
//! CPU time of the gateway's processes by the number of answers.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tidegate_lab::measure::{self, HostTimes};
use tidegate_lab::report::Table;

use crate::harness::{
    Args, Cores, Drill, Drive, Figure, Gateway, GatewaySetup, Invalid, Peer, PeerSetup,
    ShopProcess, ShopSetup, Verdict, wait_for,
};

const ROUNDS: u32 = 7;
/// Seconds of each measurement; a round has nine.
const SECONDS: u64 = 3;
const CONNECTIONS: u32 = 32;
/// Requests per second where they are not as many as will go: no gateway is busy all of the time.
const RATE: f64 = 4_000.0;
/// Bytes of the backend's answer.
const BODY_BYTES: usize = 512;
/// Between two measurements, for what the last one left to end.
const PAUSE: Duration = Duration::from_millis(300);
const STEAL_SHARE_MAX: f64 = 0.05;
/// The most that passing a request on may cost, as a multiple of nginx's cost.
const NGINX_RATIO_MAX: f64 = 1.20;
/// For longer than the drill lasts.
const HANG: &str = "/hang?ms=3000000";

/// A request like a browser's.
const REQUEST: &str = "GET /products/17?colour=blue HTTP/1.1\r\n\
    Host: shop.example\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-GB,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br\r\n\
    Referer: https://shop.example/products\r\n\
    Cookie: JSESSIONID=0123456789ABCDEF0123456789ABCDEF; consent=yes\r\n\r\n";

/// What is done with requests, and how many come.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// Passed on, at [`RATE`].
    Passed,
    /// Passed on, as many as will go.
    PassedFlatOut,
    /// Refused, at [`RATE`].
    Refused,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Passed, Self::PassedFlatOut, Self::Refused];

    fn name(self) -> String {
        match self {
            Self::Passed => format!("passed on at {RATE:.0}/s"),
            Self::PassedFlatOut => "passed on, flat out".to_owned(),
            Self::Refused => format!("refused at {RATE:.0}/s"),
        }
    }
}

/// One of the gateways compared, with a full application behind a second one of its kind.
struct Contender {
    name: &'static str,
    passing: Server,
    refusing: Server,
}

enum Server {
    Tidegate(Gateway),
    Peer(Peer),
}

/// CPU time per request in µs by contender, of every round.
type Costs = Vec<Vec<f64>>;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "gateway-proxy-cost",
    promise: "passing a request on costs at most 1.20 times nginx's CPU time, one thread each",
    takes: Duration::from_secs(240),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let places = Places::pick(args.threads)?;
    let backend = Peer::answering(BODY_BYTES, places.others)?;
    let full = ShopProcess::open(&ShopSetup::new(1, 0))?;
    let contenders = contenders(args.threads, places, backend.address(), full.address())?;
    let _hanging = fill(&contenders, &full)?;

    let rounds = args.rounds.unwrap_or(ROUNDS);
    let mut costs: [Costs; 3] = std::array::from_fn(|_| vec![Vec::new(); contenders.len()]);
    let mut rates = vec![Vec::new(); contenders.len()];
    let host = HostTimes::now()?;
    for round in 0..rounds as usize {
        for (mode, costs) in Mode::ALL.into_iter().zip(&mut costs) {
            for turn in 0..contenders.len() {
                let at = (round + turn) % contenders.len();
                let cost = measure(&contenders[at], mode, args.length(SECONDS), places)?;
                costs[at].push(cost.us);
                if mode == Mode::PassedFlatOut {
                    rates[at].push(cost.per_second);
                }
                thread::sleep(PAUSE);
            }
        }
        verdict.say(format!("round {} of {rounds}", round + 1));
    }
    let steal = HostTimes::now()?.steal_share_since(&host);
    if steal > STEAL_SHARE_MAX {
        return Err(Invalid(format!("steal {steal:.3} is over {STEAL_SHARE_MAX}")).into());
    }

    for (mode, costs) in Mode::ALL.into_iter().zip(&costs) {
        verdict.table(&table(mode, &contenders, costs));
        add_figures(&mut verdict, mode, &contenders, costs, args.threads);
    }
    let mut rate = Figure::per_second("answers, flat out", median(&rates[0]));
    for (contender, rates) in contenders.iter().zip(&rates).skip(1) {
        rate = rate.beside(contender.name, median(rates));
    }
    verdict.add(rate);
    Ok(verdict)
}

/// Where everything runs.
#[derive(Clone, Copy)]
struct Places {
    /// The core of the gateways; `None` when they have more threads than one.
    measured: Option<usize>,
    /// The core of client and backend; `None` for any.
    others: Option<usize>,
}

impl Places {
    fn pick(threads: u32) -> anyhow::Result<Self> {
        let cores = Cores::pick()?;
        let apart = threads == 1;
        Ok(Self {
            measured: apart.then_some(cores.measured),
            others: apart.then_some(cores.others),
        })
    }
}

fn contenders(
    threads: u32,
    places: Places,
    backend: SocketAddr,
    full: SocketAddr,
) -> anyhow::Result<Vec<Contender>> {
    let tidegate = |upstream, keys: &str| {
        let mut setup = GatewaySetup::app(upstream, keys);
        setup.threads = threads;
        setup.core = places.measured;
        anyhow::Ok(Server::Tidegate(Gateway::start(&setup)?))
    };
    let peer = |upstream, limited: bool| {
        let mut setup = PeerSetup::new(upstream);
        setup.threads = threads;
        setup.core = places.measured;
        setup.requests_max = limited.then_some(1);
        setup.queue_max = limited.then_some(0);
        setup
    };
    Ok(vec![
        Contender {
            name: "Tidegate",
            passing: tidegate(backend, "workers = 256\nsession_cookies = [\"JSESSIONID\"]")?,
            refusing: tidegate(
                full,
                "workers = 1\nqueue_max = 0\nresponse_timeout = \"1h\"",
            )?,
        },
        Contender {
            name: "nginx",
            passing: Server::Peer(Peer::nginx(&peer(backend, false))?),
            refusing: Server::Peer(Peer::nginx(&peer(full, true))?),
        },
        Contender {
            name: "HAProxy",
            passing: Server::Peer(Peer::haproxy(&peer(backend, false))?),
            refusing: Server::Peer(Peer::haproxy(&peer(full, true))?),
        },
    ])
}

/// Takes the one place that each refusing gateway has, with a request that never ends.
fn fill(contenders: &[Contender], full: &ShopProcess) -> anyhow::Result<Vec<std::net::TcpStream>> {
    use std::io::Write as _;

    let mut hanging = Vec::new();
    for (contender, already) in contenders.iter().zip(0..) {
        let mut stream = std::net::TcpStream::connect(contender.refusing.address())?;
        write!(stream, "GET {HANG} HTTP/1.1\r\nHost: shop.example\r\n\r\n")?;
        hanging.push(stream);
        wait_for("the request that fills the gateway is inside", || {
            Ok(full.stats()?.inside > already)
        })?;
    }
    Ok(hanging)
}

struct Cost {
    us: f64,
    per_second: f64,
}

fn measure(
    contender: &Contender,
    mode: Mode,
    length: Duration,
    places: Places,
) -> anyhow::Result<Cost> {
    let server = match mode {
        Mode::Passed | Mode::PassedFlatOut => &contender.passing,
        Mode::Refused => &contender.refusing,
    };
    let drive = Drive {
        target: server.address(),
        request: REQUEST.as_bytes().to_vec(),
        connections: CONNECTIONS,
        rate: (mode != Mode::PassedFlatOut).then_some(RATE),
        length,
        core: places.others,
    };
    let before = server.cpu_time()?;
    let driven = drive
        .play()
        .with_context(|| format!("{} in front of {}", contender.name, mode.name()))?;
    let spent = server.cpu_time()? - before;
    let (wanted, unwanted) = match mode {
        Mode::Passed | Mode::PassedFlatOut => (driven.good, driven.refused),
        Mode::Refused => (driven.refused, driven.good),
    };
    ensure!(
        wanted > 0 && unwanted == 0,
        "{}: {wanted} answers {}, {unwanted} not",
        contender.name,
        mode.name()
    );
    Ok(Cost {
        us: spent.as_secs_f64() * 1e6 / wanted as f64,
        per_second: wanted as f64 / length.as_secs_f64(),
    })
}

impl Server {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Tidegate(gateway) => gateway.address(),
            Self::Peer(peer) => peer.address(),
        }
    }

    /// CPU time of all threads of its processes.
    fn cpu_time(&self) -> anyhow::Result<Duration> {
        let pids = match self {
            Self::Tidegate(gateway) => vec![gateway.id()],
            Self::Peer(peer) => peer.workers()?,
        };
        let mut sum = Duration::ZERO;
        for pid in pids {
            sum += measure::cpu_time(pid)?;
        }
        Ok(sum)
    }
}

fn table(mode: Mode, contenders: &[Contender], costs: &Costs) -> Table {
    let mut table = Table::new([
        mode.name().as_str(),
        "µs, median",
        "lowest",
        "highest",
        "to nginx",
        "to HAProxy",
    ]);
    for (contender, own) in contenders.iter().zip(costs) {
        let low = own.iter().copied().fold(f64::INFINITY, f64::min);
        let high = own.iter().copied().fold(0.0, f64::max);
        table.row([
            contender.name,
            &format!("{:.2}", median(own)),
            &format!("{low:.2}"),
            &format!("{high:.2}"),
            &format!("{:.3}", ratio(own, &costs[1])),
            &format!("{:.3}", ratio(own, &costs[2])),
        ]);
    }
    table
}

fn add_figures(
    verdict: &mut Verdict,
    mode: Mode,
    contenders: &[Contender],
    costs: &Costs,
    threads: u32,
) {
    let mut cost = Figure::us(format!("CPU time, {}", mode.name()), median(&costs[0]));
    for (contender, own) in contenders.iter().zip(costs).skip(1) {
        cost = cost.beside(contender.name, median(own));
    }
    verdict.add(cost);
    let to_nginx = Figure::ratio(
        format!("to nginx's, {}", mode.name()),
        ratio(&costs[0], &costs[1]),
    );
    // The promise is about one thread each, and about what is passed on.
    let bound = threads == 1 && mode != Mode::Refused;
    verdict.add(if bound {
        to_nginx.at_most(NGINX_RATIO_MAX)
    } else {
        to_nginx
    });
    verdict.add(Figure::ratio(
        format!("to HAProxy's, {}", mode.name()),
        ratio(&costs[0], &costs[2]),
    ));
}

/// The median of the rounds' ratios: what a round's noise does to both sides cancels out.
fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
    median(&ratios)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_inside_a_round_first() {
        // The third round was twice as slow for both.
        assert_eq!(ratio(&[11.0, 11.0, 22.0], &[10.0, 10.0, 20.0]), 1.1);
        assert_eq!(median(&[3.0, 1.0]), 2.0);
    }
}
