//! What gunicorn sends to a statsd: how long each request took, when it is done.
//!
//! It has no page to ask for. How busy its workers are follows from what they did: the time of all requests that ended
//! between two looks, of the time that the workers had.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::health::Dimension;
use tidegate_core::time::Mono;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use crate::agent::sight::{Blank, Sight};

/// Bytes of a datagram; they are a few hundred.
const DATAGRAM_BYTES_MAX: usize = 8 * 1024;
/// Names may have a prefix of the operator's before these.
const DURATION: &str = "gunicorn.request.duration";
const WORKERS: &str = "gunicorn.workers";
const SOURCE: &str = "gunicorn's statsd";
/// No request takes longer than a day (ms).
const DURATION_MS_MAX: f64 = 86_400_000.0;
/// No gunicorn has more workers.
const WORKERS_MAX: f64 = 1_000_000.0;

/// Listens for what gunicorn sends. Dropping it ends that.
pub(super) struct Gunicorn {
    told: Arc<Mutex<Told>>,
    address: SocketAddr,
    /// As configured; else as gunicorn tells.
    workers: Option<u32>,
    last: Option<Mono>,
    listening: JoinHandle<()>,
}

/// What was told since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Told {
    busy_ms: f64,
    /// Of the last time it was told; it stays.
    workers: Option<f64>,
    datagrams: u64,
    /// A figure that cannot be, of those that were told.
    odd: Option<f64>,
}

impl Gunicorn {
    /// Listens at `address` in the background of the runtime this is called in.
    pub(super) fn listen(address: SocketAddr, workers: Option<u32>) -> io::Result<Self> {
        let socket = std::net::UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let socket = UdpSocket::from_std(socket)?;
        let told = Arc::new(Mutex::new(Told::default()));
        let heard = Arc::clone(&told);
        let listening = tokio::spawn(async move {
            let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
            // One socket, one buffer, three numbers: however much is sent, it takes no more room.
            while let Ok(length) = socket.recv(&mut datagram).await {
                lock(&heard).hear(&String::from_utf8_lossy(&datagram[..length]));
            }
        });
        Ok(Self {
            told,
            address,
            workers,
            last: None,
            listening,
        })
    }

    #[cfg(test)]
    const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn look(&mut self, now: Mono, sights: &mut Vec<Sight>) {
        let told = {
            let mut told = lock(&self.told);
            let workers = told.workers;
            std::mem::replace(
                &mut *told,
                Told {
                    workers,
                    ..Told::default()
                },
            )
        };
        let last = self.last.replace(now);
        let workers = self.workers.map(f64::from).or(told.workers);
        let read = match (last, workers) {
            (None, _) => Err(Blank::first_look()),
            (_, None) => Err(Blank::error(format!(
                "nothing was sent to {}: start gunicorn with --statsd-host {}, and give its workers",
                self.address, self.address
            ))),
            // Nothing sent may be nothing done, or everything stuck.
            (_, Some(_)) if told.datagrams == 0 => Err(Blank::unsupported(
                "no request has ended since the last look",
            )),
            (Some(last), Some(workers)) => {
                let since = now.since(last).as_secs_f64() * 1_000.0;
                // A request that took long counts all at once when it ends.
                let busy = (told.busy_ms / since.max(1.0)).min(workers);
                Ok((busy, workers))
            }
        };
        let read = match told.odd {
            Some(odd) => Err(Blank::error(format!("not believed: {odd:e}"))),
            None => read,
        };
        sights.push(Sight::read(Dimension::Threads, read, SOURCE, now));
    }
}

impl Drop for Gunicorn {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

fn lock(told: &Mutex<Told>) -> MutexGuard<'_, Told> {
    // Nothing panics while it is held; three numbers are whole in any case.
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Told {
    /// Lines of `name:value|kind`, perhaps with a rate and tags behind.
    fn hear(&mut self, datagram: &str) {
        for line in datagram.lines() {
            let Some((name, rest)) = line.split_once(':') else {
                continue;
            };
            let value = rest
                .split('|')
                .next()
                .and_then(|value| value.parse::<f64>().ok());
            let Some(value) = value else {
                continue;
            };
            let most = match name {
                name if name.ends_with(DURATION) => DURATION_MS_MAX,
                name if name.ends_with(WORKERS) => WORKERS_MAX,
                _ => continue,
            };
            if !(0.0..=most).contains(&value) {
                // What else was told since the last look does not mend it: nobody knows what it stands for.
                self.odd = Some(value);
            } else if name.ends_with(DURATION) {
                self.busy_ms += value;
                self.datagrams += 1;
            } else {
                self.workers = Some(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::health::Validity;
    use tidegate_lab::patience::until_so;

    use super::*;

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    fn look(gunicorn: &mut Gunicorn, now: Mono) -> Sight {
        let mut sights = Vec::new();
        gunicorn.look(now, &mut sights);
        sights.remove(0)
    }

    #[tokio::test]
    async fn a_figure_that_cannot_be_makes_the_look_none() {
        for line in [
            "gunicorn.request.duration:1e20|ms",
            "gunicorn.request.duration:-1|ms",
            "gunicorn.request.duration:NaN|ms",
            "gunicorn.workers:1e9|g",
        ] {
            let address = "127.0.0.1:0".parse().unwrap();
            let mut gunicorn = Gunicorn::listen(address, Some(2)).unwrap();
            look(&mut gunicorn, at(0));
            lock(&gunicorn.told).hear("gunicorn.request.duration:500|ms");
            lock(&gunicorn.told).hear(line);

            let odd = look(&mut gunicorn, at(1_000));
            lock(&gunicorn.told).hear("gunicorn.request.duration:500|ms");
            let mended = look(&mut gunicorn, at(2_000));

            assert_eq!(odd.signal.ratio(at(1_000)), None, "{line}");
            assert!(odd.why.unwrap().starts_with("not believed: "), "{line}");
            assert_eq!(mended.signal.ratio(at(2_000)), Some(0.25), "{line}");
        }
    }

    #[tokio::test]
    async fn workers_are_as_busy_as_their_requests_took_time() {
        let mut gunicorn = Gunicorn::listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        assert_eq!(
            look(&mut gunicorn, at(0)).signal.validity,
            Validity::Unsupported
        );
        let silent = look(&mut gunicorn, at(0));
        assert!(silent.why.unwrap().contains("--statsd-host"));

        for line in [
            "shop.gunicorn.workers:2|g|#a:b",
            "shop.gunicorn.request.duration:600|ms",
            "x",
            "y:z|c",
        ] {
            sender
                .send_to(line.as_bytes(), gunicorn.address())
                .await
                .unwrap();
        }
        sender
            .send_to(b"gunicorn.request.duration:400.0|ms\n", gunicorn.address())
            .await
            .unwrap();
        let told = Arc::clone(&gunicorn.told);
        until_so("both requests are told", || lock(&told).datagrams == 2).await;

        let half = look(&mut gunicorn, at(1_000));
        assert_eq!(half.signal.ratio(at(1_000)), Some(0.5));
        let quiet = look(&mut gunicorn, at(2_000));
        assert_eq!(
            quiet.signal.validity,
            Validity::Unsupported,
            "nothing ended: it is not idle for that"
        );
    }
}
