//! One HTTP question after the other over one connection, within bounds.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, LOCATION};
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::{BODY_BYTES_MAX, ProbeError};

/// Where an application is asked by HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// As it stands in `Host`.
    authority: String,
    /// Host and port to connect to.
    address: String,
    port: u16,
    /// Begins with a slash.
    path: String,
    query: Option<String>,
}

/// Why a text is no place to ask.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    /// Not even a URL.
    #[error("{0} is no URL: write http://127.0.0.1:8080/path")]
    NoUrl(String),
    /// It is to be asked over TLS.
    #[error(
        "{0}: only http is spoken here; ask the application on this machine, where it needs no TLS"
    )]
    Tls(String),
    /// Whoever may see the command line would see the password.
    #[error("a password does not belong into a URL: give it in a file")]
    Password,
}

/// Who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// As the application knows them.
    pub user: String,
    /// Theirs.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let no_url = || UrlError::NoUrl(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| no_url())?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(UrlError::Tls(text.to_owned())),
            _ => return Err(no_url()),
        }
        let authority = uri.authority().ok_or_else(no_url)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::Password);
        }
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self {
            authority: authority.to_string(),
            address: format!("{}:{port}", authority.host()),
            port,
            path: uri.path().to_owned(),
            query: uri.query().map(str::to_owned),
        })
    }
}

impl Url {
    /// The port that is asked.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The same with a parameter more.
    #[must_use]
    pub fn with_parameter(mut self, name: &str, value: &str) -> Self {
        let more = format!("{name}={}", in_query(value));
        self.query = Some(match self.query {
            Some(query) => format!("{query}&{more}"),
            None => more,
        });
        self
    }

    /// Its path, and its query where it has one.
    pub(super) fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    /// The place `path` below it.
    pub(super) fn below(&self, path: &str) -> String {
        format!("{}{path}", self.path.trim_end_matches('/'))
    }

    /// The same with `more` in its query.
    pub(super) fn with(&self, more: &str) -> String {
        match &self.query {
            Some(query) if query.split('&').any(|part| part == more) => self.target(),
            Some(query) => format!("{}?{query}&{more}", self.path),
            None => format!("{}?{more}", self.path),
        }
    }
}

/// Who asks, and where.
pub(super) struct Client {
    url: Url,
    authorization: Option<HeaderValue>,
}

/// A connection on which something is asked.
pub(super) struct Session<'a> {
    client: &'a Client,
    sender: SendRequest<Empty<Bytes>>,
    driver: JoinHandle<()>,
}

impl Client {
    pub(super) fn new(url: Url, login: Option<Login>) -> Self {
        let authorization = login.and_then(|Login { user, password }| {
            let credentials =
                base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
            let mut value = HeaderValue::try_from(format!("Basic {credentials}")).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Self { url, authorization }
    }

    pub(super) const fn url(&self) -> &Url {
        &self.url
    }

    pub(super) async fn connect(&self) -> Result<Session<'_>, ProbeError> {
        let stream = TcpStream::connect(&self.url.address)
            .await
            .map_err(ProbeError::Unreachable)?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| ProbeError::Broken(error.to_string()))?;
        let driver = tokio::spawn(async move {
            // What goes wrong is told to whoever has asked.
            let _ = connection.await;
        });
        Ok(Session {
            client: self,
            sender,
            driver,
        })
    }

    /// The one answer to the one question.
    pub(super) async fn get(&self, target: &str) -> Result<Bytes, ProbeError> {
        self.connect().await?.get(target).await
    }
}

impl Session<'_> {
    pub(super) async fn get(&mut self, target: &str) -> Result<Bytes, ProbeError> {
        let broken = |error: hyper::Error| ProbeError::Broken(error.to_string());
        self.sender.ready().await.map_err(broken)?;
        let mut request = Request::get(target).header(HOST, self.client.url.authority.as_str());
        if let Some(authorization) = &self.client.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::new());
        let request = request.map_err(|error| ProbeError::Unexpected(error.to_string()))?;
        let response = self.sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        if status.is_redirection() {
            let to = response
                .headers()
                .get(LOCATION)
                .and_then(|to| to.to_str().ok());
            return Err(ProbeError::Elsewhere(to.unwrap_or("nowhere").to_owned()));
        }
        if status != http::StatusCode::OK {
            return Err(ProbeError::Status(status.as_u16()));
        }
        let whole = Limited::new(response.into_body(), BODY_BYTES_MAX)
            .collect()
            .await;
        match whole {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(ProbeError::TooLong(BODY_BYTES_MAX))
            }
            Err(error) => Err(ProbeError::Broken(error.to_string())),
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Whoever does not end an answer would otherwise keep the connection.
        self.driver.abort();
    }
}

/// An answer as text.
pub(super) fn text(answer: &[u8]) -> Result<&str, ProbeError> {
    std::str::from_utf8(answer).map_err(|_| ProbeError::Unexpected("it is no text".to_owned()))
}

/// `text` so that it stands for itself in a query.
pub(super) fn in_query(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => {
                escaped.push(char::from(byte))
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use tidegate_lab::peers::free_port;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    /// Asks somebody who sends `answer` and says no more.
    async fn ask(answer: &'static [u8]) -> Result<Bytes, ProbeError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 1024];
            assert_ne!(stream.read(&mut head).await.unwrap(), 0);
            let _ = stream.write_all(answer).await;
            let _ = stream.read(&mut head).await;
        });
        let client = Client::new(url(&format!("http://{address}/m")), None);
        client.get("/m").await
    }

    #[tokio::test]
    async fn a_redirect_is_named_and_not_followed() {
        let answer =
            b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/x\r\nContent-Length: 0\r\n\r\n";

        let error = ask(answer).await.unwrap_err().to_string();

        assert!(error.contains("http://10.0.0.1/x"), "{error}");
    }

    #[tokio::test]
    async fn an_answer_without_end_is_given_up() {
        let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n".to_vec();
        answer.resize(answer.len() + BODY_BYTES_MAX + 1, b'x');

        let error = ask(answer.leak()).await.unwrap_err();

        assert!(
            matches!(error, ProbeError::TooLong(BODY_BYTES_MAX)),
            "{error}"
        );
    }

    #[tokio::test]
    async fn chunks_are_put_together_and_other_states_are_errors() {
        let whole = ask(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        )
        .await;
        assert_eq!(whole.unwrap(), "abc");

        let refused = ask(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n").await;
        assert!(matches!(refused, Err(ProbeError::Status(401))));

        let nobody = format!("http://127.0.0.1:{}/", free_port().unwrap());
        let nobody = Client::new(url(&nobody), None).get("/").await;
        assert!(matches!(nobody, Err(ProbeError::Unreachable(_))));
    }

    #[test]
    fn places_are_put_together_and_what_we_do_not_speak_is_said() {
        let manager = url("http://127.0.0.1:8081/manager/");
        assert_eq!(
            (manager.port(), manager.below("/status")),
            (8081, "/manager/status".to_owned())
        );
        assert_eq!(
            url("http://a/stats?token=x").with("y=1"),
            "/stats?token=x&y=1"
        );
        assert_eq!(
            url("http://a/server-status?auto").with("auto"),
            "/server-status?auto"
        );
        assert_eq!(url("http://a").target(), "/");

        assert!(matches!("https://a/".parse::<Url>(), Err(UrlError::Tls(_))));
        assert_eq!("http://u:p@a/".parse::<Url>(), Err(UrlError::Password));
        assert!("a:80".parse::<Url>().is_err());
        assert_eq!(in_query("a b,\"c\""), "a%20b%2C%22c%22");
    }

    #[test]
    fn a_password_is_not_printed() {
        let login = Login {
            user: "u".to_owned(),
            password: "secret".to_owned(),
        };

        assert!(!format!("{login:?}").contains("secret"));
    }
}
