//! `tidegate sim replay`: takes the decisions of a running gateway once more and compares.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use tidegate_core::admission::{Action, Arrival, Reason, Verdict};
use tidegate_core::journal::{
    Decoder, End, Fault, FaultKind, Header, Item, Outcome, Record, Replay,
};
use tidegate_core::time::Mono;

/// Bytes read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Take every decision in a decision log once more, and compare.
///
/// Exit code 0: every decision came out again, as far as the log goes; 1: one did not, and is shown;
/// 2: the log is damaged, or cannot be read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// What `decision_log` of an application names.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print every event with what was decided on it.
    #[arg(long)]
    events: bool,
}

/// Replays what `args` name.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let path = args.file.display();
    let mut file = File::open(&args.file).with_context(|| format!("cannot read {path}"))?;
    let mut out = BufWriter::new(io::stdout().lock());
    let outcome = replay(&mut file, args, &mut out);
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
                    return Ok(ExitCode::FAILURE);
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
