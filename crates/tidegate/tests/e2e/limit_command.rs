//! `tidegate limit`: what is used of limits, who is refused, and a key that is reset.

use std::net::SocketAddr;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::backend::Backend;
use crate::client::{ask, get};
use crate::process::{TempDir, Tidegate, output, tidegate};

const LIMITS: &str = "\
    [[limit]]\nname = \"client\"\nrate = \"5/day\"\nkey = [\"client\"]\n\
    [[limit]]\nname = \"tenant\"\nrate = \"100/day\"\nburst = 20\nabsent = \"shared\"\ncost = 2\n\
    key = [{ constant = \"all\" }, { header = \"X-Tenant\" }, \"route\"]\n\
    [[limit]]\nname = \"watched\"\nrate = \"2/day\"\nshadow = true\nkey = []\n";

/// A gateway that believes this machine, with these limits.
fn gateway(directory: &TempDir, backend: &Backend) -> Tidegate {
    let configuration = format!(
        "[trust]\nproxies = [\"127.0.0.0/8\"]\n\
         [[app]]\nname = \"shop\"\nupstream = \"http://{}\"\nworkers = 8\n\
         [[app.route]]\nname = \"all\"\npath = \"/\"\n{LIMITS}",
        backend.address
    );
    Tidegate::start(directory, &configuration)
}

/// The status of a request as `client` makes it for `tenant`.
fn from(tidegate: &Tidegate, client: &str, tenant: Option<&str>) -> u16 {
    let mut headers = vec![("x-forwarded-for", client)];
    headers.extend(tenant.map(|tenant| ("x-tenant", tenant)));
    ask(tidegate.clients, "GET", "/", &headers, b"").status
}

pub(crate) fn run(admin: SocketAddr, args: &[&str]) -> Output {
    let mut command = tidegate();
    command.arg("limit").args(args);
    command.args(["--admin", &admin.to_string()]);
    command.stdin(Stdio::null()).output().unwrap()
}

/// What is printed when it goes well.
pub(crate) fn said(tidegate: &Tidegate, args: &[&str]) -> String {
    let output = run(tidegate.admin, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn json(tidegate: &Tidegate, args: &[&str]) -> Value {
    let args = [args, &["--json"]].concat();
    serde_json::from_str(&said(tidegate, &args)).unwrap()
}

/// What is said when it does not.
pub(crate) fn refused(tidegate: &Tidegate, args: &[&str]) -> String {
    let output = run(tidegate.admin, args);
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_limit_says_what_is_used_of_a_key_and_forgets_it_when_told_to() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let tidegate = gateway(&directory, &backend);
    for _ in 0..6 {
        from(&tidegate, "203.0.113.7", Some("blue"));
    }
    assert_eq!(from(&tidegate, "203.0.113.7", Some("blue")), 429);

    let page = said(&tidegate, &["show", "client", "203.0.113.7"]);
    for line in [
        "allows     5/day by a bucket, 5 at once\n",
        "counts by  client\n",
        "keys       1 remembered, 0 forgotten for want of room\n",
        "used       5\n",
        "remaining  0\n",
        "passes     the next request in 4h ",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }
    let used = |args: &[&str]| json(&tidegate, args)["states"][0]["used"].clone();
    assert_eq!(used(&["show", "client", "203.0.113.8"]), 0);
    assert_eq!(used(&["show", "tenant", "blue", "all"]), 10);
    assert_eq!(used(&["show", "tenant", "-", "all"]), 0);

    // Nobody is there to be asked.
    let why = refused(&tidegate, &["reset", "client", "203.0.113.7"]);
    assert!(why.contains("--yes"), "{why}");
    assert_eq!(from(&tidegate, "203.0.113.7", None), 429);
    let done = said(&tidegate, &["reset", "client", "203.0.113.7", "--yes"]);
    assert_eq!(done, "client is reset for 203.0.113.7: 5 was used before\n");

    assert_eq!(from(&tidegate, "203.0.113.7", None), 200);
    assert_eq!(used(&["show", "client", "203.0.113.7"]), 1);
    assert_eq!(used(&["show", "tenant", "-", "all"]), 2);
    assert_eq!(used(&["show", "tenant", "blue", "all"]), 10);
}

#[test]
fn who_is_refused_most_and_who_spends_most_is_found_and_what_clients_send_is_shown_as_text() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let tidegate = gateway(&directory, &backend);
    for number in 0..40 {
        // Ever others, none of whom comes twice, ...
        from(&tidegate, &format!("198.51.100.{number}"), Some("other"));
        // ... and two that come too often.
        from(&tidegate, "203.0.113.7", Some("\u{9b}31mred"));
        if number % 2 == 0 {
            from(&tidegate, "203.0.113.8", Some("blue"));
        }
    }

    let top = json(&tidegate, &["top", "client"]);
    let refused = top["refused"].as_array().unwrap();
    assert_eq!(refused[0]["key"], serde_json::json!(["203.0.113.7"]));
    assert_eq!(
        (&refused[0]["count"], &refused[0]["over"]),
        (&35.into(), &0.into())
    );
    assert_eq!(
        (&refused[0]["used"], &refused[0]["remaining"]),
        (&5.into(), &0.into())
    );
    assert_eq!(refused[1]["key"], serde_json::json!(["203.0.113.8"]));
    assert_eq!(refused[1]["count"], 15);
    assert_eq!(refused.len(), 2);
    let spent = top["spent"].as_array().unwrap();
    assert_eq!(spent[0]["count"], 5);
    assert!(spent.len() <= 32, "{}", spent.len());

    let page = said(&tidegate, &["top", "tenant", "-n", "2"]);
    assert!(page.contains("refused most of tenant"), "{page}");
    assert!(page.contains("\\u{9b}31mred all"), "{page}");
    assert!(!page.contains('\u{9b}'), "{page}");
    // What is shown leads to the key again.
    let red = json(&tidegate, &["show", "tenant", "\\u{9b}31mred", "all"]);
    assert_ne!(red["states"][0]["used"], 0);
    assert_eq!(red["key"][0], "\u{9b}31mred");
    let bytes = json(&tidegate, &["show", "tenant", "a\\xff\\\\", "all"]);
    assert_eq!(bytes["key"][0], "a\\xff\\\\");
    let watched = json(&tidegate, &["top", "watched"]);
    assert_eq!(watched["refused"][0]["shadow"], true);
    assert_eq!(watched["refused"][0]["key"], serde_json::json!([]));
    // Nothing of it is a label.
    let metrics = get(tidegate.admin, "/metrics").text();
    assert!(!metrics.contains("203.0.113"), "{metrics}");
    assert!(!metrics.contains("blue"), "{metrics}");
}

#[test]
fn what_is_no_limit_and_no_key_is_told_why() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let tidegate = gateway(&directory, &backend);
    let why = |args: &[&str]| refused(&tidegate, args);

    assert!(why(&["show", "nothing"]).contains("there is no limit nothing"));
    assert!(why(&["top", "../status.json"]).contains("there is no limit"));
    let few = why(&["reset", "tenant", "blue", "--yes"]);
    assert!(
        few.contains("header x-tenant and route: give 2 of them, not 1"),
        "{few}"
    );
    let nobody = why(&["show", "client", "nobody"]);
    assert!(nobody.contains("is no address of a client"), "{nobody}");
    let size = why(&["show", "client", "203.0.113.0/24"]);
    assert!(size.contains("networks of /32"), "{size}");

    let long = "x".repeat(100_000);
    for (args, bound) in [
        (
            ["show", "tenant", &long, "all"],
            "part 1 of the key is too long: it has 100000 bytes, and 8192 are the most",
        ),
        (
            ["show", &long, "blue", "all"],
            "the limit's name and the key are too long",
        ),
    ] {
        let why = refused(&tidegate, &args);
        assert!(why.contains(bound), "{why}");
    }
    // As long as may be is found to be nobody, also where each byte is sent as three.
    let most = "\u{e9}".repeat(4_096);
    assert_eq!(
        json(&tidegate, &["show", "tenant", &most, "all"])["states"][0]["used"],
        0
    );

    for (part, why) in [
        ("a\\b", "a backslash stands for nothing here"),
        ("a\\…", "the beginning of a longer part"),
    ] {
        let said = refused(&tidegate, &["show", "tenant", part, "all"]);
        assert!(said.contains(why), "{said}");
    }

    let nowhere = output(&["limit", "top", "client"]);
    let errors = String::from_utf8_lossy(&nowhere.stderr);
    assert!(errors.contains("--config <FILE>"), "{errors}");
}

#[test]
fn limits_are_for_this_machine_and_not_for_its_browsers() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let tidegate = gateway(&directory, &backend);
    let status = |method, headers: &[(&str, &str)]| {
        ask(
            tidegate.admin,
            method,
            "/limits/client?key=203.0.113.7",
            headers,
            b"",
        )
        .status
    };

    // The host of these requests is a name, behind which there may be a page.
    assert_eq!(status("GET", &[]), 403);
    assert_eq!(status("DELETE", &[]), 403);
    assert_eq!(status("DELETE", &[("origin", "http://127.0.0.1")]), 403);
    assert_eq!(get(tidegate.admin, "/status.json").status, 200);
}
