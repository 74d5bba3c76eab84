//! The live screen: both runs side by side, offered and good visits over time.

use std::io;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph};

use super::side::{Guard, Progress};
use super::view::{Setting, Wish};

/// The highest rate of the scenes, in multiples of C, and some air.
const TOP: f64 = 3.3;

/// The terminal, taken over until this is dropped.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    setting: Setting,
    /// The one that ran first, once the other one runs.
    kept: Option<(Guard, Progress)>,
}

impl Screen {
    pub(super) fn open(setting: Setting) -> io::Result<Self> {
        Ok(Self {
            terminal: ratatui::try_init()?,
            setting,
            kept: None,
        })
    }

    pub(super) fn show(
        &mut self,
        guard: Guard,
        progress: &Progress,
        pause: Duration,
    ) -> io::Result<Wish> {
        let (setting, kept) = (&self.setting, self.kept.as_ref());
        self.terminal
            .draw(|frame| draw(frame, setting, kept, guard, progress))?;
        let until = Instant::now() + pause;
        while event::poll(until.saturating_duration_since(Instant::now()))? {
            if let Event::Key(key) = event::read()? {
                let interrupt =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    return Ok(Wish::Stop);
                }
            }
        }
        Ok(Wish::GoOn)
    }

    pub(super) fn keep(&mut self, guard: Guard, progress: Progress) {
        self.kept = Some((guard, progress));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn draw(
    frame: &mut Frame<'_>,
    setting: &Setting,
    kept: Option<&(Guard, Progress)>,
    guard: Guard,
    progress: &Progress,
) {
    let rows = [
        Constraint::Length(2),
        Constraint::Min(8),
        Constraint::Length(1),
    ];
    let [head, middle, foot] = Layout::vertical(rows).areas(frame.area());
    let halves = [Constraint::Percentage(50), Constraint::Percentage(50)];
    let [left, right] = Layout::horizontal(halves).areas(middle);

    let elapsed = progress.elapsed.as_secs_f64();
    let title = vec![
        Line::from(vec![
            "tidegate demo  ".bold(),
            Span::raw(format!("{}, C = {:.0}/s", setting.title, setting.capacity)),
        ]),
        Line::from(vec![
            Span::raw(format!("{}: ", guard.name())),
            setting.phase_at(elapsed).yellow(),
            Span::raw(format!("  {elapsed:.0} of {:.0} s", setting.end_s())),
        ]),
    ];
    frame.render_widget(Paragraph::new(title), head);
    match kept {
        Some((first, done)) => {
            side(frame, left, setting, *first, done);
            side(frame, right, setting, guard, progress);
        }
        None => {
            side(frame, left, setting, guard, progress);
            let next = Block::bordered().title(" behind Tidegate ");
            frame.render_widget(Paragraph::new("comes next").dim().block(next), right);
        }
    }
    let legend = Line::from(vec![
        "offered ".dark_gray(),
        "good ".green(),
        "refused ".yellow(),
        "  q stops".dim(),
    ]);
    frame.render_widget(Paragraph::new(legend), foot);
}

fn side(frame: &mut Frame<'_>, area: Rect, setting: &Setting, guard: Guard, progress: &Progress) {
    let rows = [Constraint::Min(6), Constraint::Length(4)];
    let [chart, facts] = Layout::vertical(rows).areas(area);
    let whole = setting.whole(progress);
    let points = |value: fn(&tidegate_lab::load::Tally) -> u64| -> Vec<(f64, f64)> {
        let seconds = progress.seconds[..whole].iter().enumerate();
        seconds
            .map(|(second, tally)| (second as f64, value(tally) as f64))
            .collect()
    };
    let (offered, good, refused) = (
        points(|tally| tally.offered),
        points(|tally| tally.good),
        points(|tally| tally.refused),
    );
    let line = |data, color| {
        Dataset::default()
            .data(data)
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(color))
    };
    let datasets = vec![
        line(&offered, Color::DarkGray),
        line(&refused, Color::Yellow),
        line(&good, Color::Green),
    ];
    let top = setting.capacity * TOP;
    let rates = [0.0, setting.capacity, top].map(|rate| Line::from(format!("{rate:.0}")));
    let plot = Chart::new(datasets)
        .block(Block::bordered().title(format!(" {} ", guard.name())))
        .x_axis(Axis::default().bounds([0.0, setting.end_s()]).dark_gray())
        .y_axis(Axis::default().bounds([0.0, top]).labels(rates).dark_gray());
    frame.render_widget(plot, chart);
    frame.render_widget(Paragraph::new(facts_of(progress, whole)), facts);
}

fn facts_of(progress: &Progress, whole: usize) -> Vec<Line<'static>> {
    let tally = progress.seconds[..whole]
        .last()
        .copied()
        .unwrap_or_default();
    let sample = progress.samples.last().copied().unwrap_or_default();
    let queue = match sample.gateway {
        Some(gateway) => format!(
            " queue {}   in flight {} of {}   shop's own queue {}",
            gateway.queued, gateway.in_flight, gateway.limit, sample.shop_queue
        ),
        None => format!(" shop's own queue {}", sample.shop_queue),
    };
    vec![
        Line::from(vec![
            Span::raw(format!(" offered {}/s  ", tally.offered)),
            format!("good {}/s  ", tally.good).green(),
            format!("refused {}/s  ", tally.refused).yellow(),
            format!("gave up {}/s", tally.timeout).red(),
        ]),
        Line::from(queue),
        Line::from(format!(
            " jobs for visitors who had left: {} of {}",
            sample.finished_dead, sample.finished
        )),
    ]
}
