//! `tidegate session`: through a running sidecar, and into the store where there is none.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;
use tidegate_lab::peers::RedisServer;

use crate::process::{PATIENCE, TempDir, Tidegate, output, tidegate};

/// A gateway with sessions, its configuration, and its sidecar's socket.
struct Site {
    directory: TempDir,
    socket: PathBuf,
    file: String,
}

impl Site {
    /// With `store` as the section [store].
    fn new(store: &str, sessions: &str) -> (Self, String) {
        let directory = TempDir::new();
        let socket = directory.path().join("sidecar.sock");
        let configuration = format!(
            "[[app]]\nupstream = \"http://127.0.0.1:9\"\n[store]\n{store}\npath = \"{}\"\n\
             [sessions]\n{sessions}\n[sidecar]\nlisten = \"unix:{}\"\n",
            directory.path().join("state").display(),
            socket.display()
        );
        let file = directory
            .write("site.toml", &configuration)
            .display()
            .to_string();
        let site = Self {
            directory,
            socket,
            file,
        };
        (site, configuration)
    }

    /// A session of `uid`.
    fn session_of(&self, uid: &str) -> String {
        let body = format!("{{\"uid\":\"{uid}\",\"tier\":\"gold\"}}");
        let made = ask(&self.socket, "POST", "/v1/sessions", &body);
        made["session"]
            .as_str()
            .unwrap_or_else(|| panic!("{made}"))
            .to_owned()
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut all = vec!["session"];
        all.extend_from_slice(args);
        all.extend_from_slice(&["-c", &self.file]);
        let mut command = tidegate();
        command.args(all).stdin(Stdio::null()).output().unwrap()
    }
}

/// Asks a sidecar.
fn ask(socket: &Path, method: &str, path: &str, body: &str) -> Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn failed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn sessions_are_shown_and_ended_through_the_sidecar() {
    let (site, configuration) = Site::new("", "");
    let _running = Tidegate::start(&site.directory, &configuration);
    let (first, second) = (site.session_of("ada"), site.session_of("ada"));
    let path = format!("/v1/sessions/{first}");
    let ops =
        r#"{"ops":[{"op":"set","name":"cart","value":[17]},{"op":"increment","name":"visits"}]}"#;
    ask(&site.socket, "PATCH", &path, ops);

    let shown = said(&site.run(&["show", &first]));
    assert!(shown.contains("user       ada, tier gold"), "{shown}");
    assert!(
        shown.contains("cart (json): [17]") && shown.contains("visits (counter): 1"),
        "{shown}"
    );
    let json: Value = serde_json::from_str(&said(&site.run(&["show", &first, "--json"]))).unwrap();
    assert_eq!(json["attributes"]["cart"]["value"][0], 17);
    let listed = said(&site.run(&["list", "ada"]));
    assert!(
        listed.contains(&first) && listed.contains(&second),
        "{listed}"
    );

    let unasked = failed(&site.run(&["destroy", &first]));
    assert!(unasked.contains("add --yes"), "{unasked}");
    assert!(
        said(&site.run(&["show", &first])).contains(&first),
        "nothing was ended"
    );
    assert!(said(&site.run(&["destroy", &first, "--yes"])).contains("is ended"));
    assert!(failed(&site.run(&["show", &first])).contains("ended on purpose (destroyed, 410)"));

    assert!(failed(&site.run(&["sign-out", "ada"])).contains("add --yes"));
    let signed_out = said(&site.run(&["sign-out", "ada", "--yes"]));
    assert!(
        signed_out.contains("user ada is signed out everywhere"),
        "{signed_out}"
    );
    failed(&site.run(&["show", &second]));
    assert_eq!(
        said(&site.run(&["list", "ada"])).trim(),
        "user ada has no session"
    );
}

#[test]
fn without_a_sidecar_the_store_itself_is_asked() {
    let redis = RedisServer::plain().unwrap();
    let keys = TempDir::new();
    let key = String::from_utf8(output(&["session", "key"]).stdout).unwrap();
    let key = keys.write("session.key", &key);
    let (site, configuration) = Site::new(
        &format!("url = \"redis://{}\"", redis.address()),
        &format!("key_file = \"{}\"", key.display()),
    );
    let running = Tidegate::start(&site.directory, &configuration);
    let session = site.session_of("ada");
    running.terminate();
    assert!(running.wait().success());

    let shown = said(&site.run(&["show", &session]));
    assert!(shown.contains("user       ada"), "{shown}");
    assert!(said(&site.run(&["destroy", &session, "--yes"])).contains("is ended"));
    failed(&site.run(&["show", &session]));
}

#[test]
fn what_cannot_be_asked_is_said() {
    let (site, _) = Site::new("", "");
    for (args, why) in [
        (&["show", "nobody"][..], "\"nobo…\" is no session"),
        (&["list", ""], "\"\" is no user"),
        (&["show", "abcd.ABCDEFGHIJKLMNOPQRSTUV"], "no_such_session"),
    ] {
        let said = failed(&site.run(args));
        assert!(said.contains(why), "{args:?}: {said}");
    }
    let session = "abcd.ABCDEFGHIJKLMNOPQRSTUV";
    for (address, why) in [
        (
            "unix:/nowhere/sidecar.sock",
            "no sidecar answers on unix:/nowhere/sidecar.sock",
        ),
        ("localhost", "is no sidecar"),
    ] {
        let said = failed(&output(&["session", "show", session, "--sidecar", address]));
        assert!(said.contains(why), "{said}");
    }
    let directory = TempDir::new();
    let plain = directory.write("plain.toml", "[[app]]\nupstream = \"http://127.0.0.1:9\"\n");
    let said = failed(&output(&[
        "session",
        "show",
        session,
        "-c",
        plain.to_str().unwrap(),
    ]));
    assert!(said.contains("has no section [sessions]"), "{said}");
}
