//! A small application for the tests: it counts what it is sent, sends as much as it is asked for,
//! and can be made to wait.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::client::{read_chunk, read_line};

/// A running backend. Its threads end with the process; each is one connection.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    arrivals: Receiver<()>,
    hold: Arc<Hold>,
}

/// What `/hold` waits for.
#[derive(Default)]
struct Hold {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Hold {
    fn wait(&self) {
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
    }
}

impl Backend {
    /// Starts it on a port of its own. It answers
    ///
    /// - `/sink` with the length and the checksum of what it was sent,
    /// - `/flood/N` with N bytes of the [`pattern`],
    /// - `/hold` once it has been released,
    /// - `/half` with half of a body, and once it has been released with the end of the connection,
    /// - `/cost/N` with a header that says N,
    /// - `/report` with load reports that no balancer would take,
    /// - everything else with the request's head.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (arrived, arrivals) = mpsc::channel();
        let hold = Arc::new(Hold::default());
        let shared = Arc::clone(&hold);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (arrived, hold) = (arrived.clone(), Arc::clone(&shared));
                thread::spawn(move || serve(&stream.unwrap(), &arrived, &hold));
            }
        });
        Self {
            address,
            arrivals,
            hold,
        }
    }

    /// Waits until a request for `/hold` or `/half` has arrived.
    pub(crate) fn wait_for_arrival(&self) {
        self.arrivals
            .recv_timeout(crate::process::PATIENCE)
            .unwrap();
    }

    /// Lets all requests for `/hold` and `/half` go on, now and later.
    pub(crate) fn release(&self) {
        *self.hold.open.lock().unwrap() = true;
        self.hold.opened.notify_all();
    }
}

/// Bytes that look different at every place of the first megabytes: block `number` of 64 KiB.
pub(crate) fn pattern(number: u64) -> Vec<u8> {
    let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..64 * 1024_u64)
        .map(|at| ((at ^ seed).wrapping_mul(31) >> 3) as u8)
        .collect()
}

/// A checksum that depends on the order of the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) bytes: u64,
    pub(crate) sum: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        for &byte in bytes {
            self.sum = self
                .sum
                .wrapping_mul(0x0100_0000_01b3)
                .wrapping_add(u64::from(byte));
        }
    }
}

fn serve(stream: &TcpStream, arrived: &Sender<()>, hold: &Hold) {
    let mut input = BufReader::with_capacity(64 * 1024, stream);
    loop {
        let request_line = read_line(&mut input);
        let Some(path) = request_line.split(' ').nth(1).map(str::to_owned) else {
            return;
        };
        let mut head = request_line;
        loop {
            let line = read_line(&mut input);
            if line.is_empty() {
                break;
            }
            head += "\n";
            head += &line.to_ascii_lowercase();
        }
        let sum = read_body(&mut input, &head);

        let answered = if let Some(bytes) = path.strip_prefix("/flood/") {
            flood(stream, bytes.parse().unwrap())
        } else if path == "/half" {
            half(stream, arrived, hold);
            return;
        } else {
            let body = match path.as_str() {
                "/sink" => format!("{} {}", sum.bytes, sum.sum),
                "/hold" => {
                    // Nobody listens any more when the test is over.
                    let _ = arrived.send(());
                    hold.wait();
                    "released".to_owned()
                }
                _ => head,
            };
            let mut out = stream;
            let cost = match path.strip_prefix("/cost/") {
                Some(cost) => format!("x-cost: {cost}\r\n"),
                None if path == "/report" => {
                    "Endpoint-Load-Metrics: TEXT rps=5\r\nendpoint-load-metrics-bin: AA==\r\n"
                        .to_owned()
                }
                None => String::new(),
            };
            write!(
                out,
                "HTTP/1.1 200 OK\r\n{cost}content-length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        if answered.is_err() {
            return;
        }
    }
}

fn read_body(input: &mut impl BufRead, head: &str) -> Sum {
    let mut sum = Sum::default();
    if head.contains("transfer-encoding: chunked") {
        while let Some(chunk) = read_chunk(input) {
            sum.add(&chunk);
        }
    } else if let Some((_, rest)) = head.split_once("content-length: ") {
        let length: u64 = rest.lines().next().unwrap().parse().unwrap();
        let mut body = input.take(length);
        loop {
            let bytes = body.fill_buf().unwrap();
            if bytes.is_empty() {
                break;
            }
            sum.add(bytes);
            let read = bytes.len();
            body.consume(read);
        }
    }
    sum
}

fn flood(mut out: &TcpStream, bytes: u64) -> std::io::Result<()> {
    write!(out, "HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n")?;
    let mut left = bytes;
    for number in 0.. {
        let block = pattern(number);
        let part = left.min(block.len() as u64);
        out.write_all(&block[..part as usize])?;
        left -= part;
        if left == 0 {
            break;
        }
    }
    Ok(())
}

/// Half of an answer.
fn half(mut out: &TcpStream, arrived: &Sender<()>, hold: &Hold) {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n";
    // Whoever has left before that has what it wanted.
    let _ = write!(out, "{head}half");
    let _ = arrived.send(());
    hold.wait();
    let _ = out.shutdown(std::net::Shutdown::Both);
}
