//! What an application says to its room by `Tidegate-Command`, a header of its answers.
//!
//! | value | what it does |
//! |---|---|
//! | `end` | takes the pass of this visitor away: they are done |
//! | `extend=600` | lets it live for so many seconds from now on, if it would not anyway |
//! | `stock=2500` | says to those who wait how many can still be had |
//! | `close`, `close="sold-out"` | closes the room |
//!
//! Several may stand in a line, parted by commas. A line that is not exactly that is void as a whole; other lines stand. The first
//! two are about who asked, the others about the room: these are ordered by a task of their own, one at a time, and of
//! several stocks the last one counts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tidegate_core::room::Phase;
use tidegate_page::document::Reason;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::room::hall::{Hall, RoomOrder};
use crate::room::herald::RoomEvent;
use crate::session::item::{Item, Malformed, Reader};

/// Longest time that a pass is extended by.
const EXTEND_S_MAX: i64 = 86_400;
/// An order that was not taken is given so often.
const TRIES: u32 = 5;
/// So long after an order the next one is given, or the same one again.
const PAUSE: Duration = Duration::from_millis(200);

/// What an application says to its room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) end: bool,
    pub(crate) extend: Option<Duration>,
    pub(crate) stock: Option<u64>,
    pub(crate) close: Option<Reason>,
}

/// What the application wants of a room and was not ordered yet.
#[derive(Debug, Default)]
pub(crate) struct Wishes(Mutex<Wished>);

#[derive(Debug, Default)]
struct Wished {
    stock: Option<u64>,
    close: Option<Reason>,
    /// Whether a task sees to it.
    is_under_way: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Stock(u64),
    Close(Reason),
}

impl Command {
    /// What these lines say, and how many of them are void.
    pub(crate) fn parse(lines: &[HeaderValue]) -> (Self, u64) {
        let (mut command, mut malformed) = (Self::default(), 0);
        for value in lines {
            match line(Reader::new(value.as_bytes().trim_ascii())) {
                Ok(said) => command.take_in(said),
                Err(Malformed) => malformed += 1,
            }
        }
        (command, malformed)
    }

    fn take_in(&mut self, said: Self) {
        self.end |= said.end;
        self.extend = said.extend.or(self.extend);
        self.stock = said.stock.or(self.stock);
        self.close = said.close.or(self.close);
    }
}

fn line(mut reader: Reader<'_>) -> Result<Command, Malformed> {
    let mut command = Command::default();
    loop {
        match reader.name()? {
            "end" if !command.end => command.end = true,
            "extend" => {
                let seconds = number(&mut reader)?;
                if !(1..=EXTEND_S_MAX).contains(&seconds) {
                    return Err(Malformed);
                }
                let span = Duration::from_secs(seconds.unsigned_abs());
                once(&mut command.extend, span)?;
            }
            "stock" => {
                let count = u64::try_from(number(&mut reader)?).map_err(|_| Malformed)?;
                once(&mut command.stock, count)?;
            }
            "close" => {
                let why = reason(&mut reader)?;
                once(&mut command.close, why)?;
            }
            _ => return Err(Malformed),
        }
        if !reader.next_member()? {
            return Ok(command);
        }
    }
}

/// What may be said once in a line.
fn once<T>(place: &mut Option<T>, value: T) -> Result<(), Malformed> {
    match place.replace(value) {
        Some(_) => Err(Malformed),
        None => Ok(()),
    }
}

fn number(reader: &mut Reader<'_>) -> Result<i64, Malformed> {
    reader.expect(b'=')?;
    match reader.item()? {
        Item::Integer(number) => Ok(number),
        _ => Err(Malformed),
    }
}

fn reason(reader: &mut Reader<'_>) -> Result<Reason, Malformed> {
    if !reader.take(b'=') {
        return Ok(Reason::Ended);
    }
    match &*reader.word()? {
        "sold-out" => Ok(Reason::SoldOut),
        "ended" => Ok(Reason::Ended),
        _ => Err(Malformed),
    }
}

impl Wishes {
    /// Has what `command` says about the room ordered, by a task on `runtime` if none is under way. Never waits.
    pub(crate) fn take_in(hall: &Arc<Hall>, runtime: &Handle, command: &Command) {
        let view = hall.view();
        let is_known = |stock: &u64| view.stock == Some(*stock);
        // It may say so in every answer.
        let is_closed = |why: &Reason| view.phase == Phase::Closed && view.reason == Some(*why);
        let begins = {
            let mut wished = hall.wishes.lock();
            // Where one is on its way, what is known is about to be another.
            let is_idle = !wished.is_under_way;
            let stock = command.stock.filter(|it| !(is_idle && is_known(it)));
            wished.stock = stock.or(wished.stock);
            let close = command.close.filter(|it| !(is_idle && is_closed(it)));
            wished.close = close.or(wished.close);
            let begins = is_idle && (wished.stock.is_some() || wished.close.is_some());
            wished.is_under_way |= begins;
            begins
        };
        if begins {
            runtime.spawn(carry_out(Arc::clone(hall)));
        }
    }

    /// The next one; with none the task is over.
    fn next(&self) -> Option<Wish> {
        let mut wished = self.lock();
        let close = wished.close.take().map(Wish::Close);
        let wish = close.or_else(|| wished.stock.take().map(Wish::Stock));
        wished.is_under_way = wish.is_some();
        wish
    }

    fn lock(&self) -> MutexGuard<'_, Wished> {
        // What is in there is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wish {
    fn order(self) -> RoomOrder {
        match self {
            Self::Stock(count) => RoomOrder::Stock(Some(count)),
            Self::Close(reason) => RoomOrder::Close(reason),
        }
    }
}

/// Orders what is wished until nothing is.
async fn carry_out(hall: Arc<Hall>) {
    while let Some(wish) = hall.wishes.next() {
        for _ in 0..TRIES {
            let is_done = hall.clerk.order(wish.order()).await.is_ok();
            sleep(PAUSE).await;
            if is_done {
                tell(&hall, wish);
                break;
            }
        }
    }
}

/// That a room is closed is to be found later; a stock changes all the time.
fn tell(hall: &Hall, wish: Wish) {
    let Wish::Close(reason) = wish else {
        return;
    };
    let why = match reason {
        Reason::SoldOut => "close sold-out",
        _ => "close ended",
    };
    hall.herald.tell(RoomEvent::Ordered {
        what: why.to_owned(),
        by: "application".to_owned(),
        why: None,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &[&'static str]) -> (Command, u64) {
        let lines: Vec<_> = lines
            .iter()
            .map(|line| HeaderValue::from_static(line))
            .collect();
        Command::parse(&lines)
    }

    #[test]
    fn every_command_is_read_alone_or_beside_others() {
        let expected = Command {
            end: true,
            extend: Some(Duration::from_secs(600)),
            stock: Some(2_500),
            close: Some(Reason::SoldOut),
        };

        let one = parse(&["end, extend=600 , stock=2500,close=\"sold-out\""]);
        let four = parse(&["end", "extend=600", "stock=2500", "close=sold-out"]);

        assert_eq!(one, (expected, 0));
        assert_eq!(four, (expected, 0));
        assert_eq!(parse(&["close"]).0.close, Some(Reason::Ended));
        assert_eq!(parse(&["close=ended"]).0.close, Some(Reason::Ended));
        assert_eq!(parse(&["stock=0"]).0.stock, Some(0));
        assert_eq!(parse(&["stock=1", "stock=2"]).0.stock, Some(2));
        assert_eq!(parse(&[]), (Command::default(), 0));
    }

    #[test]
    fn a_line_with_anything_wrong_is_void_and_the_others_stand() {
        for bad in [
            "",
            "stop",
            "end=1",
            "end,",
            "end, end",
            "extend",
            "extend=0",
            "extend=-5",
            "extend=86401",
            "extend=\"600\"",
            "extend=600 stock=1",
            "stock=-1",
            "stock=many",
            "stock=1, stock=2",
            "stock=99999999999999999999",
            "close=",
            "close=tomorrow",
        ] {
            let (command, malformed) = parse(&[bad, "end"]);
            assert_eq!(malformed, 1, "{bad}");
            let end = Command {
                end: true,
                ..Command::default()
            };
            assert_eq!(command, end, "{bad}");
        }
    }

    #[test]
    fn what_is_wished_is_ordered_one_after_the_other_and_of_stocks_the_last() {
        let wishes = Wishes::default();
        {
            let mut wished = wishes.lock();
            wished.stock = Some(7);
            wished.close = Some(Reason::Ended);
            wished.is_under_way = true;
        }

        assert_eq!(wishes.next(), Some(Wish::Close(Reason::Ended)));
        wishes.lock().stock = Some(5);
        assert_eq!(wishes.next(), Some(Wish::Stock(5)));
        assert!(wishes.lock().is_under_way);
        assert_eq!(wishes.next(), None);
        assert!(!wishes.lock().is_under_way);
    }
}
