//! The proxies of an HAProxy configuration, each with what it takes over from its defaults.

use std::collections::HashMap;

use tidegate_lab::text::shown;

use super::server::{At, Said, Server, ServerSettings, server, template};
use super::words::{LineError, Word, words};
use crate::lint_lb::finding::Unreadable;

/// What a configuration says of balancing.
#[derive(Debug, Default)]
pub(super) struct Config {
    pub(super) proxies: Vec<Proxy>,
    /// Where the section `global` begins, if the file has one.
    pub(super) global: Option<At>,
    /// There is a command line at which weights can be set.
    pub(super) has_admin_socket: bool,
}

/// A `backend` or `listen`.
#[derive(Debug)]
pub(super) struct Proxy {
    /// `backend NAME` or `listen NAME`.
    pub(super) title: String,
    pub(super) at: At,
    pub(super) settings: Settings,
    pub(super) servers: Vec<Server>,
}

/// What a proxy and its defaults say.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) is_http: bool,
    /// How a server is chosen, and by what.
    pub(super) balance: Option<Said<String>>,
    pub(super) hash_is_consistent: bool,
    pub(super) redispatches: bool,
    /// What is tried again, as words.
    pub(super) retry_on: Option<Vec<String>>,
    pub(super) server: ServerSettings,
}

/// Sections that say nothing of balancing.
const OTHERS: &[&str] = &[
    "acme",
    "cache",
    "crt-store",
    "fcgi-app",
    "http-errors",
    "log-forward",
    "log-profile",
    "mailers",
    "peers",
    "program",
    "resolvers",
    "ring",
    "traces",
    "userlist",
];

/// Sections of defaults with a name; more is no configuration.
const DEFAULTS_MAX: usize = 10_000;

/// What is being read.
enum Section {
    None,
    Global,
    Defaults {
        name: String,
        settings: Box<Settings>,
    },
    Proxy(Box<Proxy>),
    Other,
}

struct Reading {
    config: Config,
    section: Section,
    /// Those that have a name.
    defaults: HashMap<String, Settings>,
    /// The last ones, with a name or without.
    latest: Settings,
}

/// Reads `text`.
pub(super) fn read(text: &str) -> Result<Config, Unreadable> {
    let mut reading = Reading {
        config: Config::default(),
        section: Section::None,
        defaults: HashMap::new(),
        latest: Settings::default(),
    };
    for (line, text) in (1..).zip(text.lines()) {
        let words = words(text).map_err(|error| unreadable(line, error))?;
        if let Some(first) = words.first() {
            reading.line(line, first, &words)?;
        }
    }
    let is_none = matches!(reading.section, Section::None);
    reading.close();
    if is_none {
        return Err(Unreadable::whole(
            "no section of HAProxy's is in it, such as `backend`",
        ));
    }
    Ok(reading.config)
}

fn unreadable(line: usize, error: LineError) -> Unreadable {
    match error {
        LineError::Quote(column) => {
            Unreadable::at(line, column, "the quote that begins here never ends")
        }
        LineError::Continued(column) => Unreadable::at(
            line,
            column,
            "HAProxy has no lines that go on in the next one: write it all in one line",
        ),
        LineError::Words => Unreadable::at(line, 1, "no line of HAProxy's has so many words"),
    }
}

impl Reading {
    fn line(&mut self, line: usize, first: &Word, words: &[Word]) -> Result<(), Unreadable> {
        let at = At {
            line,
            column: first.column,
        };
        let name = words.get(1).map_or("", |word| word.text.as_str());
        match first.text.as_str() {
            "global" => {
                self.begin(Section::Global);
                self.config.global.get_or_insert(at);
            }
            "defaults" => {
                self.begin(Section::None);
                if self.defaults.len() == DEFAULTS_MAX {
                    let what = "no file has so many sections of defaults with names";
                    return Err(Unreadable::at(line, at.column, what));
                }
                let name = if name == "from" { "" } else { name };
                self.section = Section::Defaults {
                    name: name.to_owned(),
                    settings: Box::new(self.inherited(words, Settings::default())),
                };
            }
            kind @ ("backend" | "listen") => {
                self.begin(Section::None);
                self.section = Section::Proxy(Box::new(Proxy {
                    title: format!("{kind} {}", shown(name)),
                    at,
                    settings: self.inherited(words, self.latest.clone()),
                    servers: Vec::new(),
                }));
            }
            "frontend" => self.begin(Section::Other),
            other if OTHERS.contains(&other) => self.begin(Section::Other),
            // Conditions and messages while reading: both branches are looked at.
            other if other.starts_with('.') => {}
            _ => self.keyword(line, words)?,
        }
        Ok(())
    }

    /// The settings of `from NAME`, or else `otherwise`.
    fn inherited(&self, words: &[Word], otherwise: Settings) -> Settings {
        let from = words.iter().skip(1).position(|word| word.text == "from");
        let from = from.and_then(|at| words.get(at + 2));
        let found = from.and_then(|from| self.defaults.get(&from.text));
        found.cloned().unwrap_or(otherwise)
    }

    fn begin(&mut self, section: Section) {
        self.close();
        self.section = section;
    }

    fn close(&mut self) {
        match std::mem::replace(&mut self.section, Section::None) {
            Section::Defaults { name, settings } => {
                self.latest = (*settings).clone();
                if !name.is_empty() {
                    self.defaults.insert(name, *settings);
                }
            }
            Section::Proxy(proxy) => self.config.proxies.push(*proxy),
            Section::None | Section::Global | Section::Other => {}
        }
    }

    fn keyword(&mut self, line: usize, words: &[Word]) -> Result<(), Unreadable> {
        match &mut self.section {
            Section::None => {
                let what = format!("`{}` stands before any section", shown(&words[0].text));
                return Err(Unreadable::at(line, words[0].column, &what));
            }
            Section::Global => {
                let is = |at: usize, text: &str| words.get(at).is_some_and(|it| it.text == text);
                let admin = words.windows(2);
                let mut admin = admin.filter(|pair| pair[0].text == "level");
                if is(0, "stats") && is(1, "socket") {
                    self.config.has_admin_socket |= admin.any(|pair| pair[1].text == "admin");
                }
            }
            Section::Defaults { settings, .. } => settings.take(line, words),
            Section::Proxy(proxy) => match words[0].text.as_str() {
                "server" => proxy
                    .servers
                    .extend(server(words, line, &proxy.settings.server)),
                "server-template" => {
                    proxy
                        .servers
                        .extend(template(words, line, &proxy.settings.server))
                }
                _ => proxy.settings.take(line, words),
            },
            Section::Other => {}
        }
        Ok(())
    }
}

impl Settings {
    /// Takes over what a line says.
    fn take(&mut self, line: usize, words: &[Word]) {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        match texts[..] {
            ["mode", mode, ..] => self.is_http = mode == "http",
            ["balance", how, ..] => {
                self.balance = (!words[1].is_open).then(|| Said {
                    what: how.to_owned(),
                    at: At {
                        line,
                        column: words[1].column,
                    },
                });
            }
            ["hash-type", how, ..] => self.hash_is_consistent = how == "consistent",
            ["option", "redispatch", ..] => self.redispatches = true,
            ["no", "option", "redispatch", ..] => self.redispatches = false,
            ["retry-on", ..] => {
                self.retry_on = Some(texts[1..].iter().map(|&text| text.to_owned()).collect());
            }
            ["default-server", ..] => self.server.take(&words[1..], line),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::server::Weight;
    use super::*;

    #[test]
    fn a_proxy_takes_over_the_last_defaults_before_it() {
        let config = read(
            "defaults\n mode http\n option redispatch\n default-server check weight 50\n\
             backend a\n server x h:1\n\
             defaults\n mode tcp\n\
             listen b\n server y h:1\n",
        )
        .unwrap();

        let [a, b] = &config.proxies[..] else {
            panic!("two proxies");
        };
        assert_eq!((a.title.as_str(), a.at.line), ("backend a", 5));
        assert!(a.settings.is_http && a.settings.redispatches);
        assert!(a.servers[0].settings.check);
        assert!(!b.settings.is_http && !b.settings.redispatches);
        assert_eq!(b.servers[0].settings.weight, Weight::Unsaid);
    }

    #[test]
    fn defaults_with_names_are_taken_by_name() {
        let config = read(
            "defaults one\n mode http\n option redispatch\n\
             defaults two from one\n no option redispatch\n\
             backend a from one\n server x h:1\n\
             backend b from two\n server x h:1\n\
             backend c\n server x h:1\n",
        )
        .unwrap();

        let redispatches = config.proxies.iter().map(|it| it.settings.redispatches);
        assert_eq!(redispatches.collect::<Vec<_>>(), [true, false, false]);
        assert!(config.proxies.iter().all(|it| it.settings.is_http));
    }

    #[test]
    fn a_default_server_is_for_the_lines_below_it() {
        let config = read(
            "backend a\n server x h:1\n default-server check agent-check weight 30\n server y h:1 no-check\n",
        )
        .unwrap();

        let [x, y] = &config.proxies[0].servers[..] else {
            panic!("two servers");
        };
        assert!(!x.settings.check && !x.settings.agent);
        assert!(!y.settings.check && y.settings.agent);
    }

    #[test]
    fn a_command_line_for_weights_is_one_at_the_level_admin() {
        let has = |global: &str| read(global).unwrap().has_admin_socket;

        assert!(has(
            "global\n stats socket /run/h.sock mode 660 level admin\n"
        ));
        assert!(!has("global\n stats socket /run/h.sock level operator\n"));
        assert!(!has("global\n stats socket /run/h.sock\n"));
        assert!(!has("global\n log 127.0.0.1 level admin\n"));
    }

    #[test]
    fn what_haproxy_would_not_read_is_not_read() {
        for (text, line, column) in [
            ("backend a\n balance \\\n roundrobin\n", 2, 10),
            ("backend a\n server \"x h:1\n", 2, 9),
            ("server a h:1\n", 1, 1),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{text}");
        }
        assert!(read("").is_err());
        assert!(read("# only words\n").is_err());
    }

    #[test]
    fn other_sections_and_conditions_are_passed_over() {
        let config = read(
            "peers p\n server x h:1\nfrontend f\n bind :80\n.if defined(X)\nbackend a\n server x h:1\n.endif\n",
        )
        .unwrap();

        assert_eq!(config.proxies.len(), 1);
        assert_eq!(config.proxies[0].servers.len(), 1);
    }
}
