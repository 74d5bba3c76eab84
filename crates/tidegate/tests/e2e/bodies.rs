//! Bodies far larger than any buffer pass through whole, and do not stay.

use std::io::{BufReader, Read, Write};

use tidegate_lab::measure;

use crate::backend::{Backend, Sum, pattern};
use crate::client::{connect, head, read_answer, read_head};
use crate::process::{TempDir, Tidegate};

const BYTES: u64 = 200 * 1024 * 1024;
const MEMORY_BYTES_MAX: u64 = 64 * 1024 * 1024;

fn start() -> (Backend, TempDir, Tidegate) {
    let (backend, directory) = (Backend::start(), TempDir::new());
    let configuration = format!(
        "[[app]]\nupstream = \"http://{}\"\nworkers = 4\n",
        backend.address
    );
    let tidegate = Tidegate::start(&directory, &configuration);
    (backend, directory, tidegate)
}

fn assert_memory_stayed_flat(tidegate: &Tidegate) {
    let most = measure::sample(tidegate.id()).unwrap().rss_max_bytes;
    assert!(most < MEMORY_BYTES_MAX, "{most} bytes were resident");
}

#[test]
fn an_upload_of_200_mb_with_a_length_arrives_whole_and_leaves_memory_flat() {
    let (_backend, _directory, tidegate) = start();
    let mut stream = connect(tidegate.clients);
    let head = head("POST", "/sink", &[("content-length", &BYTES.to_string())]);
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();

    let mut sent = Sum::default();
    for number in 0..BYTES / (64 * 1024) {
        let block = pattern(number);
        sent.add(&block);
        stream.write_all(&block).unwrap();
    }
    let answer = read_answer(&mut BufReader::new(stream), "POST");

    assert_eq!(answer.text(), format!("{} {}", sent.bytes, sent.sum));
    assert_eq!(sent.bytes, BYTES);
    assert_memory_stayed_flat(&tidegate);
}

#[test]
fn an_upload_of_200_mb_in_chunks_arrives_whole_and_leaves_memory_flat() {
    let (_backend, _directory, tidegate) = start();
    let mut stream = connect(tidegate.clients);
    let head = head("POST", "/sink", &[("transfer-encoding", "chunked")]);
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();

    let mut sent = Sum::default();
    for number in 0..BYTES / (64 * 1024) {
        let block = pattern(number);
        sent.add(&block);
        stream
            .write_all(format!("{:x}\r\n", block.len()).as_bytes())
            .unwrap();
        stream.write_all(&block).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let answer = read_answer(&mut BufReader::new(stream), "POST");

    assert_eq!(answer.text(), format!("{} {}", sent.bytes, sent.sum));
    assert_memory_stayed_flat(&tidegate);
}

#[test]
fn a_download_of_200_mb_arrives_whole_and_leaves_memory_flat() {
    let (_backend, _directory, tidegate) = start();
    let mut stream = connect(tidegate.clients);
    let head = head("GET", &format!("/flood/{BYTES}"), &[]);
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();

    let mut stream = BufReader::new(stream);
    let (status, _) = read_head(&mut stream);
    let mut received = Sum::default();
    let mut block = vec![0; 64 * 1024];
    for number in 0..BYTES / (64 * 1024) {
        stream.read_exact(&mut block).unwrap();
        received.add(&block);
        assert!(block == pattern(number), "block {number} has changed");
    }

    assert_eq!((status, received.bytes), (200, BYTES));
    assert_memory_stayed_flat(&tidegate);
}
