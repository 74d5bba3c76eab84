//! One connection to one server.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, PushInfo, RedisConnectionInfo, Value,
};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::plan::{Address, Credentials, RedisPlan};

/// Most operations that wait to be written to a connection. The caps of the lanes are below it, so
/// that nobody ever waits for room here.
const BUFFERED_MAX: usize = 4_096;

/// How servers are greeted.
#[derive(Clone)]
pub(super) struct Greeting {
    info: RedisConnectionInfo,
}

/// A connection. Dropping the last reference closes it, whatever is still under way on it.
pub(super) struct Link {
    connection: MultiplexedConnection,
    driver: AbortHandle,
    address: Address,
    identity: Identity,
}

/// What tells one life of a primary from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// Drawn whenever the server starts.
    pub(super) run: String,
    /// Drawn whenever a server becomes primary, and at a start.
    pub(super) replication: String,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DialError {
    /// It was not there in time.
    #[error("no connection in time")]
    Timeout,
    /// It could not be made, or broke.
    #[error("{0}")]
    Broken(String),
    /// The server there is no primary.
    #[error("it is a {0}")]
    NotPrimary(String),
}

impl Greeting {
    /// How a server of `plan` is greeted.
    pub(super) fn of(plan: &RedisPlan) -> Self {
        let database = match plan.arrangement {
            super::plan::Arrangement::Cluster(_) => 0,
            _ => i64::from(plan.database),
        };
        Self::with(&plan.credentials, database)
    }

    /// How a Sentinel is greeted.
    pub(super) fn sentinel(credentials: &Credentials) -> Self {
        Self::with(credentials, 0)
    }

    fn with(credentials: &Credentials, database: i64) -> Self {
        let mut info = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP2)
            .set_db(database)
            // A command that Redis 7.0 does not have.
            .set_skip_set_lib_name();
        if let Some(user) = &credentials.user {
            info = info.set_username(user);
        }
        if let Some(password) = &credentials.password {
            info = info.set_password(password);
        }
        Self { info }
    }
}

impl Link {
    /// Connects to the primary at `address` within `within`. To be called on the runtime that is to
    /// drive the connection.
    pub(super) async fn dial(
        address: &Address,
        greeting: &Greeting,
        within: Duration,
    ) -> Result<Self, DialError> {
        let dialling = async {
            let mut link = Self::open(address, greeting, config()).await?;
            link.identity = link.identify().await?;
            Ok(link)
        };
        timeout(within, dialling)
            .await
            .unwrap_or(Err(DialError::Timeout))
    }

    /// Connects to whatever is at `address` within `within`.
    pub(super) async fn dial_any(
        address: &Address,
        greeting: &Greeting,
        within: Duration,
    ) -> Result<Self, DialError> {
        timeout(within, Self::open(address, greeting, config()))
            .await
            .unwrap_or(Err(DialError::Timeout))
    }

    /// Connects to whatever is at `address` within `within` and calls `on_news` whenever something is
    /// published on `channel`, and when the connection ends.
    pub(super) async fn listen(
        address: &Address,
        greeting: &Greeting,
        within: Duration,
        channel: &str,
        on_news: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, DialError> {
        // Only this protocol has news and answers on one connection.
        let greeting = Greeting {
            info: greeting.info.clone().set_protocol(ProtocolVersion::RESP3),
        };
        let config = config().set_push_sender(move |_: PushInfo| -> Result<(), Infallible> {
            on_news();
            Ok(())
        });
        let listening = async {
            let link = Self::open(address, &greeting, config).await?;
            let mut connection = link.connection.clone();
            let subscribed = connection.subscribe(channel).await;
            subscribed.map_err(|error| DialError::Broken(error.to_string()))?;
            Ok(link)
        };
        timeout(within, listening)
            .await
            .unwrap_or(Err(DialError::Timeout))
    }

    /// The server.
    pub(super) const fn address(&self) -> &Address {
        &self.address
    }

    /// Which life of which server it is; empty unless it was dialled as a primary.
    pub(super) const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Sends a command. `Err` means that the connection is of no more use.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, String> {
        let mut connection = self.connection.clone();
        let sent = connection.send_packed_command(command).await;
        sent.map_err(|error| error.to_string())
    }

    /// Sends commands one behind the other. `Err` means that the connection is of no more use.
    pub(super) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, String> {
        let mut connection = self.connection.clone();
        let count = commands.len();
        let sent = connection.send_packed_commands(commands, 0, count).await;
        sent.map_err(|error| error.to_string())
    }

    /// Closes it: whatever is under way on it fails.
    pub(super) fn close(&self) {
        self.driver.abort();
    }

    async fn open(
        address: &Address,
        greeting: &Greeting,
        config: AsyncConnectionConfig,
    ) -> Result<Self, DialError> {
        let broken = |error: io::Error| DialError::Broken(error.to_string());
        let stream = TcpStream::connect((address.host.as_str(), address.port));
        let stream = stream.await.map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        let greeted = MultiplexedConnection::new_with_config(&greeting.info, stream, config).await;
        let (connection, driver) = greeted.map_err(|error| DialError::Broken(error.to_string()))?;
        Ok(Self {
            connection,
            driver: Handle::current().spawn(driver).abort_handle(),
            address: address.clone(),
            identity: Identity::default(),
        })
    }

    /// Which life of which server this is now.
    pub(super) async fn identify(&self) -> Result<Identity, DialError> {
        let mut ask = redis::pipe();
        ask.cmd("ROLE").cmd("INFO").arg("server");
        ask.cmd("INFO").arg("replication");
        let said = self.send_all(&ask).await.map_err(DialError::Broken)?;
        let [role, server, replication] = said.as_slice() else {
            return Err(DialError::Broken("no answer to ROLE".to_owned()));
        };
        match role_of(role) {
            Ok("master") => Ok(Identity {
                run: field(server, "run_id"),
                replication: field(replication, "master_replid"),
            }),
            Ok(role) => Err(DialError::NotPrimary(role.to_owned())),
            Err(said) => Err(DialError::Broken(said)),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Left to itself it would wait for answers, and a hung server gives none.
        self.close();
    }
}

fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        // Callers have deadlines of their own.
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(BUFFERED_MAX)
}

fn role_of(said: &Value) -> Result<&str, String> {
    let role = match said {
        Value::Array(parts) => parts.first(),
        // In its own words, such as NOAUTH.
        Value::ServerError(error) => {
            let details = error.details().unwrap_or_default();
            return Err(format!("{} {details}", error.code()));
        }
        _ => None,
    };
    role.and_then(text)
        .ok_or_else(|| format!("an odd answer to ROLE: {said:?}"))
}

/// The value of `name` in an answer to INFO.
pub(super) fn field(info: &Value, name: &str) -> String {
    let mut lines = text(info).unwrap_or_default().lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().to_owned()
}

/// The text that `value` is.
pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}
