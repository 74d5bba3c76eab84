use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_core::rng::Rng;
use tidegate_gateway::plan::OnClientGone;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::site::{Site, plan_for};
use crate::within;

const WORKERS: u32 = 4;
const VISITORS: u64 = 16;
const REQUESTS_EACH: u32 = 60;
/// Whoever leaves on the way leaves after fewer requests than this have begun in the meantime.
const BEGUN_MEANWHILE_MAX: u64 = 16;

/// An application with blocking workers: whatever it has begun, it finishes. Half of its answers
/// are small, half are in chunks and larger than what is read at once.
struct Shop {
    listener: TcpListener,
    inside: AtomicU32,
    inside_most: AtomicU32,
    /// How many requests have begun.
    begun: watch::Sender<u64>,
}

impl Shop {
    async fn serve(self: Arc<Self>) {
        loop {
            let (stream, _) = self.listener.accept().await.unwrap();
            tokio::spawn(Arc::clone(&self).attend(stream));
        }
    }

    async fn attend(self: Arc<Self>, mut stream: TcpStream) {
        let mut unread = Vec::new();
        let mut chunk = vec![0; 16 * 1024];
        loop {
            let head_end = loop {
                if let Some(at) = unread.windows(4).position(|end| end == b"\r\n\r\n") {
                    break at + 4;
                }
                match stream.read(&mut chunk).await {
                    Ok(read) if read > 0 => unread.extend_from_slice(&chunk[..read]),
                    _ => return,
                }
            };
            let head = String::from_utf8(unread.drain(..head_end).collect()).unwrap();
            let body = if head.starts_with("POST") { 100 } else { 0 };
            while unread.len() < body {
                match stream.read(&mut chunk).await {
                    Ok(read) if read > 0 => unread.extend_from_slice(&chunk[..read]),
                    _ => return,
                }
            }
            unread.drain(..body);

            let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
            self.inside_most.fetch_max(inside, Ordering::SeqCst);
            self.begun.send_modify(|begun| *begun += 1);
            tokio::time::sleep(Duration::from_millis(2)).await;
            let mut answer = Vec::new();
            if head.contains("/large") {
                answer.extend_from_slice(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
                for _ in 0..20 {
                    answer.extend_from_slice(b"4000\r\n");
                    answer.extend_from_slice(&[b'x'; 0x4000]);
                    answer.extend_from_slice(b"\r\n");
                }
                answer.extend_from_slice(b"0\r\n\r\n");
            } else {
                answer.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
            }
            let (most, last) = answer.split_at(answer.len() - 1);
            let sent = stream.write_all(most).await.is_ok();
            self.inside.fetch_sub(1, Ordering::SeqCst);
            if !sent || stream.write_all(last).await.is_err() {
                return;
            }
        }
    }
}

/// One visit that ends wherever chance will have it.
async fn visit(address: SocketAddr, rng: &mut Rng, begun: &mut watch::Receiver<u64>) {
    let mut stream = within(TcpStream::connect(address)).await.unwrap();
    let path = if rng.below(2) == 0 {
        "/small"
    } else {
        "/large"
    };
    let (method, body) = if rng.below(3) == 0 {
        ("POST", 100)
    } else {
        ("GET", 0)
    };
    let length = if body > 0 {
        "content-length: 100\r\n"
    } else {
        ""
    };
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nhost: shop\r\n{length}\r\n").into_bytes();
    request.resize(request.len() + body, b'b');

    let phase = rng.below(6);
    if phase == 0 {
        request.truncate(rng.below(request.len() as u64) as usize);
    }
    if stream.write_all(&request).await.is_err() {
        return;
    }
    match phase {
        // Gone at once, with or without half of the request sent.
        0 | 1 => {}
        // Gone somewhere on the way: while it waits, while it is inside, or when its answer comes.
        2 => {
            let leaves_at = *begun.borrow() + rng.below(BEGUN_MEANWHILE_MAX);
            tokio::select! {
                is_time = begun.wait_for(|begun| *begun >= leaves_at) => drop(is_time.unwrap()),
                answer = within(stream.readable()) => answer.unwrap(),
            }
        }
        // Gone inside the answer.
        3 | 4 => {
            let mut some = vec![0; 1 + rng.below(100_000) as usize];
            let _ = within(stream.read(&mut some)).await;
        }
        // Stays to the end.
        _ => {
            let end: &[u8] = if path == "/small" {
                b"\r\n\r\nok"
            } else {
                b"0\r\n\r\n"
            };
            let mut seen = Vec::new();
            let mut chunk = vec![0; 64 * 1024];
            while !seen.ends_with(end) && !seen.starts_with(b"HTTP/1.1 503") {
                let read = within(stream.read(&mut chunk)).await.unwrap();
                assert!(read > 0, "cut off after {} bytes", seen.len());
                seen.extend_from_slice(&chunk[..read]);
            }
        }
    }
}

async fn run(on_client_gone: OnClientGone, threads: usize) -> u32 {
    let shop = Arc::new(Shop {
        listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
        inside: AtomicU32::new(0),
        inside_most: AtomicU32::new(0),
        begun: watch::Sender::new(0),
    });
    let mut plan = plan_for(shop.listener.local_addr().unwrap(), WORKERS);
    plan.threads = threads.try_into().unwrap();
    plan.apps[0].on_client_gone = on_client_gone;
    // Room for every visitor: what is tested is how waits and slots end, not refusals.
    plan.apps[0].admission.queue_max = 100;
    let site = Site::start(plan);
    let serving = tokio::spawn(Arc::clone(&shop).serve());

    let visitors: Vec<_> = (0..VISITORS)
        .map(|seed| {
            let address = site.address;
            let mut begun = shop.begun.subscribe();
            tokio::spawn(async move {
                let mut rng = Rng::new(seed);
                for _ in 0..REQUESTS_EACH {
                    visit(address, &mut rng, &mut begun).await;
                }
            })
        })
        .collect();
    for visitor in visitors {
        visitor.await.unwrap();
    }

    site.settles_at(0, 0).await;
    crate::eventually(|| site.status().upstream_busy == 0).await;
    let status = site.status();
    assert_eq!(status.response_buffer_bytes, 0);
    let classes = || status.classes.values();
    let admitted: u64 = classes()
        .map(|class| class.admitted_at_once + class.admitted_waited)
        .sum();
    let arrivals: u64 = classes().map(|class| class.arrivals).sum();
    let completed: u64 = classes().flat_map(|class| class.completions.values()).sum();
    let refused: u64 = classes().flat_map(|class| class.refused.values()).sum();
    assert!(admitted > 300, "{status:?}");
    assert_eq!(completed, admitted, "every slot ends once: {status:?}");
    assert!(refused <= arrivals, "{status:?}");
    serving.abort();
    shop.inside_most.load(Ordering::SeqCst)
}

#[tokio::test]
async fn whenever_clients_leave_no_slot_is_lost_and_none_is_lent_twice() {
    let inside_most = run(OnClientGone::Hold, 1).await;

    assert!(
        inside_most <= WORKERS,
        "{inside_most} at once in {WORKERS} workers"
    );
}

#[tokio::test]
async fn no_slot_is_lost_between_threads_either() {
    let inside_most = run(OnClientGone::Hold, 2).await;

    assert!(
        inside_most <= WORKERS,
        "{inside_most} at once in {WORKERS} workers"
    );
}

#[tokio::test]
async fn no_slot_is_lost_when_they_are_freed_at_once() {
    run(OnClientGone::Free, 2).await;
}
