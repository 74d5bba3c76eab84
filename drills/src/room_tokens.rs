//! What the tokens of a waiting room cost: passes that are verified for the first time and again, and junk.
//!
//! One thread verifies what it is shown, as requests have it in their cookies, and its CPU time is counted. Time is told to it:
//! 50,000 tokens a second are one every 20 µs of what it is told, however long it takes.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::Context as _;
use http::HeaderMap;
use http::header::{COOKIE, HeaderValue};
use tidegate_core::rate::Tick;
use tidegate_core::room::{Epoch, Place, RoomName, Tier};
use tidegate_core::time::Wall;
use tidegate_gateway::room::{
    Admission, Algorithm, Bond, ChecksPlan, Device, Given, Keys, Moment, Revoked, Standing, Ticket,
    TicketFlags, Tokens, TokensPlan, VERIFIED_ENTRY_BYTES, Visitor, Why, draw_key,
};
use tidegate_lab::measure::{self, HostTimes};

use crate::harness::{Args, Cores, Drill, Figure, Invalid, Verdict};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-tokens",
    promise: "50,000 junk passes a second cost ≤ 20 % of a core, from one network or from many, with every algorithm",
    takes: Duration::from_secs(40),
    run,
};

const JUNK_PER_SECOND: u64 = 50_000;
const SHARE_MAX: f64 = 0.2;
const ENTRY_BYTES_MAX: f64 = 64.0;
const STEAL_SHARE_MAX: f64 = 0.05;
/// Passes of a crowd, and different pieces of junk.
const CROWD: u64 = 10_000;
/// What time it is when it begins: a second of 2026.
const NOW_S: u64 = 1_796_000_000;
const EPOCH: Epoch = Epoch((NOW_S - 60) * 1_000);

/// Somebody's request.
struct Shown {
    headers: HeaderMap,
    address: IpAddr,
}

/// A room with a key for each algorithm.
struct Room {
    algorithm: Algorithm,
    keys: Keys,
    device: Device,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let cores = Cores::pick()?;
    measure::pin_thread(cores.measured)?;
    let host = HostTimes::now()?;
    let span = args.length(10);
    let entry = Figure::count("bytes a remembered pass", VERIFIED_ENTRY_BYTES as f64);
    verdict.add(entry.at_most(ENTRY_BYTES_MAX));
    for algorithm in Algorithm::ALL {
        let room = Room::new(algorithm)?;
        let alone = verifying(&mut verdict, &room)?;
        junk(&mut verdict, &room, span, alone)?;
    }
    tickets(&mut verdict, span)?;
    let steal = HostTimes::now()?.steal_share_since(&host);
    if steal > STEAL_SHARE_MAX {
        return Err(Invalid(format!("steal {steal:.3} is over {STEAL_SHARE_MAX}")).into());
    }
    Ok(verdict)
}

/// What a pass costs that nobody has verified yet, and one that is remembered. Returns the first, in microseconds.
fn verifying(verdict: &mut Verdict, room: &Room) -> anyhow::Result<f64> {
    let tokens = room.tokens(unbounded())?;
    let crowd = room.crowd(&room.tokens(unbounded())?, CROWD)?;
    let name = room.algorithm.name();
    let mut cost = |what: &str| -> anyhow::Result<f64> {
        let before = cpu()?;
        let good = crowd
            .iter()
            .filter(|it| is_good(&tokens, moment(0), it))
            .count();
        let us = (cpu()? - before).as_secs_f64() * 1e6 / crowd.len() as f64;
        anyhow::ensure!(
            good == crowd.len(),
            "{good} of {} {name} passes are good",
            crowd.len()
        );
        verdict.add(Figure::us(format!("{name}: a pass {what}"), us));
        Ok(us)
    };
    let first = cost("that nobody has verified yet")?;
    cost("that is remembered")?;
    Ok(first)
}

/// What junk costs that looks like passes up to the signature, from one network and from as many as there are pieces of it.
fn junk(verdict: &mut Verdict, room: &Room, span: Duration, alone: f64) -> anyhow::Result<()> {
    let name = room.algorithm.name();
    for (whence, step) in [("one network", 0), ("many networks", 256)] {
        let tokens = room.tokens(ChecksPlan::default())?;
        let known = room.crowd(&tokens, 100)?;
        let junk: Vec<Shown> = room
            .crowd(&room.tokens(unbounded())?, CROWD)?
            .iter()
            .zip(0u32..)
            .map(|(it, at)| it.with_another_signature(Ipv4Addr::from_bits(0x0a00_0000 + step * at)))
            .collect::<anyhow::Result<_>>()?;
        let (mut looked_at, mut good, mut asked) = (0u64, 0u64, 0u64);
        let count = span.as_secs() * JUNK_PER_SECOND;
        let before = cpu()?;
        for (at, it) in (0..count).zip(junk.iter().cycle()) {
            let now = moment(at * 1_000_000 / JUNK_PER_SECOND);
            looked_at += u64::from(is_looked_at(it.come_of(&tokens, now)));
            // Among them somebody who was let in: one request in a thousand.
            if at % 1_000 == 0 {
                asked += 1;
                let whoever = &known[(asked % known.len() as u64) as usize];
                good += u64::from(is_good(&tokens, now, whoever));
            }
        }
        let share = (cpu()? - before).as_secs_f64() / span.as_secs_f64();
        let each_alone = alone * JUNK_PER_SECOND as f64 / 1e6;
        verdict.add(
            Figure::share(
                format!("{name}: of a core for 50,000 junk passes/s from {whence}"),
                share,
            )
            .at_most(SHARE_MAX)
            .beside("every signature looked at", each_alone),
        );
        verdict.add(
            Figure::share(
                format!("{name}: requests of visitors who were let in, meanwhile"),
                good as f64 / asked as f64,
            )
            .exactly(1.0),
        );
        let per_second = looked_at as f64 / span.as_secs_f64();
        verdict.add(Figure::per_second(
            format!("{name}: junk whose signature was looked at"),
            per_second,
        ));
    }
    Ok(())
}

/// What junk costs that looks like tickets up to the tag. There is no bound to that: it is one hash.
fn tickets(verdict: &mut Verdict, span: Duration) -> anyhow::Result<()> {
    let room = Room::new(Algorithm::Hs256)?;
    let tokens = room.tokens(ChecksPlan::default())?;
    let mut tickets = Vec::new();
    for place in 0..CROWD {
        let ticket = Ticket::new(
            EPOCH,
            Place(place),
            moment(0).wall,
            Tier::Anonymous,
            TicketFlags::default(),
        );
        let given = tokens.issue_ticket(moment(0).wall, &ticket)?;
        tickets.push(Shown::of(&[given], &[])?);
    }
    let junk = tickets
        .iter()
        .map(|it| it.with_another_signature(Ipv4Addr::LOCALHOST))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let count = span.as_secs() * JUNK_PER_SECOND;
    let visitor = Visitor {
        address: Ipv4Addr::LOCALHOST.into(),
        sessions: &[],
    };
    let before = cpu()?;
    let mut refused = 0;
    for (_, it) in (0..count).zip(junk.iter().cycle()) {
        let held = tokens.read(moment(0), &it.headers, &visitor)?;
        refused += u64::from(held.ticket == Err(Why::Signature));
    }
    let share = (cpu()? - before).as_secs_f64() / span.as_secs_f64();
    anyhow::ensure!(
        refused == count,
        "{} junk tickets are good",
        count - refused
    );
    verdict.add(Figure::share("of a core for 50,000 junk tickets/s", share).at_most(SHARE_MAX));
    Ok(())
}

impl Room {
    fn new(algorithm: Algorithm) -> anyhow::Result<Self> {
        let published = NOW_S - 600;
        let keys = Algorithm::ALL.map(|it| draw_key(it.name(), it, published));
        Ok(Self {
            algorithm,
            keys: Keys::from_json(&format!("{{\"keys\":[{}]}}", keys.join(",")))?,
            device: Device::draw(),
        })
    }

    /// A gateway's part of it, which knows no pass.
    fn tokens(&self, checks: ChecksPlan) -> anyhow::Result<Tokens> {
        let room = RoomName::new("shop").context("a room is called shop")?;
        let plan = TokensPlan {
            algorithm: self.algorithm,
            checks,
            ..TokensPlan::of(room)
        };
        let standing = Standing {
            keys: self.keys.clone(),
            epoch: Some(EPOCH),
            revoked: Revoked::default(),
        };
        Ok(Tokens::new(plan, standing)?)
    }

    /// Visitors with passes that `tokens` gives them, and remembers.
    fn crowd(&self, tokens: &Tokens, count: u64) -> anyhow::Result<Vec<Shown>> {
        let shown = |place| {
            let admission = Admission {
                epoch: EPOCH,
                place: Place(place),
                nth: 0,
                fence: 1,
                tier: Tier::Anonymous,
                class: 0,
            };
            let bond = Bond::Device(&self.device);
            let pass = tokens.issue_pass(moment(0).wall, &admission, &bond)?;
            Shown::of(
                &[pass, tokens.give_device(&self.device)],
                &[("lang", "de"), ("seen", "17")],
            )
        };
        (0..count).map(shown).collect()
    }
}

impl Shown {
    /// The request of a browser that has these cookies.
    fn of(given: &[Given], others: &[(&str, &str)]) -> anyhow::Result<Self> {
        let mut pairs: Vec<String> = others
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        for it in given {
            let line = it.set_cookie.to_str()?;
            let pair = line.split(';').next().context("a cookie has a value")?;
            pairs.push(pair.to_owned());
        }
        let line = HeaderValue::try_from(pairs.join("; "))?;
        Ok(Self {
            headers: [(COOKIE, line)].into_iter().collect(),
            address: Ipv4Addr::LOCALHOST.into(),
        })
    }

    /// The same with twelve other characters near the end of its first token, from somewhere else.
    fn with_another_signature(&self, address: Ipv4Addr) -> anyhow::Result<Self> {
        let line = self.headers[COOKIE].to_str()?;
        let token = line.find("__Host-tg").context("there is a token")?;
        let end = line[token..]
            .find(';')
            .map_or(line.len(), |length| token + length);
        let mut bytes = line.as_bytes().to_vec();
        for byte in &mut bytes[end - 16..end - 4] {
            *byte = if *byte == b'A' { b'B' } else { b'A' };
        }
        let line = HeaderValue::from_bytes(&bytes)?;
        Ok(Self {
            headers: [(COOKIE, line)].into_iter().collect(),
            address: address.into(),
        })
    }

    fn come_of(&self, tokens: &Tokens, now: Moment) -> Result<(), Why> {
        let visitor = Visitor {
            address: self.address,
            sessions: &[],
        };
        let held = tokens.read(now, &self.headers, &visitor);
        held.map_err(|_| Why::Malformed)?.pass.map(drop)
    }
}

fn is_good(tokens: &Tokens, now: Moment, shown: &Shown) -> bool {
    shown.come_of(tokens, now).is_ok()
}

/// Whether a signature was looked at for this.
fn is_looked_at(come: Result<(), Why>) -> bool {
    matches!(come, Ok(()) | Err(Why::Signature))
}

/// As much as anybody wants.
fn unbounded() -> ChecksPlan {
    ChecksPlan {
        network_us: 1_000_000_000,
        all_us: 1_000_000_000,
        ..ChecksPlan::default()
    }
}

/// So many microseconds after the beginning.
fn moment(us: u64) -> Moment {
    Moment {
        wall: Wall::from_micros(NOW_S * 1_000_000 + us),
        tick: Tick(us),
    }
}

/// CPU time of this thread, which is the one that the process began with.
fn cpu() -> anyhow::Result<Duration> {
    let process = std::process::id();
    Ok(measure::cpu_time_of_thread(process, process)?)
}
