//! Audit log and webhooks together, as a room has them.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;

use serde_json::Value;

use super::*;

/// A folder that goes when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-herald-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set(to: Phase, by: &str) -> RoomEvent {
    RoomEvent::PhaseSet {
        from: Phase::Auto,
        to,
        by: by.to_owned(),
        why: Some("a test".to_owned()),
    }
}

#[test]
fn what_is_told_is_written_down_before_the_room_is_gone() {
    let folder = Folder::new();
    let path = folder.file("audit");
    let background = Background::start().unwrap();
    let open = || Herald::open("shop", Some(&path), &[], &background).unwrap();
    let herald = open();
    assert_eq!(herald.phase_set(), None);

    herald.tell(set(Phase::Hold, "kim"));
    herald.tell(RoomEvent::Leads { fence: 7 });
    drop(herald);

    let log = fs::read(&path).unwrap();
    let mut entries = Vec::new();
    let whole = verify(&log[..], |entry, _| entries.push(entry)).unwrap();
    assert_eq!((whole.entries, whole.torn), (2, 0));
    let [first, second] = &entries[..] else {
        panic!("two entries");
    };
    assert_eq!((first.room.as_str(), first.n), ("shop", 1));
    assert_eq!(first.said.to.as_deref(), Some("hold"));
    assert_eq!(second.said.fence, Some(7));
    // And the next one knows who has ordered what holds.
    let known = open().phase_set().unwrap();
    assert_eq!((known.to, known.by.as_str()), (Phase::Hold, "kim"));
    assert_eq!(known.at_ms, first.at_ms);
}

#[test]
fn who_has_set_the_phase_last_is_known_without_any_log() {
    let background = Background::start().unwrap();
    let herald = Herald::open("shop", None, &[], &background).unwrap();

    herald.tell(set(Phase::Hold, "kim"));
    herald.tell(set(Phase::Drain, "jo"));
    herald.tell(RoomEvent::Idle);

    let known = herald.phase_set().unwrap();
    assert_eq!((known.to, known.by.as_str()), (Phase::Drain, "jo"));
    assert_eq!(known.why.as_deref(), Some("a test"));
    assert_eq!(herald.counts(), HeraldCounts::default());
}

#[test]
fn what_finds_no_room_is_counted_and_holds_up_nobody() {
    let (sender, mut letters) = mpsc::channel(2);
    let herald = Herald {
        room: "shop".to_owned(),
        clock: Clock::start(),
        audit: None,
        hooks: vec![sender],
        counts: Arc::default(),
        set: Mutex::default(),
    };

    for _ in 0..5 {
        herald.tell(RoomEvent::StoreBack { restored: 12 });
    }

    assert_eq!(herald.counts().lost, 3);
    let letter: Value = serde_json::from_str(&letters.try_recv().unwrap()).unwrap();
    assert_eq!(letter["v"], 1);
    assert_eq!(letter["room"], "shop");
    assert_eq!(letter["event"], "store.back");
    assert_eq!(letter["restored"], 12);
    assert_eq!(letter["id"].as_str().map(str::len), Some(32));
    assert!(letter["at_ms"].is_u64());
    assert!(letter.get("by").is_none());
}

#[test]
fn a_log_that_cannot_be_gone_on_with_is_said_with_its_path() {
    let folder = Folder::new();
    let path = folder.file("dear");
    fs::write(&path, "something dear").unwrap();
    let background = Background::start().unwrap();

    let error = Herald::open("shop", Some(&path), &[], &background).unwrap_err();

    let said = error.to_string();
    assert!(said.contains("dear: it is no audit log"), "{said}");
}
