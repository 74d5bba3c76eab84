//! One connection to an application.

use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::pool::Permit;
use super::stream::Stream;
use crate::body::Upload;
use crate::plan::UpstreamPlan;

/// What hyper reads ahead on one connection, and so the most that one frame of an answer holds.
/// Heads of answers must fit as well.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Fields in the head of an answer. Over 100 the engine takes them from the heap, which costs a tenth
/// of a microsecond for an answer.
const HEADERS_MAX: usize = 256;

/// A connection that carries one request at a time. Its task holds the permit, so that what counts
/// is open sockets and not the handles to them.
pub(crate) struct Connection {
    sender: SendRequest<Upload>,
    task: AbortHandle,
}

/// The answer to a request, or the request itself when none of it was sent.
pub(crate) type Sent = Result<Response<Incoming>, TrySendError<Request<Upload>>>;

impl Connection {
    /// Opens a connection.
    pub(crate) async fn open(plan: &UpstreamPlan, permit: Permit) -> std::io::Result<Self> {
        let stream = connect(&plan.host, plan.port).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = Builder::new()
            .max_buf_size(READ_BYTES_MAX)
            // The former lets a head pass that is a little over it and comes all at once.
            .max_header_size(READ_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .handshake::<_, Upload>(TokioIo::new(Stream(stream)))
            .await
            .map_err(std::io::Error::other)?;
        let task = tokio::spawn(async move {
            // How it ended is told to whoever waits for an answer on it; nobody else cares.
            let _ = connection.await;
            drop(permit);
        });
        Ok(Self {
            sender,
            task: task.abort_handle(),
        })
    }

    /// Sends a request. Dropping the future before the answer's head is there closes the
    /// connection.
    pub(crate) fn send(
        &mut self,
        request: Request<Upload>,
    ) -> impl Future<Output = Sent> + Send + use<> {
        self.sender.try_send_request(request)
    }

    /// Whether the other side has closed it.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether it can take a request; an error when it never will.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.sender.poll_ready(context)
    }

    /// Closes it at once, whatever it is doing.
    pub(crate) fn close(self) {
        self.task.abort();
    }
}

async fn connect(host: &str, port: u16) -> std::io::Result<TcpStream> {
    if let Ok(address) = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>()
    {
        return TcpStream::connect(SocketAddr::new(address, port)).await;
    }
    // Looked up for every connection: a name that moves is followed, and connections are few.
    TcpStream::connect((host, port)).await
}
