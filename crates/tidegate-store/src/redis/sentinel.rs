//! Where the primary is, as Sentinels see it.
//!
//! They are listened to, asked once a second, and asked whenever calls fail. What one of them
//! publishes only makes all of them be asked: the answer with the highest configuration epoch counts,
//! so that one which was cut off does not lead back to a primary that is none any more.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::link::{Greeting, Link, text};
use super::plan::{Address, Credentials};
use super::shard::Shard;

/// How often Sentinels are asked while all is well.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// How often they are asked while the primary is away.
const URGENT_INTERVAL: Duration = Duration::from_millis(100);
/// The least time between two rounds, however often calls fail.
const REST: Duration = Duration::from_millis(20);
/// Longest wait for a Sentinel.
const TIMEOUT: Duration = Duration::from_millis(200);
/// Most Sentinels that are used.
const SENTINELS_MAX: usize = 16;
/// Where they publish that there is another primary.
const CHANNEL: &str = "+switch-master";

/// Follows the primary of one shard.
pub(super) struct Follower {
    shard: Arc<Shard>,
    name: String,
    greeting: Greeting,
    sentinels: Vec<Sentinel>,
    /// The highest epoch that was believed.
    epoch: u64,
}

struct Sentinel {
    address: Address,
    link: Option<Link>,
}

/// What a Sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Opinion {
    epoch: u64,
    primary: Address,
}

impl Follower {
    pub(super) fn new(
        shard: Arc<Shard>,
        sentinels: &[Address],
        name: &str,
        credentials: &Credentials,
    ) -> Self {
        let with = |address: &Address| Sentinel {
            address: address.clone(),
            link: None,
        };
        Self {
            shard,
            name: name.to_owned(),
            greeting: Greeting::sentinel(credentials),
            sentinels: sentinels.iter().take(SENTINELS_MAX).map(with).collect(),
            epoch: 0,
        }
    }

    /// Runs until it is aborted.
    pub(super) async fn run(mut self) {
        loop {
            self.ask_all().await;
            let interval = if self.shard.passes() {
                ASK_INTERVAL
            } else {
                URGENT_INTERVAL
            };
            let next = Instant::now() + interval;
            sleep(REST).await;
            tokio::select! {
                () = self.shard.common.look_again.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Asks all at once and believes the one that knows the latest.
    async fn ask_all(&mut self) {
        let mut asking = JoinSet::new();
        for sentinel in self.sentinels.drain(..) {
            let (name, greeting) = (self.name.clone(), self.greeting.clone());
            let shard = Arc::clone(&self.shard);
            asking.spawn(async move { sentinel.ask(&name, &greeting, &shard).await });
        }
        let mut latest: Option<Opinion> = None;
        for (sentinel, opinion) in asking.join_all().await {
            self.sentinels.push(sentinel);
            if opinion.as_ref().map(|it| it.epoch) > latest.as_ref().map(|it| it.epoch) {
                latest = opinion;
            }
        }
        if let Some(latest) = latest.filter(|latest| latest.epoch >= self.epoch) {
            self.epoch = latest.epoch;
            self.shard.point_to(&latest.primary);
        }
    }
}

impl Sentinel {
    async fn ask(
        mut self,
        name: &str,
        greeting: &Greeting,
        shard: &Arc<Shard>,
    ) -> (Self, Option<Opinion>) {
        if self.link.is_none() {
            let common = Arc::clone(&shard.common);
            let on_news = move || common.look_again.notify_one();
            let listening = Link::listen(&self.address, greeting, TIMEOUT, CHANNEL, on_news);
            match listening.await {
                Ok(link) => self.link = Some(link),
                Err(error) => {
                    tracing::debug!(sentinel = %self.address, %error, "cannot connect");
                    return (self, None);
                }
            }
        }
        let link = self.link.as_ref().expect("it was connected above");
        let mut master = redis::cmd("SENTINEL");
        master.arg("MASTER").arg(name);
        match timeout(TIMEOUT, link.send(&master)).await {
            Ok(Ok(said)) => {
                let opinion = opinion(&said);
                if opinion.is_none() {
                    tracing::warn!(sentinel = %self.address, ?said, "it knows no such primary");
                }
                (self, opinion)
            }
            Ok(Err(_)) | Err(_) => {
                self.link = None;
                (self, None)
            }
        }
    }
}

fn opinion(said: &Value) -> Option<Opinion> {
    let field = |name: &str| {
        let mut pairs: Box<dyn Iterator<Item = (&Value, &Value)>> = match said {
            Value::Map(pairs) => Box::new(pairs.iter().map(|(name, value)| (name, value))),
            Value::Array(parts) => Box::new(parts.chunks_exact(2).map(|pair| (&pair[0], &pair[1]))),
            _ => return None,
        };
        let (_, value) = pairs.find(|(field, _)| text(field) == Some(name))?;
        text(value)
    };
    Some(Opinion {
        epoch: field("config-epoch")?.parse().ok()?,
        primary: Address {
            host: field("ip")?.to_owned(),
            port: field("port")?.parse().ok()?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn an_opinion_reads_from_either_protocol() {
        let pairs = [
            ("name", "tide"),
            ("ip", "::1"),
            ("port", "6379"),
            ("config-epoch", "4"),
        ];
        let list = pairs
            .iter()
            .flat_map(|(name, value)| [bulk(name), bulk(value)]);
        let map = pairs.iter().map(|(name, value)| (bulk(name), bulk(value)));

        let from_list = opinion(&Value::Array(list.collect())).unwrap();

        assert_eq!(from_list.primary.to_string(), "[::1]:6379");
        assert_eq!(from_list.epoch, 4);
        assert_eq!(opinion(&Value::Map(map.collect())), Some(from_list));
        assert_eq!(opinion(&Value::Nil), None);
    }
}
