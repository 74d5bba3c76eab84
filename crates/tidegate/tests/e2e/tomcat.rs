//! A real application, Debian's Tomcat 10 with its examples: behind Tidegate every page is what it
//! is without.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::{Answer, ask, get};
use crate::process::{PATIENCE, TempDir, Tidegate};

const HOME: &str = "/usr/share/tomcat10";
const EXAMPLES: &str = "/usr/share/tomcat10-examples/examples";

/// Where the crawl of the examples begins.
const INDEXES: [&str; 3] = [
    "/examples/index.html",
    "/examples/servlets/index.html",
    "/examples/jsp/index.html",
];

/// Pages that differ from one request to the next by their nature, and those that never end or
/// need an upgrade of the protocol.
const NOT_COMPARED: [&str; 7] = [
    // Shuffles its tiles.
    "/examples/jsp/jsp2/jspattribute/shuffle.jsp",
    // Forwards to one of two pages, by how much of the JVM's memory is free at that moment.
    "/examples/jsp/forward/forward.jsp",
    // Streams, and long polls.
    "/examples/async/",
    "/examples/servlets/nonblocking/",
    "/examples/servlets/serverpush/",
    "/examples/jsp/async/",
    "/examples/websocket/",
];

/// Headers of a request that Tidegate adds or that are for one hop only; one page prints them all.
const HOP: [&str; 6] = [
    "connection",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "forwarded",
    "tidegate-timeout-ms",
];

/// A Tomcat with a base directory of its own.
pub(crate) struct Tomcat {
    process: Child,
    address: SocketAddr,
    _base: TempDir,
}

impl Tomcat {
    /// Tomcat with its examples.
    fn start() -> Self {
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let examples = format!(
            r#"<Context path="/examples" docBase="{EXAMPLES}"><Resources allowLinking="true"/></Context>"#
        );
        Self::start_with(address.port(), &examples)
    }

    /// Tomcat on `port` with what `contexts` says in its configuration.
    pub(crate) fn start_with(port: u16, contexts: &str) -> Self {
        assert!(
            Path::new(EXAMPLES).is_dir() && Path::new(HOME).join("skel/conf").is_dir(),
            "Debian's packages tomcat10-user and tomcat10-examples are missing; ./test installs them"
        );
        let base = TempDir::new();
        for folder in ["conf", "logs", "temp", "webapps", "work"] {
            fs::create_dir(base.path().join(folder)).unwrap();
        }
        for entry in fs::read_dir(Path::new(HOME).join("skel/conf")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(
                &path,
                base.path().join("conf").join(path.file_name().unwrap()),
            )
            .unwrap();
        }
        base.write("conf/server.xml", &server_xml(port, contexts));

        let process = Command::new(format!("{HOME}/bin/catalina.sh"))
            .arg("run")
            .env("CATALINA_HOME", HOME)
            .env("CATALINA_BASE", base.path())
            .env("JAVA_OPTS", "-Xmx256m")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut tomcat = Self {
            process,
            address: ([127, 0, 0, 1], port).into(),
            _base: base,
        };
        tomcat.wait_until_it_listens();
        tomcat
    }

    fn wait_until_it_listens(&mut self) {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            assert!(
                self.process.try_wait().unwrap().is_none(),
                "Tomcat ended at once"
            );
            assert!(begun.elapsed() < PATIENCE, "Tomcat does not listen");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

impl Drop for Tomcat {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn server_xml(port: u16, contexts: &str) -> String {
    format!(
        r#"<Server port="-1"><Service name="Catalina">
          <Connector port="{port}" address="127.0.0.1" protocol="HTTP/1.1"/>
          <Engine name="Catalina" defaultHost="localhost">
            <Host name="localhost" appBase="webapps" autoDeploy="false">
              {contexts}
            </Host>
          </Engine>
        </Service></Server>"#
    )
}

#[test]
fn every_page_of_tomcats_examples_is_the_same_behind_tidegate() {
    let (tomcat, directory) = (Tomcat::start(), TempDir::new());
    let configuration = format!(
        "[[app]]\nupstream = \"http://{}\"\nworkers = 50\nsession_cookies = [\"JSESSIONID\"]\n",
        tomcat.address
    );
    let tidegate = Tidegate::start(&directory, &configuration);
    let same = |method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]| {
        let direct = ask(tomcat.address, method, path, headers, body);
        let behind = ask(tidegate.clients, method, path, headers, body);
        assert_same(&direct, &behind, &format!("{method} {path}"));
        direct
    };

    let compared = crawl(|path| same("GET", path, &[], b""));
    assert!(compared > 100, "{compared} pages");

    let form = [("content-type", "application/x-www-form-urlencoded")];
    let parameters = "/examples/servlets/servlet/RequestParamExample";
    assert!(
        same(
            "POST",
            parameters,
            &form,
            b"firstname=Ada&lastname=L%C3%B6we"
        )
        .text()
        .contains("Ada")
    );
    same(
        "POST",
        "/examples/jsp/checkbox/checkresult.jsp",
        &form,
        b"fruit=apples&fruit=grapes",
    );
    same("HEAD", "/examples/servlets/index.html", &[], b"");
    same("OPTIONS", "/examples/servlets/index.html", &[], b"");
    same("GET", "/examples/no-such-page", &[], b"");
    same("GET", "/examples/servlets", &[], b"");
    assert_eq!(
        same(
            "GET",
            "/examples/servlets/index.html",
            &[("range", "bytes=10-99")],
            b""
        )
        .status,
        206
    );
    let tag = get(tomcat.address, "/examples/servlets/index.html");
    let known = [("if-none-match", tag.header("etag").unwrap())];
    assert_eq!(
        same("GET", "/examples/servlets/index.html", &known, b"").status,
        304
    );
}

#[test]
fn a_session_begun_behind_tidegate_is_the_same_session_direct() {
    let (tomcat, directory) = (Tomcat::start(), TempDir::new());
    let configuration = format!(
        "[[app]]\nupstream = \"http://{}\"\nworkers = 50\n",
        tomcat.address
    );
    let tidegate = Tidegate::start(&directory, &configuration);
    let page = "/examples/servlets/servlet/SessionExample";

    let begun = get(
        tidegate.clients,
        &format!("{page}?dataname=cart&datavalue=17+pieces"),
    );
    let cookie = begun
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let direct = ask(tomcat.address, "GET", page, &[("cookie", &cookie)], b"");
    let behind = ask(tidegate.clients, "GET", page, &[("cookie", &cookie)], b"");

    assert!(direct.text().contains("17 pieces"));
    assert!(behind.text().contains("17 pieces"));
    assert_eq!(behind.header("set-cookie"), None, "the session goes on");
}

/// Follows every link below `/examples/` and returns how many pages `visit` was shown.
fn crawl(mut visit: impl FnMut(&str) -> Answer) -> usize {
    let mut seen: BTreeSet<String> = INDEXES.map(str::to_owned).into();
    let mut ahead: Vec<String> = INDEXES.map(str::to_owned).into();
    let mut visited = 0;
    while let Some(path) = ahead.pop() {
        if NOT_COMPARED.iter().any(|prefix| path.starts_with(prefix)) {
            continue;
        }
        visited += 1;
        for link in links(&visit(&path).text()) {
            let target = resolve(&path, &link);
            if target.starts_with("/examples/") && seen.insert(target.clone()) {
                ahead.push(target);
            }
        }
    }
    visited
}

/// The targets of `href` in `page`, quoted or not, without fragment and session id.
fn links(page: &str) -> Vec<String> {
    let lower = page.to_ascii_lowercase();
    lower
        .match_indices("href=")
        .map(|(at, found)| {
            let rest = page[at + found.len()..].trim_start_matches('"');
            let end = rest
                .find(['"', ' ', '>', '#', ';', '\n'])
                .unwrap_or(rest.len());
            rest[..end].to_owned()
        })
        .collect()
}

/// `link` as seen from the page at `base`.
fn resolve(base: &str, link: &str) -> String {
    if link.starts_with('/') || link.contains(':') {
        return link.to_owned();
    }
    let page = base.split('?').next().unwrap();
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    let (path, query) = link.split_at(link.find('?').unwrap_or(link.len()));
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            _ => parts.push(part),
        }
    }
    parts.join("/") + query
}

fn assert_same(direct: &Answer, behind: &Answer, what: &str) {
    assert_eq!(direct.status, behind.status, "{what}");
    assert_eq!(mask(&direct.text()), mask(&behind.text()), "{what}");
    for name in [
        "content-type",
        "etag",
        "last-modified",
        "location",
        "content-range",
        "allow",
    ] {
        assert_eq!(direct.header(name), behind.header(name), "{name} of {what}");
    }
    assert_eq!(
        direct.header("set-cookie").map(mask),
        behind.header("set-cookie").map(mask),
        "set-cookie of {what}"
    );
}

/// The text without what differs from request to request: times of day, times in milliseconds,
/// session ids, and rows about headers of the hop.
fn mask(text: &str) -> String {
    let without_hop: String = text
        .split_inclusive("</tr>")
        .filter(|row| !HOP.iter().any(|name| row.contains(&format!("\n{name}\n"))))
        .collect();
    let mut masked = String::new();
    let mut run = String::new();
    for c in without_hop.chars().chain(std::iter::once('\n')) {
        if c.is_ascii_hexdigit() || c == ':' {
            run.push(c);
        } else {
            masked += mask_run(&run);
            masked.push(c);
            run.clear();
        }
    }
    masked
}

fn mask_run(run: &str) -> &str {
    let digits = run.chars().filter(char::is_ascii_digit).count();
    let is_time = run.matches(':').count() == 2 && digits >= 5;
    if is_time {
        "TIME"
    } else if run.len() == 32 {
        "SESSION"
    } else if run.len() == 13 && digits == 13 {
        "MILLISECONDS"
    } else {
        run
    }
}
