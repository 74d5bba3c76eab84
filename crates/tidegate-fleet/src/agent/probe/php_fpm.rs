//! PHP-FPM's status, asked for without a web server in between.
//!
//! Its `listen queue` is not used: over a Unix socket, which is what Debian sets up, it is always 0.

use serde_json::Value;
use tidegate_core::health::Dimension;
use tidegate_core::time::Mono;
use tokio::net::{TcpStream, UnixStream};

use super::fastcgi::ask;
use super::{ProbeError, without_asking};
use crate::agent::listeners::At;
use crate::agent::sight::{Blank, Sight};

/// Where PHP-FPM tells its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FpmStatus {
    /// Its listener, or better the one of `pm.status_listen`, which answers while all children are busy.
    pub at: At,
    /// As `pm.status_path` has it.
    pub path: String,
    /// Whether it is asked where its work comes in, so that the question keeps a child busy.
    pub by_the_front_door: bool,
}

/// Asks for the status.
pub(super) struct PhpFpm {
    status: FpmStatus,
    /// `pm.max_children`, which it tells nobody.
    children_max: Option<u32>,
}

impl PhpFpm {
    pub(super) const fn new(status: FpmStatus, children_max: Option<u32>) -> Self {
        Self {
            status,
            children_max,
        }
    }

    pub(super) async fn look(&self, now: Mono, sights: &mut Vec<Sight>) -> Result<(), ProbeError> {
        let FpmStatus { at, path, .. } = &self.status;
        let parameters = [
            ("SCRIPT_NAME", path.as_str()),
            ("SCRIPT_FILENAME", path.as_str()),
            ("REQUEST_URI", path.as_str()),
            ("REQUEST_METHOD", "GET"),
            ("QUERY_STRING", "json"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
        ];
        let output = match at {
            At::Tcp(address) => {
                let stream = TcpStream::connect(address).await;
                ask(&mut stream.map_err(ProbeError::Unreachable)?, &parameters).await?
            }
            At::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                ask(&mut stream.map_err(ProbeError::Unreachable)?, &parameters).await?
            }
        };
        let told = self.read(&output)?;
        sights.push(Sight::read(
            Dimension::Threads,
            told,
            "PHP-FPM's status",
            now,
        ));
        Ok(())
    }

    fn read(&self, output: &[u8]) -> Result<Result<(f64, f64), Blank>, ProbeError> {
        let unexpected = |what: &str| ProbeError::Unexpected(what.to_owned());
        let end = output.windows(4).position(|window| window == b"\r\n\r\n");
        let (head, body) = output.split_at(end.ok_or_else(|| unexpected("it has no head"))?);
        let head = String::from_utf8_lossy(head);
        let mut lines = head
            .lines()
            .filter_map(|line| line.strip_prefix("Status: "));
        if let Some(status) = lines
            .next()
            .and_then(|status| status.get(..3)?.parse().ok())
        {
            return Err(ProbeError::Status(status));
        }
        let status: Value = serde_json::from_slice(&body[4..])
            .map_err(|_| unexpected("it is no JSON: is this pm.status_path?"))?;
        let number = |name: &str| {
            status[name]
                .as_f64()
                .ok_or_else(|| unexpected(&format!("it has no {name}")))
        };
        let (active, total) = (number("active processes")?, number("total processes")?);
        let most = match (self.children_max, status["process manager"].as_str()) {
            (Some(most), _) => f64::from(most),
            (None, Some("static")) => total,
            (None, _) => {
                let why =
                    "it does not tell pm.max_children, unless pm is static: give it as --workers";
                return Ok(Err(Blank::unsupported(why)));
            }
        };
        // Who answers this is busy with it.
        let asking = if self.status.by_the_front_door {
            1.0
        } else {
            0.0
        };
        Ok(Ok((without_asking(active, asking), most)))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::health::Validity;

    use super::*;

    fn probe(children_max: Option<u32>, by_the_front_door: bool) -> PhpFpm {
        let status = FpmStatus {
            at: "unix:/run/fpm.sock".parse().unwrap(),
            path: "/status".to_owned(),
            by_the_front_door,
        };
        PhpFpm::new(status, children_max)
    }

    fn output(manager: &str) -> Vec<u8> {
        let body = format!(
            r#"{{"pool":"www","process manager":"{manager}","listen queue":0,"active processes":2,"total processes":2}}"#
        );
        format!("Content-type: application/json\r\n\r\n{body}").into_bytes()
    }

    #[test]
    fn children_that_it_may_have_are_given_unless_they_never_change() {
        let given = probe(Some(4), false).read(&output("ondemand")).unwrap();
        assert_eq!(given, Ok((2.0, 4.0)));

        let fixed = probe(None, true).read(&output("static")).unwrap();
        assert_eq!(fixed, Ok((1.0, 2.0)), "one of them answers the question");

        let blank = probe(None, false)
            .read(&output("dynamic"))
            .unwrap()
            .unwrap_err();
        assert_eq!(blank.validity, Validity::Unsupported);
        assert!(blank.why.contains("--workers"));
    }

    #[test]
    fn a_count_that_cannot_be_is_no_reading() {
        let now = Mono::from_millis(0);
        for active in ["1e20", "-2", "99999"] {
            let text = String::from_utf8(output("ondemand")).unwrap();
            let text = text.replace(
                "\"active processes\":2",
                &format!("\"active processes\":{active}"),
            );

            let figures = probe(Some(4), true).read(text.as_bytes()).unwrap();

            let sight = Sight::read(Dimension::Threads, figures, "x", now);
            assert_eq!(sight.signal.ratio(now), None, "{active}");
            assert!(sight.why.unwrap().starts_with("not believed: "), "{active}");
        }
    }

    #[test]
    fn a_path_that_is_no_status_is_said() {
        let missing =
            probe(None, false).read(b"Status: 404 Not Found\r\nX: y\r\n\r\nFile not found.\n");
        assert!(matches!(missing, Err(ProbeError::Status(404))));

        let page = probe(None, false).read(b"X: y\r\n\r\n<html>");
        assert!(page.unwrap_err().to_string().contains("pm.status_path"));
        assert!(probe(None, false).read(b"").is_err());
    }
}
