//! The board of a room in Redis.

use tidegate_core::room::Epoch;
use tidegate_core::session::Name;
use tidegate_core::time::Wall;

use super::super::board::{NOTES_MAX, REPORT_KEPT, REPORTS_MAX};
use super::super::{Board, Notice, Room, RoomError};
use crate::Fence;
use crate::redis::{Elements, ROOM_BOARD, Run, lead, room, room_reports};

pub(super) fn write(of: &Room, epoch: Epoch, notice: &Notice<'_>) -> Run {
    let word = notice.word;
    let fence = word.map_or_else(String::new, |(fence, _)| fence.0.to_string());
    let run = Run::of(&ROOM_BOARD)
        .key(room(&of.lease))
        .key(lead(&of.lease))
        .key(room_reports(&of.lease))
        .number(epoch.0)
        .number(2 * of.rules.ticket_ms)
        .arg(notice.node.as_str())
        .arg(notice.report)
        .number(REPORT_KEPT.as_millis())
        .number(REPORTS_MAX)
        .number(u8::from(notice.wants_reports))
        .arg(fence)
        .arg(word.map_or(&[][..], |(_, word)| word))
        .number(NOTES_MAX);
    notice.notes.iter().fold(run, |run, (name, said)| {
        run.arg(*name)
            .number(u8::from(said.is_some()))
            .arg(said.unwrap_or_default())
    })
}

pub(super) fn read(mut said: Elements) -> Result<Board, RoomError> {
    let now = wall(said.natural()?);
    let (fence, at, word) = (said.natural()?, said.natural()?, said.bytes()?);
    let mut board = Board {
        now,
        word: (at > 0).then(|| (Fence(fence), wall(at), word)),
        ..Board::default()
    };
    let mut notes = said.nested()?;
    while !notes.is_empty() {
        board.notes.insert(notes.text()?, notes.bytes()?);
    }
    let mut reports = said.nested()?;
    while !reports.is_empty() {
        let node = Name::new(&reports.text()?).map_err(|_| reports.odd())?;
        board.reports.push((node, reports.bytes()?));
    }
    board.reports.sort();
    Ok(board)
}

const fn wall(ms: u64) -> Wall {
    Wall::from_micros(ms.saturating_mul(1_000))
}
