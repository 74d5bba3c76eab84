//! What gateways and the leader tell each other.

use std::time::Duration;

use tidegate_core::room::{Denied, Epoch, Tier, Whereabouts};
use tidegate_core::session::Name;
use tidegate_lab::patience::until;
use tidegate_store::rooms::{
    Board, NOTE_BYTES_MAX, NOTES_MAX, Notice, REPORT_BYTES_MAX, RoomError, WORD_BYTES_MAX,
};
use tidegate_store::{Fence, StoreError};

use crate::backend::{Backend, CALL, Open, node};

pub(crate) async fn all(backend: &Backend) {
    everybody_hears_the_leader_and_only_who_wants_to_the_others(backend).await;
    a_former_leader_says_nothing(backend).await;
    a_word_deposes_whoever_led_before_and_no_epoch_ends_it(backend).await;
    a_note_stays_until_it_is_taken_away(backend).await;
    so_many_notes_and_no_more(backend).await;
    as_much_is_said_as_may_be(backend).await;
    a_report_that_is_not_repeated_is_forgotten(backend).await;
}

type Note<'a> = (&'a str, Option<&'a [u8]>);

impl Open {
    /// What `name` says; whoever leads wants to hear the others.
    pub(crate) async fn says(
        &self,
        name: &str,
        word: Option<(Fence, &[u8])>,
        notes: &[Note<'_>],
    ) -> Result<Board, RoomError> {
        let notice = Notice {
            node: &Name::new(name).unwrap(),
            report: name.as_bytes(),
            word,
            notes,
            wants_reports: word.is_some(),
        };
        self.room.exchange(self.epoch, &notice, CALL).await
    }
}

async fn everybody_hears_the_leader_and_only_who_wants_to_the_others(on: &Backend) {
    let open = on.open().await;

    let nothing = open.says("a", None, &[]).await.unwrap();
    let own = open.says("b", Some((Fence(7), b"\0 word")), &[]).await;
    let heard = open.says("a", None, &[]).await.unwrap();

    assert_eq!((nothing.word, nothing.reports.len()), (None, 0));
    let own = own.unwrap();
    let names: Vec<_> = own.reports.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(own.reports[0].1, b"a");
    let (fence, at, word) = heard.word.unwrap();
    assert_eq!((fence, &word[..]), (Fence(7), &b"\0 word"[..]));
    assert!(at <= heard.now && heard.now.since(at) < Duration::from_secs(60));
    assert_eq!(heard.reports, []);
}

async fn a_former_leader_says_nothing(on: &Backend) {
    let open = on.open().await;
    let fence = open
        .lead_at_last(&node("a"), Duration::from_secs(600))
        .await;

    open.says("a", Some((fence, b"now")), &[]).await.unwrap();
    let former = Fence(fence.0 - 1);
    let denied = open
        .says("b", Some((former, b"then")), &[("stock", Some(b"1"))])
        .await;

    let deposed = Denied::Deposed { by: fence.0 };
    assert_eq!(denied, Err(RoomError::Denied(deposed)));
    let board = open.says("c", None, &[]).await.unwrap();
    assert_eq!(board.word.unwrap().2, b"now");
    assert!(board.notes.is_empty(), "nothing of it was taken in");
}

async fn a_word_deposes_whoever_led_before_and_no_epoch_ends_it(on: &Backend) {
    let mut open = on.open().await;
    let place = open.waits(Tier::Anonymous).await;

    open.says("a", Some((Fence(7), b"word")), &[])
        .await
        .unwrap();

    let deposed = Err(RoomError::Denied(Denied::Deposed { by: 7 }));
    let said = open.release_as(Fence(6), &open.calling(1)).await;
    assert_eq!(said, deposed);
    open.release_as(Fence(8), &open.calling(0)).await.unwrap();
    let said = open.says("a", Some((Fence(7), b"again")), &[]).await;
    let deposed = Err(RoomError::Denied(Denied::Deposed { by: 8 }));
    assert_eq!(said, deposed);
    open.epoch = open.room.turn(open.epoch, CALL).await.unwrap();
    let (fence, _, word) = open.says("b", None, &[]).await.unwrap().word.unwrap();
    assert_eq!((fence, &word[..]), (Fence(7), &b"word"[..]));
    assert_eq!(
        open.find(Tier::Anonymous, place).await.0,
        Whereabouts::Absent
    );
}

async fn so_many_notes_and_no_more(on: &Backend) {
    let open = on.open().await;
    let names: Vec<_> = (0..=NOTES_MAX)
        .map(|number| format!("note-{number}"))
        .collect();
    let notes: Vec<Note<'_>> = (names.iter())
        .map(|name| (name.as_str(), Some(&b"7"[..])))
        .collect();
    open.says("a", None, &notes[1..]).await.unwrap();

    let word = Some((Fence(9), &b"word"[..]));
    let refused = open.says("a", word, &notes[..1]).await;
    let instead = [notes[0], ("note-1", None)];
    let board = open.says("a", None, &instead).await.unwrap();

    let refused = refused.unwrap_err();
    let is_refused = matches!(refused, RoomError::Store(StoreError::Refused(_)));
    assert!(is_refused, "{refused:?}");
    assert_eq!(board.word, None, "nothing of it was taken in");
    assert_eq!(board.notes.len(), NOTES_MAX);
    assert!(!board.notes.contains_key("note-1"));
}

async fn as_much_is_said_as_may_be(on: &Backend) {
    let open = on.open().await;
    // Bytes of any kind, and more of them than a packet has.
    let bytes: Vec<_> = (0..=WORD_BYTES_MAX).map(|at| (at % 251) as u8).collect();
    let (node, word) = (Name::new("a").unwrap(), &bytes[1..]);
    let notice = Notice {
        node: &node,
        report: &bytes[..REPORT_BYTES_MAX],
        word: Some((Fence(1), word)),
        notes: &[("message", Some(&bytes[..NOTE_BYTES_MAX]))],
        wants_reports: true,
    };

    let board = open.room.exchange(open.epoch, &notice, CALL).await.unwrap();

    assert!(board.word.unwrap().2 == word);
    assert!(board.notes["message"] == bytes[..NOTE_BYTES_MAX]);
    assert!(board.reports == [(node.clone(), bytes[..REPORT_BYTES_MAX].to_vec())]);
    let long = Notice {
        word: Some((Fence(1), &bytes)),
        ..notice
    };
    let refused = open.room.exchange(open.epoch, &long, CALL).await;
    assert!(matches!(
        refused,
        Err(RoomError::Store(StoreError::Refused(_)))
    ));
}

async fn a_note_stays_until_it_is_taken_away(on: &Backend) {
    let mut open = on.open().await;

    let notes: [Note<'_>; 2] = [("stock", Some(b"2500")), ("reason", Some(b""))];
    open.says("a", None, &notes).await.unwrap();
    let next = open.room.turn(open.epoch, CALL).await.unwrap();
    let denied = open.says("b", None, &[]).await;
    assert_eq!(denied, Err(RoomError::Denied(Denied::Epoch(next))));

    open.epoch = next;
    let board = open.says("b", None, &[("reason", None)]).await.unwrap();
    let left: Vec<_> = board.notes.into_iter().collect();
    assert_eq!(left, [("stock".to_owned(), b"2500".to_vec())]);
    assert!(open.epoch > Epoch(0));
}

async fn a_report_that_is_not_repeated_is_forgotten(on: &Backend) {
    let open = on.open().await;
    open.says("a", None, &[]).await.unwrap();

    until("it is forgotten", async || {
        let board = open.says("b", Some((Fence(1), b"")), &[]).await.unwrap();
        (board.reports.len() == 1).then_some(())
    })
    .await;
}
