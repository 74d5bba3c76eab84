//! Connections to a server that many visitors share.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_lab::load::Request;
use tidegate_lab::load::raw::{Answer, Client};
use tokio::time::timeout;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Kept connections to one server, each with one exchange at a time. They belong to the runtime that they were opened on.
pub(crate) struct Pool {
    target: SocketAddr,
    idle: Mutex<Vec<Client>>,
}

impl Pool {
    /// To `target`.
    pub(crate) fn to(target: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            target,
            idle: Mutex::default(),
        })
    }

    /// The answer to `request`, on a connection that is free or on a new one.
    pub(crate) async fn ask(&self, request: &Request) -> io::Result<Answer> {
        let asked = timeout(PATIENCE, self.exchange(request)).await;
        asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn exchange(&self, request: &Request) -> io::Result<Answer> {
        let mut client = loop {
            let idle = self.lock().pop();
            match idle {
                Some(client) if client.is_idle() => break client,
                // The server has closed it meanwhile.
                Some(_) => {}
                None => break Client::connect(self.target).await?,
            }
        };
        let answer = client.ask(request).await?;
        self.lock().push(client);
        Ok(answer)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
