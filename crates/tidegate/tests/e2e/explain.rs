//! `tidegate explain`.

use crate::process::{TempDir, output};

const SHOP: &str = "[[app]]\nname = \"shop\"\nupstream = \"http://127.0.0.1:8000\"\n\
    [[app.route]]\nname = \"checkout\"\npath = \"/checkout/**\"\nmethods = [\"POST\"]\nclass = \"critical\"\n\
    session = \"required\"\nsession_fields = [\"cart\"]\n\
    dependency = [\"fraud\", \"mail\"]\n\
    [[dependency]]\nname = \"fraud\"\nconcurrency = 8\nrate = \"100/s\"\n\
    [[dependency]]\nname = \"mail\"\nconcurrency = 2\n\
    [[limit]]\nname = \"user\"\nrate = \"10/min\"\nkey = [\"session\", \"route\"]\nabsent = \"skip\"\nscope = \"fleet\"\n\
    [[limit.override]]\nname = \"tester\"\nkey = [\"anna\", \"checkout\"]\nrate = \"99/min\"\n\
    [store]\nurls = [\"redis://10.0.0.5\", \"redis://10.0.0.6\"]\nmode = \"cluster\"\n\
    [sessions]\nkey_file = \"/k\"\ntiers = { gold = \"critical\" }\n\
    [sessions.durability]\nsign-in = \"redo + wait(1, 50ms) fail\"\n";

fn explain(request: &str, more: &[&str]) -> Result<String, String> {
    let directory = TempDir::new();
    let file = directory.write("shop.toml", SHOP);
    let mut args = vec!["explain", file.to_str().unwrap(), request];
    args.extend_from_slice(more);
    let explained = output(&args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if explained.status.success() {
        Ok(text(explained.stdout))
    } else {
        Err(text(explained.stderr))
    }
}

#[test]
fn a_request_is_explained_down_to_what_its_writes_can_lose() {
    let page = explain("POST /checkout/pay", &[]).unwrap();

    for said in [
        "application  shop, at http://127.0.0.1:8000",
        "route        checkout, number 1 of 2",
        "class        critical, because the route says so",
        "session      required, by the cookie __Host-tg",
        "while the store is away: refused with 503 store_away",
        "store        the cluster of 10.0.0.5:6379 10.0.0.6:6379; waited for at most 8ms",
        "fields       cart (as tidegate-attr-cart)",
        "limits       user: 10/min with a burst of 10, for each user of a session and route (does not apply without); \
         once it is known whose session it is; over all gateways, lease, and without the store each goes on with its part",
        "tester: 99/min with a burst of 99, in place of user for anna checkout; once",
        "calls        fraud: one of its 8 calls at once and 100/s with a burst of 100, for as long as",
        "\n             mail: one of its 2 calls at once, for as long as the request is inside; 503 dependency_full",
        "  sign-in: sign-ins and other changes of id\n    durability  redo + wait(1, 50ms) fail\n    \
         loses when  the primary and the 1 replica",
        "never unreported",
        "    durability  redo\n    loses when  the primary fails before a replica has it, and this gateway ends",
    ] {
        assert!(page.contains(said), "{said}\n{page}");
    }
}

#[test]
fn a_class_may_come_from_the_path_a_header_or_the_session() {
    let page = explain("/a.css", &[]).unwrap();
    assert!(page.contains("class        static"), "{page}");
    assert!(
        page.contains("session      none: static requests have none"),
        "{page}"
    );
    let page = explain(
        "GET http://shop.example/a",
        &["-H", "Sec-Purpose: prefetch"],
    )
    .unwrap();
    assert!(page.contains("class        background"), "{page}");
    let page = explain("GET /a", &[]).unwrap();
    assert!(!page.contains("calls  "), "{page}");
    assert!(
        page.contains("signed-in with the session of a user, critical in tier gold"),
        "{page}"
    );
}

#[test]
fn what_is_no_request_is_said() {
    for (request, why) in [
        ("", "is no request"),
        ("post /a", "is no method"),
        ("POST a", "is no path or URL"),
        ("POST /a b", "is no request"),
    ] {
        let said = explain(request, &[]).unwrap_err();
        assert!(said.contains(why), "{request}: {said}");
    }
    assert!(
        explain("GET /", &["-H", "x"])
            .unwrap_err()
            .contains("is no header")
    );
}
