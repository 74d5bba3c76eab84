//! `tidegate sim replay`: takes the decisions of a running gateway once more and compares. Those about requests are
//! here, those about nodes in `decisions`.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use tidegate_core::admission::{Action, Arrival, Reason, Verdict};
use tidegate_core::journal::{
    Decoder, End, Fault, FaultKind, Header, Item, Outcome, Record, Replay,
};
use tidegate_core::time::Mono;

use super::decisions;

/// A record's check is one byte, and runs on: damage that one misses passes as many more with a
/// chance of 1 in 4 billion.
const RECORDS_SURE: usize = 4;

/// The exit code for a log that is damaged, or may be.
const DAMAGED: u8 = 2;

/// Bytes read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Take every decision in a decision log once more, and compare.
///
/// Exit code 0: every decision came out again, as far as the log goes, or there is none; 1: one did not, and is shown;
/// 2: the log is damaged or cannot be read, or one did not where the log breaks off and may be damaged.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// What `decision_log` of an application or of `[fleet]` names.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print every event with what was decided on it.
    #[arg(long)]
    events: bool,
}

/// Replays what `args` name.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let path = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("cannot read {path}"))?;
    let mut file = BufReader::with_capacity(PIECE_BYTES, file);
    let begin = file
        .fill_buf()
        .with_context(|| format!("cannot read {path}"))?;
    if begin.is_empty() {
        // One that was opened and had nothing to say yet.
        return crate::print(&format!(
            "{path}: the log is empty: there is nothing to replay"
        ));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    // One is lines of JSON; the other begins with its mark.
    let outcome = if begin.first() == Some(&b'{') {
        decisions::replay(&mut file, &args.file, args.events, &mut out).map_err(Stop::from)
    } else {
        replay(&mut file, args, &mut out)
    };
    match outcome.and_then(|code| out.flush().map(|()| code).map_err(Stop::from)) {
        Ok(code) => Ok(code),
        Err(Stop::Fault(fault)) => Err(fault).with_context(|| format!("cannot replay {path}")),
        // Who has read enough, as `head` does, has been told enough.
        Err(Stop::Io(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(Stop::Io(error)) => Err(error).with_context(|| format!("cannot replay {path}")),
    }
}

/// Why there is no result.
enum Stop {
    Fault(Fault),
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn replay(log: &mut impl Read, args: &Args, out: &mut impl Write) -> Result<ExitCode, Stop> {
    let mut items = Items::new(log);
    let mut replay = None;
    let mut tally = Tally::default();
    let mut end = None;
    let ended = loop {
        match items.next() {
            Ok(None) => break Ok(()),
            Ok(Some(Item::Header(header))) => {
                writeln!(out, "{}: {}", args.file.display(), About(&header))?;
                replay = Some(Replay::new(&header));
            }
            Ok(Some(Item::End(reason))) => end = Some(reason),
            Ok(Some(Item::Record(record))) => {
                if args.events {
                    writeln!(out, "{record}")?;
                }
                tally.count(&record);
                let replay = replay.as_mut().expect("a log begins with its header");
                if let Err(difference) = replay.step(&record) {
                    write!(out, "{tally}")?;
                    writeln!(out, "not reproduced: {difference}")?;
                    out.flush()?;
                    return after_difference(&mut items, out);
                }
            }
            Err(Stop::Fault(fault)) if replay.is_some() => break Err(fault),
            Err(stop) => return Err(stop),
        }
    };

    write!(out, "{tally}")?;
    match ended {
        Err(fault) if fault.kind != FaultKind::CutOff => {
            writeln!(
                out,
                "up to where it cannot be read, every decision reproduced"
            )?;
            out.flush()?;
            return Err(Stop::Fault(fault));
        }
        Err(fault) => writeln!(out, "end       {fault}: whoever wrote it was stopped")?,
        Ok(()) => writeln!(out, "end       {}", Ending(end))?,
    }
    writeln!(out, "every decision reproduced")?;
    Ok(ExitCode::SUCCESS)
}

/// Whether what came out differently is really what was decided, or damage that its own check misses:
/// the checks behind it say so, if there are any.
fn after_difference(
    items: &mut Items<'_, impl Read>,
    out: &mut impl Write,
) -> Result<ExitCode, Stop> {
    for _ in 0..RECORDS_SURE {
        match items.next() {
            Ok(Some(Item::Header(_) | Item::Record(_))) => {}
            // Its check is one of eight bytes.
            Ok(Some(Item::End(_))) => break,
            Ok(None) => return in_doubt(out),
            Err(Stop::Fault(fault)) if fault.kind == FaultKind::CutOff => return in_doubt(out),
            Err(stop) => return Err(stop),
        }
    }
    Ok(ExitCode::FAILURE)
}

fn in_doubt(out: &mut impl Write) -> Result<ExitCode, Stop> {
    writeln!(
        out,
        "the log has no end and breaks off right after that, so hardly any check covers it: it may be \
         damaged there"
    )?;
    Ok(ExitCode::from(DAMAGED))
}

/// A log, read piece by piece.
struct Items<'r, R> {
    log: &'r mut R,
    piece: Vec<u8>,
    decoder: Decoder,
}

impl<'r, R: Read> Items<'r, R> {
    fn new(log: &'r mut R) -> Self {
        Self {
            log,
            piece: vec![0; PIECE_BYTES],
            decoder: Decoder::default(),
        }
    }

    fn next(&mut self) -> Result<Option<Item>, Stop> {
        loop {
            if let Some(item) = self.decoder.read().map_err(Stop::Fault)? {
                return Ok(Some(item));
            }
            match self.log.read(&mut self.piece) {
                Ok(0) => return self.decoder.finish().map(|()| None).map_err(Stop::Fault),
                Ok(bytes) => self.decoder.push(&self.piece[..bytes]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

struct About<'h>(&'h Header);

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.0;
        write!(
            f,
            "application {}, limit {}, written by {}",
            header.app,
            header.limit.name(),
            header.writer
        )?;
        // A damaged header would have been noticed; a clock far off would not.
        let started = UNIX_EPOCH.checked_add(Duration::from_micros(header.started.as_micros()));
        match started.filter(|_| header.started.as_micros() < YEAR_9999_MICROS) {
            Some(started) => write!(f, " from {}", humantime::format_rfc3339_seconds(started)),
            None => Ok(()),
        }
    }
}

/// Later dates have no usual way of writing.
const YEAR_9999_MICROS: u64 = 253_370_764_800 * 1_000_000;

struct Ending(Option<End>);

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(End::Finished) => "complete",
            Some(End::Full) => "the log had reached its greatest length",
            Some(End::Behind) => "the log could not be written as fast as things happened",
            Some(End::Failed) => "the log could not be written any more",
            None => "none: whoever writes it was stopped, or is still running",
        })
    }
}

/// What is in a log, in numbers.
#[derive(Default)]
struct Tally {
    events: u64,
    arrivals: u64,
    at_once: u64,
    waited: u64,
    left: u64,
    refused: [u64; Reason::ALL.len()],
    shadow_waits: u64,
    shadow_refused: [u64; Reason::ALL.len()],
    first: Option<Mono>,
    last: Mono,
}

impl Tally {
    fn count(&mut self, record: &Record) {
        self.events += 1;
        self.first.get_or_insert(record.now);
        self.last = self.last.max(record.now);
        match record.outcome {
            Outcome::Peeked(Some(reason)) | Outcome::Arrived(Arrival::Refused(reason)) => {
                self.arrivals += 1;
                self.refused[reason as usize] += 1;
            }
            Outcome::Arrived(Arrival::Admitted(_)) => {
                self.arrivals += 1;
                self.at_once += 1;
            }
            Outcome::Arrived(Arrival::Queued { .. }) => self.arrivals += 1,
            Outcome::Shadowed(_, verdict) => {
                self.arrivals += 1;
                self.at_once += 1;
                match verdict {
                    Verdict::Admit => {}
                    Verdict::Wait => self.shadow_waits += 1,
                    Verdict::Refuse(reason) => self.shadow_refused[reason as usize] += 1,
                }
            }
            Outcome::Left(Some(_)) => self.left += 1,
            Outcome::Nothing | Outcome::Peeked(None) | Outcome::Left(None) => {}
        }
        for action in &record.actions {
            match action {
                Action::Start { .. } => self.waited += 1,
                Action::Evict { reason, .. } => self.refused[*reason as usize] += 1,
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = self.last.since(self.first.unwrap_or_default());
        writeln!(
            f,
            "events    {} in {:.3} s",
            self.events,
            span.as_secs_f64()
        )?;
        writeln!(f, "arrivals  {}", self.arrivals)?;
        writeln!(
            f,
            "admitted  {}: {} at once, {} after a wait",
            self.at_once + self.waited,
            self.at_once,
            self.waited
        )?;
        writeln!(f, "left      {} while they waited", self.left)?;
        show_reasons(f, "refused", &self.refused)?;
        if self.shadow_waits + self.shadow_refused.iter().sum::<u64>() > 0 {
            writeln!(f, "shadow    {} would have waited", self.shadow_waits)?;
            show_reasons(f, "shadow", &self.shadow_refused)?;
        }
        Ok(())
    }
}

fn show_reasons(f: &mut fmt::Formatter<'_>, word: &str, counts: &[u64]) -> fmt::Result {
    let total: u64 = counts.iter().sum();
    write!(f, "{word:<9} {total}")?;
    if word == "shadow" {
        write!(f, " would have been refused")?;
    }
    for (reason, count) in Reason::ALL
        .iter()
        .zip(counts)
        .filter(|(_, count)| **count > 0)
    {
        write!(f, ", {} {count}", reason.name())?;
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use tidegate_core::admission::Config;
    use tidegate_core::bulkhead::Bulkheads;
    use tidegate_core::journal::{Encoder, Event};
    use tidegate_core::limit::Kind;
    use tidegate_core::queue::Discipline;
    use tidegate_core::time::Wall;

    use super::*;

    /// A log in which `after` records follow one that says what was never decided.
    fn log(after: u64, end: Option<End>) -> Vec<u8> {
        let header = Header {
            writer: "test".to_owned(),
            app: "shop".to_owned(),
            started: Wall::default(),
            config: Config {
                hold: Duration::from_millis(200),
                queue_max: 10,
                queue_bytes_max: 1000,
                discipline: Discipline::Fifo,
                bulkheads: Bulkheads::default(),
                routes: 1,
                escape: false,
                level: false,
            },
            limit: Kind::Static(NonZeroU32::MIN),
            seed: 1,
            learnt: None,
        };
        let mut out = Vec::new();
        let mut encoder = Encoder::begin(&header, &mut out);
        for at in 0..=after + 1 {
            let limit = if at == 0 { 1 } else { 2 };
            let (now, nothing) = (Mono::from_millis(at), Outcome::Nothing);
            encoder.record(now, &Event::Poll, &nothing, &[], limit, &mut out);
        }
        if let Some(end) = end {
            encoder.end(end, &mut out);
        }
        out
    }

    fn replayed(log: &[u8]) -> (Result<ExitCode, Stop>, String) {
        let args = Args {
            file: PathBuf::from("log"),
            events: false,
        };
        let mut out = Vec::new();
        let code = replay(&mut &*log, &args, &mut out);
        (code, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_difference_is_one_where_the_checks_behind_it_fit() {
        for log in [log(0, Some(End::Finished)), log(4, None), log(9, None)] {
            let (code, text) = replayed(&log);
            assert!(code.is_ok_and(|code| code == ExitCode::FAILURE), "{text}");
            assert!(text.contains("not reproduced: event 2"), "{text}");
            assert!(!text.contains("damaged"), "{text}");
        }
    }

    #[test]
    fn a_difference_right_before_a_log_breaks_off_may_be_damage() {
        let cut_off = log(3, None);
        for log in [&log(0, None), &log(3, None), &cut_off[..cut_off.len() - 1]] {
            let (code, text) = replayed(log);
            assert!(code.is_ok_and(|code| code == ExitCode::from(2)), "{text}");
            assert!(text.contains("not reproduced: event 2"), "{text}");
            assert!(text.contains("it may be damaged there"), "{text}");
        }
    }

    #[test]
    fn a_difference_right_before_damage_is_damage() {
        let mut log = log(3, None);
        *log.last_mut().unwrap() ^= 1;
        let (code, text) = replayed(&log);
        assert!(matches!(code, Err(Stop::Fault(_))), "{text}");
    }
}
