//! What is in the file when a process dies, its disk fills, or the file is not what it was.

use std::process::{Child, Command, Stdio};

use tidegate_lab::patience::{until, until_so};

use super::*;

#[tokio::test]
async fn a_write_that_waits_is_in_the_file_when_it_is_acknowledged() {
    let folder = Folder::new("durable");
    let store = at(&folder.0);

    let created = store.create(&session(1), DURABLE).await.unwrap();

    assert_eq!(created.replication, Replication::Reached(1));
    let copy = Folder::new("durable-copy");
    fs::create_dir_all(&copy.0).unwrap();
    // What is on the disk now is what is left after kill -9.
    fs::copy(folder.file(), copy.file()).unwrap();
    let restarted = at(&copy.0);
    assert!(show(&restarted, 1).await.is_ok());
}

/// A process that is killed when it is dropped, also by a test that fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Run in a process of its own by the test below.
#[tokio::test]
async fn writes_until_it_is_killed() {
    let Ok(folder) = std::env::var("TIDEGATE_EMBEDDED_CHILD") else {
        return;
    };
    let store = at(Path::new(&folder));
    store.create(&session(1), DURABLE).await.unwrap();
    let mut number = 1u64;
    loop {
        let call = if number.is_multiple_of(16) {
            DURABLE
        } else {
            CALL
        };
        patch(&store, 1, add(1), call).await;
        if call.wait.is_some() {
            fs::write(
                Path::new(&folder).join("acknowledged.new"),
                number.to_string(),
            )
            .unwrap();
            fs::rename(
                Path::new(&folder).join("acknowledged.new"),
                Path::new(&folder).join("acknowledged"),
            )
            .unwrap();
        }
        number += 1;
    }
}

#[tokio::test]
async fn after_kill_9_every_acknowledged_write_that_waited_is_there() {
    let folder = Folder::new("killed");
    fs::create_dir_all(&folder.0).unwrap();
    let acknowledged = folder.0.join("acknowledged");
    let mut least = 0;
    for _ in 0..3 {
        let _ = fs::remove_file(&acknowledged);
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "embedded::tests::disk::writes_until_it_is_killed",
            ])
            .env("TIDEGATE_EMBEDDED_CHILD", &folder.0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = Killed(child.unwrap());
        until_so("a few writes are acknowledged", || {
            let ended = child.0.try_wait().unwrap();
            assert!(ended.is_none(), "it ended by itself");
            let text = fs::read_to_string(&acknowledged).unwrap_or_default();
            text.parse::<i64>().is_ok_and(|seen| seen >= 64)
        })
        .await;
        drop(child);
        let text = fs::read_to_string(&acknowledged).unwrap();
        least += text.parse::<i64>().unwrap();

        let store = at(&folder.0);
        let hits = hits(&store, 1).await;
        assert!(hits >= least, "{hits} of {least}");
        least = hits;
        store.close();
    }
}

/// Run in a process of its own by the test below, whose files may not grow beyond some length.
#[tokio::test]
async fn fills_its_disk() {
    let Ok(folder) = std::env::var("TIDEGATE_EMBEDDED_FULL") else {
        return;
    };
    let store = at(Path::new(&folder));
    store.create(&session(0), DURABLE).await.unwrap();
    let mut number = 0;
    until("the disk is full", async || {
        // Not many at a time: what waits for the disk is in memory.
        for _ in 0..4 {
            number += 1;
            let mut large = session(number);
            large
                .attributes
                .push((name("large"), text(&"x".repeat(4000))));
            store.create(&large, CALL).await.unwrap();
        }
        store.stats().failing.then_some(())
    })
    .await;

    let brief = Call {
        wait: Some(Wait {
            replicas: 1,
            within: Duration::from_millis(300),
            on_short: OnShort::Degrade,
        }),
        ..DURABLE
    };
    let patched = patch(&store, 0, add(1), brief).await;

    assert_eq!(patched.replication, Replication::Short(0));
    for number in 0..=number {
        show(&store, number).await.unwrap();
    }
    store.close();
    fs::write(Path::new(&folder).join("done"), "").unwrap();
}

#[tokio::test]
async fn on_a_full_disk_sessions_go_on_in_memory_and_what_was_written_stays() {
    let folder = Folder::new("full");
    fs::create_dir_all(&folder.0).unwrap();
    let child = Command::new("sh")
        // 8 MiB, in blocks of 512 bytes; past them a write fails instead of killing the process.
        .args(["-c", "trap '' XFSZ; ulimit -f 16384; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "embedded::tests::disk::fills_its_disk"])
        .env("TIDEGATE_EMBEDDED_FULL", &folder.0)
        .output()
        .unwrap();

    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}");
    assert!(folder.0.join("done").exists(), "{output}");
    assert!(show(&at(&folder.0), 0).await.is_ok());
}

#[test]
fn a_second_process_is_told_that_the_file_is_in_use() {
    let folder = Folder::new("twice");
    let _first = at(&folder.0);

    let second = Embedded::start(EmbeddedPlan::at(Some(folder.0.clone())));

    let error = second.unwrap_err();
    assert!(matches!(error, EmbeddedError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("in use by another process"));
}

#[test]
fn what_is_no_file_of_ours_is_told_and_left_alone() {
    let folder = Folder::new("odd");
    fs::create_dir_all(&folder.0).unwrap();
    let text = b"[server]\nlisten = 1\n".repeat(500);
    fs::write(folder.file(), &text).unwrap();

    let error = Embedded::start(EmbeddedPlan::at(Some(folder.0.clone()))).unwrap_err();

    assert!(matches!(error, EmbeddedError::Damaged { .. }), "{error}");
    assert_eq!(fs::read(folder.file()).unwrap(), text);
}

#[tokio::test]
async fn a_file_that_was_altered_is_told_or_read_right_and_never_a_panic() {
    let folder = Folder::new("altered");
    {
        let store = at(&folder.0);
        for number in 0..200 {
            store.create(&session(number), CALL).await.unwrap();
        }
        store.close();
    }
    let whole = fs::read(folder.file()).unwrap();
    let mut told = 0;
    for round in 0..24 {
        let mut bytes = whole.clone();
        if round < 4 {
            bytes.truncate(whole.len() * round / 4 + 100);
        } else {
            let at = whole.len() * (round - 4) / 20;
            for byte in &mut bytes[at..(at + 64).min(whole.len())] {
                *byte ^= 0x5a;
            }
        }
        fs::write(folder.file(), &bytes).unwrap();
        match Embedded::start(EmbeddedPlan::at(Some(folder.0.clone()))) {
            Err(EmbeddedError::Damaged { .. }) => told += 1,
            Err(other) => panic!("{other}"),
            Ok(store) => {
                let found = show(&store, 7).await.unwrap();
                assert_eq!(found.attributes[0].1.value, text("apple"));
            }
        }
    }
    assert!(told >= 4, "{told}");
}
