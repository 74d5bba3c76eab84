//! How a run is watched: a live screen in a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use super::screen::Screen;
use super::side::{Guard, Progress};

/// What the one who watches wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    GoOn,
    Stop,
}

/// What a view knows before anything runs.
pub(super) struct Setting {
    pub(super) title: String,
    pub(super) capacity: f64,
    /// Names and ends of the phases, in seconds.
    pub(super) phases: Vec<(&'static str, f64)>,
    /// Seconds until all visits of one second have ended.
    pub(super) patience_s: usize,
}

impl Setting {
    /// The name of the phase at `seconds`.
    pub(super) fn phase_at(&self, seconds: f64) -> &'static str {
        let phase = self.phases.iter().find(|(_, end)| seconds < *end);
        phase.map_or("last visitors", |(name, _)| name)
    }

    /// How many seconds of `progress` are whole: all visits that came in them have ended.
    pub(super) fn whole(&self, progress: &Progress) -> usize {
        progress.seconds.len().saturating_sub(1 + self.patience_s)
    }

    /// When the last visitor comes.
    pub(super) fn end_s(&self) -> f64 {
        self.phases.last().map_or(0.0, |(_, end)| *end)
    }
}

/// One way of watching.
pub(super) enum View {
    Screen(Screen),
    Lines(Lines),
}

/// Plain lines on standard error, so that standard output stays clean for results.
pub(super) struct Lines {
    setting: Setting,
    shown_s: usize,
}

impl View {
    /// A screen if standard output is a terminal that is free for it, lines otherwise.
    pub(super) fn open(setting: Setting, stdout_is_taken: bool) -> io::Result<Self> {
        if !stdout_is_taken && io::stdout().is_terminal() {
            Ok(Self::Screen(Screen::open(setting)?))
        } else {
            Ok(Self::Lines(Lines {
                setting,
                shown_s: 0,
            }))
        }
    }

    /// Shows how `guard` is doing and takes `pause` over it.
    pub(super) fn show(
        &mut self,
        guard: Guard,
        progress: &Progress,
        pause: Duration,
    ) -> io::Result<Wish> {
        match self {
            Self::Screen(screen) => screen.show(guard, progress, pause),
            Self::Lines(lines) => {
                let whole = lines.setting.whole(progress);
                lines.show(guard, progress, whole)?;
                std::thread::sleep(pause);
                Ok(Wish::GoOn)
            }
        }
    }

    /// Keeps a run that is over in sight.
    pub(super) fn keep(&mut self, guard: Guard, progress: Progress) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.keep(guard, progress),
            Self::Lines(lines) => {
                lines.show(guard, &progress, progress.seconds.len())?;
                lines.shown_s = 0;
            }
        }
        Ok(())
    }
}

impl Lines {
    /// A line for each of the first `whole` seconds that has had none.
    fn show(&mut self, guard: Guard, progress: &Progress, whole: usize) -> io::Result<()> {
        while self.shown_s < whole {
            let tally = &progress.seconds[self.shown_s];
            let queue = progress
                .sample_at(self.shown_s as f64 + 1.0)
                .map_or(0, |sample| {
                    sample
                        .gateway
                        .map_or(sample.shop_queue, |gateway| gateway.queued.into())
                });
            writeln!(
                io::stderr(),
                "{:15} {:15} {:3} s  offered {:5}  good {:5}  refused {:5}  gave up {:5}  queue {queue}",
                guard.name(),
                self.setting.phase_at(self.shown_s as f64),
                self.shown_s + 1,
                tally.offered,
                tally.good,
                tally.refused,
                tally.timeout,
            )?;
            self.shown_s += 1;
        }
        Ok(())
    }
}
