//! A Redis of the drill's own, and a look into it past everything that Tidegate does.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;

/// Keys looked at in one step of a scan.
const SCAN_STEP: usize = 500;
/// Longest wait for an answer to the drill's own questions.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A look into a Redis, over a connection of its own.
pub(crate) struct Store {
    connection: redis::Connection,
}

impl Store {
    /// Connects to the Redis at `address`.
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let client = redis::Client::open(format!("redis://{address}/"))?;
        let connection = client
            .get_connection_with_timeout(ANSWER_TIMEOUT)
            .with_context(|| format!("no Redis at {address}"))?;
        connection.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { connection })
    }

    /// Sends one command, given by its words.
    pub(crate) fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> anyhow::Result<T> {
        let mut command = redis::Cmd::new();
        command.arg(words);
        Ok(command.query(&mut self.connection)?)
    }

    /// Every key that `pattern` fits.
    pub(crate) fn keys(&mut self, pattern: &str) -> anyhow::Result<Vec<String>> {
        let mut keys = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let step = SCAN_STEP.to_string();
            let (next, page): (String, Vec<String>) =
                self.ask(&["SCAN", &cursor, "MATCH", pattern, "COUNT", &step])?;
            keys.extend(page);
            cursor = next;
            if cursor == "0" {
                // A key may come more than once.
                keys.sort_unstable();
                keys.dedup();
                return Ok(keys);
            }
        }
    }

    /// Makes everything that is stored about sessions older by `age`: what they say of themselves,
    /// the scores of indexes, and what is left of every key's time. To the gateways it is as if that
    /// time had passed, but for what they keep in memory.
    pub(crate) fn age(&mut self, age: Duration) -> anyhow::Result<()> {
        let millis = i64::try_from(age.as_millis())?;
        for key in self.keys("*")? {
            let left: i64 = self.ask(&["PTTL", &key])?;
            let kind: String = self.ask(&["TYPE", &key])?;
            match kind.as_str() {
                "hash" => self.age_hash(&key, millis)?,
                "zset" => self.age_scores(&key, millis)?,
                _ => {}
            }
            if left > millis {
                let left = (left - millis).to_string();
                self.ask::<()>(&["PEXPIRE", &key, &left])?;
            } else if left >= 0 {
                self.ask::<()>(&["DEL", &key])?;
            }
        }
        Ok(())
    }

    fn age_hash(&mut self, key: &str, millis: i64) -> anyhow::Result<()> {
        // Created, last used, deadline, end: times in ms. Other fields are no times, or identify.
        for field in ["_c", "_l", "_d", "_x"] {
            let time: Option<i64> = self.ask(&["HGET", key, field])?;
            if let Some(time) = time {
                let time = (time - millis).to_string();
                self.ask::<()>(&["HSET", key, field, &time])?;
            }
        }
        Ok(())
    }

    fn age_scores(&mut self, key: &str, millis: i64) -> anyhow::Result<()> {
        let members: Vec<(String, f64)> = self.ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"])?;
        for (member, score) in members {
            let score = format!("{:.0}", score - millis as f64);
            self.ask::<()>(&["ZADD", key, &score, &member])?;
        }
        Ok(())
    }
}
