//! Somebody with a browser.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::client::ask;

/// A visitor and their cookies.
#[derive(Clone)]
pub(super) struct Visitor {
    clients: SocketAddr,
    cookies: BTreeMap<String, String>,
}

impl Visitor {
    pub(super) const fn new(clients: SocketAddr) -> Self {
        Self {
            clients,
            cookies: BTreeMap::new(),
        }
    }

    pub(super) fn get(&mut self, path: &str) -> String {
        self.ask("GET", path, "", "")
    }

    pub(super) fn post(&mut self, path: &str, form: &str) -> String {
        self.ask("POST", path, "application/x-www-form-urlencoded", form)
    }

    pub(super) fn put(&mut self, path: &str, text: &str) -> String {
        self.ask("PUT", path, "text/plain", text)
    }

    pub(super) fn has_session(&self) -> bool {
        self.cookies.contains_key("tg")
    }

    /// The text of the answer, which must be a good one, without its last line's end.
    fn ask(&mut self, method: &str, path: &str, kind: &str, body: &str) -> String {
        let cookies: Vec<String> = (self.cookies.iter())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let cookies = cookies.join("; ");
        let mut headers = vec![("content-type", kind), ("cookie", cookies.as_str())];
        headers.retain(|(_, value)| !value.is_empty());
        let answer = ask(self.clients, method, path, &headers, body.as_bytes());
        assert_eq!(answer.status, 200, "{method} {path}: {answer:?}");
        for (_, line) in answer
            .headers
            .iter()
            .filter(|(name, _)| name == "set-cookie")
        {
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            if line.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        let commands = answer
            .headers
            .iter()
            .find(|(name, _)| name.starts_with("tidegate-"));
        assert_eq!(
            commands, None,
            "no client sees what the application commands"
        );
        answer.text().trim_end_matches(['\r', '\n', ' ']).to_owned()
    }
}
