//! What an agent looks at beside what the gateway knows by itself: `[agent]`.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tidegate_fleet::agent::{At, Budgets, Roots, Runtime, Terms};

use super::fleet;
use super::keys::agent::AGENT;
use super::problem::Problems;
use super::section::Section;
use crate::agent::Look;

/// What an agent looks at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AgentSetup {
    /// The application and its machine.
    pub(crate) look: Look,
    /// The time that 99 % of requests should take at most; without it latency is not judged.
    pub(crate) latency_budget: Option<Duration>,
}

/// The section `[agent]` of `root`, if there is one.
pub(crate) fn agent(root: &Section<'_>, problems: &Problems) -> Option<AgentSetup> {
    let node = root.node("agent")?;
    let section = Section::new("[agent]", node, AGENT, &[], problems);
    if !fleet::is_in(root) {
        section.refuse(
            "runtime",
            "nobody is told what `[agent]` sees: this gateway is no node of a fleet",
            "add a section [fleet]; without servers in [store] that is a fleet of this node alone",
        );
    }
    let runtime = section.choice("runtime").and_then(Runtime::named);
    let milliseconds = |key| section.span(key).as_secs_f64() * 1e3;
    let look = Look {
        runtime: runtime.unwrap_or_default(),
        listen: listeners(&section),
        url: parsed(&section, "url", "http://127.0.0.1:8081/manager"),
        metrics: parsed(&section, "metrics", "http://127.0.0.1:9404/metrics"),
        user: section.text_if_set("user").map(str::to_owned),
        password_file: section.text_if_set("password_file").map(PathBuf::from),
        token_file: section.text_if_set("token_file").map(PathBuf::from),
        status: parsed(&section, "status", "unix:/run/php/status.sock"),
        status_path: section.text("status_path").to_owned(),
        statsd: parsed(&section, "statsd", "127.0.0.1:8125"),
        pid: section.count_if_set("pid"),
        roots: Roots {
            proc: PathBuf::from(section.text("proc_root")),
            sys: PathBuf::from(section.text("sys_root")),
        },
        terms: Terms {
            workers: section.count_if_set("workers"),
            budgets: Budgets {
                pool_wait_ms: milliseconds("pool_wait_budget"),
                gc_share: (section.share_if_set("gc_budget"))
                    .unwrap_or_else(|| Budgets::default().gc_share),
                lag_ms: milliseconds("lag_budget"),
            },
            timeout: section.span("timeout"),
        },
    };
    for (key, why) in look.idle() {
        section.refuse(
            key,
            format!("`{key}` {why}"),
            "remove it, or set what it is for",
        );
    }
    if section.has("status_path") && look.runtime != Runtime::PhpFpm {
        section.refuse(
            "status_path",
            format!(
                "`status_path` says nothing about {}: it is for php-fpm",
                look.runtime.name()
            ),
            "remove it, or set what it is for",
        );
    }
    for (key, other) in [("user", "password_file"), ("password_file", "user")] {
        if section.has(key) && !section.has(other) {
            section.refuse(
                key,
                format!("`{key}` has no effect without `{other}`"),
                format!("set {other}, or remove it"),
            );
        }
    }
    Some(AgentSetup {
        look,
        latency_budget: section.span_if_set("latency_budget"),
    })
}

fn listeners(section: &Section<'_>) -> Vec<At> {
    let texts = section.texts("listen").into_iter();
    texts
        .filter_map(|(text, place)| {
            let at = text.parse::<At>();
            if let Err(error) = &at {
                section.refuse_item(
                    "listen",
                    place,
                    format!("`{text}` is no place to listen at: {error}"),
                    "write \"127.0.0.1:8081\" or \"unix:/run/app.sock\", say",
                );
            }
            at.ok()
        })
        .collect()
}

fn parsed<T>(section: &Section<'_>, key: &'static str, example: &str) -> Option<T>
where
    T: FromStr<Err: Display>,
{
    let text = section.text_if_set(key)?;
    match text.parse() {
        Ok(it) => Some(it),
        Err(error) => {
            section.refuse(
                key,
                format!("`{key} = \"{text}\"` cannot be: {error}"),
                format!("write {key} = \"{example}\", say"),
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MINIMAL, errors, setup};
    use super::*;

    #[test]
    fn an_agent_looks_at_what_is_written() {
        let written = "[fleet]\n[agent]\nruntime = \"tomcat\"\nlisten = [\"127.0.0.1:8081\", \"unix:/run/a.sock\"]\n\
                       url = \"http://127.0.0.1:8082/manager\"\nuser = \"probe\"\npassword_file = \"/etc/p\"\n\
                       proc_root = \"/host/proc\"\nlatency_budget = \"300ms\"\npool_wait_budget = \"50ms\"\ngc_budget = 0.2\n";
        let agent = setup(&format!("{MINIMAL}{written}")).agent.unwrap();

        assert_eq!(agent.latency_budget, Some(Duration::from_millis(300)));
        assert_eq!(agent.look.runtime, Runtime::Tomcat);
        assert_eq!(agent.look.listen.len(), 2);
        assert_eq!(agent.look.roots.proc, PathBuf::from("/host/proc"));
        assert_eq!(agent.look.roots.sys, Roots::default().sys);
        assert_eq!(agent.look.terms.budgets.pool_wait_ms, 50.0);
        assert_eq!(agent.look.terms.budgets.gc_share, 0.2);
        assert_eq!(agent.look.terms.timeout, Duration::from_millis(500));
        assert_eq!(setup(MINIMAL).agent, None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (section, why) in [
            ("[agent]\n", "no node of a fleet"),
            ("[fleet]\n[agent]\nruntime = \"jetty\"\n", "runtime"),
            (
                "[fleet]\n[agent]\nlisten = [\"x\"]\n",
                "no place to listen at",
            ),
            (
                "[fleet]\n[agent]\nruntime = \"puma\"\nurl = \"ftp://x\"\n",
                "cannot be",
            ),
            (
                "[fleet]\n[agent]\nstatsd = \"127.0.0.1:8125\"\n",
                "it is for gunicorn",
            ),
            (
                "[fleet]\n[agent]\nurl = \"http://127.0.0.1/\"\n",
                "says nothing about generic-listener",
            ),
            (
                "[fleet]\n[agent]\nruntime = \"tomcat\"\nworkers = 8\n",
                "it is for php-fpm, gunicorn, puma and apache-prefork",
            ),
            (
                "[fleet]\n[agent]\nruntime = \"puma\"\nstatus_path = \"/s\"\n",
                "it is for php-fpm",
            ),
            (
                "[fleet]\n[agent]\nruntime = \"puma\"\ntoken_file = \"/t\"\n",
                "without `url`",
            ),
            (
                "[fleet]\n[agent]\nruntime = \"tomcat\"\nurl = \"http://127.0.0.1/manager\"\nuser = \"a\"\n",
                "without `password_file`",
            ),
        ] {
            let errors = errors(&format!("{MINIMAL}{section}"));
            assert_eq!(errors.len(), 1, "{section}: {errors:#?}");
            assert!(errors[0].1.contains(why), "{section}: {errors:#?}");
        }
    }
}
