//! Lua scripts on a real Redis, at times of the drill's choice.
//!
//! What a script calls the present is an argument, and what it lets go by itself goes when the drill's time says so,
//! not the server's: hours pass in a moment. All else is the server's own.

use std::collections::BTreeMap;

use anyhow::Context as _;
use tidegate_core::rate::Tick;
use tidegate_lab::peers::{RedisServer, Reply, Wire};

use super::limit_script::{CLOCK, LIMIT};

/// A Redis without a time of its own.
pub(crate) struct Clockwork {
    wire: Wire,
    /// When what is there goes by itself.
    ends: BTreeMap<String, Tick>,
    expired: u64,
    _server: RedisServer,
}

/// A script that the server has.
#[derive(Clone)]
pub(crate) struct Script(String);

/// What came of a run.
pub(crate) struct Ran {
    /// The numbers of its reply.
    pub(crate) reply: Vec<i64>,
    /// How many keys it wrote or removed.
    pub(crate) writes: usize,
}

/// Around a script: its `now` is the last argument, and of what it writes the time to live is told, not given to the server.
const BEFORE: &str = "
local server, kept, names = redis, {}, {}
local function keep(name, ms)
  if not kept[name] then names[#names + 1] = name end
  kept[name] = ms
end
local redis = { call = function(command, name, ...)
  if command == 'SET' then
    local value, px, ms = ...
    keep(name, px == 'PX' and tonumber(ms) or -1)
    return server.call('SET', name, value)
  end
  if command == 'EXPIRE' then return keep(name, tonumber((...)) * 1000) end
  if command == 'DEL' then keep(name, -2) end
  return server.call(command, name, ...)
end }
local function body(now)
";
const AFTER: &str = "
end
local reply, told = body(tonumber(ARGV[#ARGV])), {}
for i, name in ipairs(names) do told[2 * i - 1], told[2 * i] = name, kept[name] end
return { reply, told }
";

impl Clockwork {
    /// Starts a server.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let server = RedisServer::plain()?;
        Ok(Self {
            wire: server.wire()?,
            ends: BTreeMap::new(),
            expired: 0,
            _server: server,
        })
    }

    /// The script that limits are kept by.
    pub(crate) fn limit(&mut self) -> anyhow::Result<Script> {
        anyhow::ensure!(
            LIMIT.matches(CLOCK).count() == 1,
            "it looks at the clock once"
        );
        self.load(&LIMIT.replace(CLOCK, ""))
    }

    /// Any script; in it `now` is the time in microseconds.
    pub(crate) fn load(&mut self, body: &str) -> anyhow::Result<Script> {
        let whole = format!("{BEFORE}{body}{AFTER}");
        let reply = self.wire.ask(&["SCRIPT", "LOAD", &whole])?.granted()?;
        Ok(Script(reply.text().to_owned()))
    }

    /// Runs it at `now`. What should be gone by then is.
    pub(crate) fn run(
        &mut self,
        script: &Script,
        keys: &[String],
        arguments: &[String],
        now: Tick,
    ) -> anyhow::Result<Ran> {
        for key in keys {
            if self.ends.get(key).is_some_and(|ends| *ends <= now) {
                self.wire.ask(&["DEL", key])?.granted()?;
                self.ends.remove(key);
                self.expired += 1;
            }
        }
        self.look(script, keys, arguments, now)
    }

    /// The same, with nothing gone that is there now: for a look ahead.
    pub(crate) fn look(
        &mut self,
        script: &Script,
        keys: &[String],
        arguments: &[String],
        now: Tick,
    ) -> anyhow::Result<Ran> {
        let (count, time) = (keys.len().to_string(), now.0.to_string());
        let mut command = vec!["EVALSHA", script.0.as_str(), count.as_str()];
        command.extend(keys.iter().chain(arguments).map(String::as_str));
        command.push(&time);
        let said = self.wire.ask(&command)?.granted()?;
        let [reply, told] = said.parts() else {
            anyhow::bail!("a script said {said:?}");
        };
        let mut writes = 0;
        for pair in told.parts().chunks_exact(2) {
            let (name, ms) = (pair[0].text(), pair[1].int().context("a time to live")?);
            writes += 1;
            match u64::try_from(ms) {
                Ok(ms) => self.ends.insert(name.to_owned(), now.plus(ms * 1_000)),
                Err(_) => self.ends.remove(name),
            };
        }
        let number = |reply: &Reply| reply.int().context("a number");
        let reply = match reply {
            Reply::Array(parts) => parts.iter().map(number).collect::<Result<_, _>>()?,
            reply => vec![number(reply)?],
        };
        Ok(Ran { reply, writes })
    }

    /// How many keys have gone by themselves.
    pub(crate) const fn expired(&self) -> u64 {
        self.expired
    }
}
