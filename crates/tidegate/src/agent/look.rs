//! What to look at, however it was said: by flags or in a configuration.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tidegate_fleet::agent::{
    ASKING_MAX, AgentPlan, Asking, At, FpmStatus, Login, Roots, Runtime, Terms, Url,
};

/// Bytes of a file with a password or a token.
const SECRET_BYTES_MAX: u64 = 4 * 1024;

/// An application and its machine, and how they are looked at. Names are those of flags and keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Look {
    pub(crate) runtime: Runtime,
    pub(crate) listen: Vec<At>,
    pub(crate) url: Option<Url>,
    pub(crate) metrics: Option<Url>,
    pub(crate) user: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) status: Option<At>,
    pub(crate) status_path: String,
    pub(crate) statsd: Option<SocketAddr>,
    pub(crate) pid: Option<u32>,
    pub(crate) roots: Roots,
    pub(crate) terms: Terms,
}

impl Look {
    /// What was said that has no effect: the key or flag, and why.
    pub(crate) fn idle(&self) -> Vec<(&'static str, String)> {
        let runtime = self.runtime;
        let mut idle = Vec::new();
        for (key, given, by) in [
            ("user", self.user.is_some(), Runtime::Tomcat),
            ("token_file", self.token_file.is_some(), Runtime::Puma),
            ("status", self.status.is_some(), Runtime::PhpFpm),
            ("statsd", self.statsd.is_some(), Runtime::Gunicorn),
        ] {
            if given && runtime != by {
                let why = format!(
                    "says nothing about {}: it is for {}",
                    runtime.name(),
                    by.name()
                );
                idle.push((key, why));
            }
        }
        for (key, given) in [
            ("user", self.user.is_some() && runtime == Runtime::Tomcat),
            (
                "token_file",
                self.token_file.is_some() && runtime == Runtime::Puma,
            ),
        ] {
            if given && self.url.is_none() {
                let why = format!(
                    "has no effect without `url`: {} is not asked",
                    runtime.name()
                );
                idle.push((key, why));
            }
        }
        if self.terms.workers.is_some() && !runtime.accepts_when_idle() {
            let why = format!(
                "says nothing about {}: it is for php-fpm, gunicorn, puma and apache-prefork",
                runtime.name()
            );
            idle.push(("workers", why));
        }
        let is_asked_otherwise = matches!(
            runtime,
            Runtime::PhpFpm | Runtime::Gunicorn | Runtime::GenericListener
        );
        if is_asked_otherwise && self.url.is_some() {
            let why = format!(
                "says nothing about {}; a page of metrics is given by `metrics`",
                runtime.name()
            );
            idle.push(("url", why));
        }
        idle
    }

    /// The key that is missing where the runtime could tell how it is and nobody asks it.
    pub(crate) const fn unasked(&self) -> Option<&'static str> {
        if self.metrics.is_some() {
            return None;
        }
        let (key, is_there) = match self.runtime {
            Runtime::GenericListener => return None,
            Runtime::PhpFpm => ("status", self.status.is_some() || !self.listen.is_empty()),
            Runtime::Gunicorn => ("statsd", self.statsd.is_some()),
            Runtime::Tomcat
            | Runtime::SpringBoot
            | Runtime::Puma
            | Runtime::ApachePrefork
            | Runtime::Node => ("url", self.url.is_some()),
        };
        if is_there { None } else { Some(key) }
    }

    /// The same for an agent, with what is in files.
    ///
    /// # Errors
    ///
    /// When a file with a password or a token cannot be read, or is none.
    pub(crate) fn plan(&self) -> anyhow::Result<AgentPlan> {
        let mut asking = Vec::new();
        asking.extend(self.asking()?);
        asking.extend(self.metrics.clone().map(Asking::Prometheus));
        debug_assert!(asking.len() <= ASKING_MAX, "one of each kind");
        Ok(AgentPlan {
            roots: self.roots.clone(),
            pid: self.pid,
            runtime: self.runtime,
            listen: self.listen.clone(),
            asking,
            terms: self.terms,
        })
    }

    /// How the runtime is asked, if what is needed for that was given.
    fn asking(&self) -> anyhow::Result<Option<Asking>> {
        let url = self.url.clone();
        Ok(match self.runtime {
            Runtime::Tomcat => match url {
                Some(url) => Some(Asking::Tomcat(url, self.login()?)),
                None => None,
            },
            Runtime::SpringBoot | Runtime::Node => url.map(Asking::Prometheus),
            Runtime::Puma => match url {
                Some(url) => Some(Asking::Puma(self.with_token(url)?)),
                None => None,
            },
            Runtime::ApachePrefork => url.map(Asking::Apache),
            Runtime::PhpFpm => self
                .status
                .as_ref()
                .or_else(|| self.listen.first())
                .map(|at| {
                    Asking::PhpFpm(FpmStatus {
                        at: at.clone(),
                        path: self.status_path.clone(),
                        by_the_front_door: self.listen.contains(at),
                    })
                }),
            Runtime::Gunicorn => self.statsd.map(Asking::Gunicorn),
            Runtime::GenericListener => None,
        })
    }

    fn login(&self) -> anyhow::Result<Option<Login>> {
        let Some((user, file)) = self.user.as_ref().zip(self.password_file.as_ref()) else {
            return Ok(None);
        };
        Ok(Some(Login {
            user: user.clone(),
            password: secret(file)?,
        }))
    }

    fn with_token(&self, url: Url) -> anyhow::Result<Url> {
        match &self.token_file {
            Some(file) => Ok(url.with_parameter("token", &secret(file)?)),
            None => Ok(url),
        }
    }
}

/// The first line of the file, read no further than a password may be long: a device has no end.
///
/// # Errors
///
/// When it cannot be read, is too long or is no text, or the line is empty.
pub(crate) fn secret(file: &Path) -> anyhow::Result<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(file)?;
        file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().with_context(|| format!("cannot read {}", file.display()))?;
    ensure!(
        bytes.len() as u64 <= SECRET_BYTES_MAX,
        "{} is no password: it has more than {SECRET_BYTES_MAX} bytes",
        file.display()
    );
    let text = String::from_utf8(bytes)
        .with_context(|| format!("{} is no password: it is no text", file.display()))?;
    let line = text.lines().next().unwrap_or_default();
    ensure!(
        !line.is_empty(),
        "the first line of {} is empty",
        file.display()
    );
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_no_password() {
        let refused = secret(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(refused.contains("more than 4096 bytes"), "{refused}");
        let nothing = secret(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(nothing.contains("is empty"), "{nothing}");
        let missing = secret(Path::new("/nope")).unwrap_err().to_string();
        assert!(missing.contains("cannot read /nope"), "{missing}");
    }

    #[test]
    fn a_runtime_that_nobody_asks_is_known_by_the_key_that_is_missing() {
        let of = |runtime| Look {
            runtime,
            ..Look::default()
        };
        for (runtime, key) in [
            (Runtime::Tomcat, Some("url")),
            (Runtime::SpringBoot, Some("url")),
            (Runtime::Node, Some("url")),
            (Runtime::Puma, Some("url")),
            (Runtime::ApachePrefork, Some("url")),
            (Runtime::PhpFpm, Some("status")),
            (Runtime::Gunicorn, Some("statsd")),
            (Runtime::GenericListener, None),
        ] {
            assert_eq!(of(runtime).unasked(), key, "{}", runtime.name());
        }
        let by_its_listener = Look {
            listen: vec!["127.0.0.1:9000".parse().unwrap()],
            ..of(Runtime::PhpFpm)
        };
        assert_eq!(by_its_listener.unasked(), None);
        let by_metrics = Look {
            metrics: Some("http://127.0.0.1:9404/metrics".parse().unwrap()),
            ..of(Runtime::Tomcat)
        };
        assert_eq!(by_metrics.unasked(), None);
    }
}
