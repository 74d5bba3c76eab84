//! `tidegate check`, and what is said when the command line is wrong.

use crate::process::{TempDir, output, tidegate};

#[test]
fn a_sound_file_is_ok_and_says_what_follows() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/one-box.toml");

    let checked = output(&["check", example]);

    assert_eq!(checked.status.code(), Some(0));
    let text = String::from_utf8(checked.stdout).unwrap();
    assert!(text.starts_with(&format!("{example}: ok\n")));
    assert!(text.contains("critical: 13 of 64 slots"));
}

#[test]
fn the_example_for_a_fleet_says_where_sessions_are_and_how_safe() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fleet.toml");

    let checked = output(&["check", example]);

    let text = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{text}");
    assert!(
        text.contains("the master \"shop\" of the Sentinels 10.0.0.21:26379"),
        "{text}"
    );
    assert!(
        text.contains("sign-in redo + wait(1, 50ms) degrade"),
        "{text}"
    );
    assert!(text.contains("required: cart roles"), "{text}");
    assert!(!text.contains("warning"), "{text}");
}

#[test]
fn the_example_for_a_waiting_room_says_how_the_line_moves_and_explains_a_request() {
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/waiting-room.toml"
    );

    let checked = output(&["check", example]);

    let text = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{text}");
    assert!(
        text.contains("2 to 200 visitors a second over all gateways"),
        "{text}"
    );
    assert!(!text.contains("warning"), "{text}");
    let explained = output(&["explain", example, "GET /"]);
    let text = String::from_utf8(explained.stdout).unwrap();
    assert!(text.contains("room         shop, in phase auto"), "{text}");
    let explained = output(&["explain", example, "POST /checkout/pay"]);
    let text = String::from_utf8(explained.stdout).unwrap();
    assert!(text.contains("never waits (tier 0)"), "{text}");
}

#[test]
fn a_rooms_keys_are_checked_once_they_are_drawn() {
    let directory = TempDir::new();
    let configuration = "[[app]]\nupstream = \"http://127.0.0.1:1\"\n\
                         [[room]]\nname = \"sale\"\nkey_file = \"keys.json\"\nalgorithm = \"EdDSA\"\n";
    let file = directory.write("room.toml", configuration);
    let keys = directory.path().join("keys.json");
    let draw = |more: &[&str]| {
        let mut args = vec!["room", "key", "--file", keys.to_str().unwrap()];
        args.extend(more);
        let drawn = output(&args);
        let said = String::from_utf8(drawn.stderr).unwrap();
        (drawn.status.success(), said)
    };
    let check = || {
        let checked = output(&["check", file.to_str().unwrap()]);
        let said = [checked.stdout, checked.stderr].concat();
        String::from_utf8(said).unwrap()
    };

    assert!(check().contains("keys.json is not looked into"));
    assert_eq!(draw(&[]), (true, String::new()));
    let (drawn, said) = draw(&[]);
    assert!(!drawn && said.contains("is there already"), "{said}");
    let said = check();
    assert!(
        said.contains("room.toml:5:12") && said.contains("it has no key for EdDSA"),
        "{said}"
    );
    let (drawn, said) = draw(&["--add", "--algorithm", "EdDSA"]);
    assert!(drawn, "{said}");
    let said = check();
    assert!(
        said.contains("no key for EdDSA signs at this moment"),
        "{said}"
    );
}

#[test]
fn an_unsound_file_shows_every_error_on_standard_error() {
    let directory = TempDir::new();
    let file = directory.write(
        "bad.toml",
        "[listen]\nadress = \"0.0.0.0:80\"\n[[app]]\nupstream = \"http://a\"\nhold = 5\n",
    );

    let checked = output(&["check", file.to_str().unwrap()]);

    assert_eq!(checked.status.code(), Some(1));
    assert!(checked.stdout.is_empty());
    let text = String::from_utf8(checked.stderr).unwrap();
    assert!(text.contains("bad.toml:2:1\n"), "{text}");
    assert!(text.contains("did you mean `address`?"), "{text}");
    assert!(text.contains("bad.toml:5:8\n"), "{text}");
    assert!(
        text.contains("2 errors: the configuration is refused as a whole"),
        "{text}"
    );
}

#[test]
fn a_key_file_that_will_not_do_is_refused_in_the_words_of_a_start() {
    let directory = TempDir::new();
    let key = String::from_utf8(output(&["session", "key"]).stdout).unwrap();
    let file = |keys: &str| {
        let keys = directory.write("keys", keys);
        let text = format!(
            "[listen]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"off\"\n[sessions]\ninsecure = true\n\
             key_file = \"{}\"\n[[app]]\nupstream = \"http://127.0.0.1:9\"\n",
            keys.display()
        );
        directory.write("keys.toml", &text).display().to_string()
    };
    for (keys, why) in [
        (String::new(), "there is no key in it"),
        ("secret\n".to_owned(), "line 1 is no key"),
        (format!("{key}{key}"), "line 2 has a key that an earlier"),
    ] {
        let file = file(&keys);

        let checked = output(&["check", &file]);
        let ran = output(&["run", "--config", &file, "--log", "error"]);

        let text = String::from_utf8(checked.stderr).unwrap();
        assert!(text.contains(why), "{text}");
        assert_eq!(checked.status.code(), Some(1));
        let ran = String::from_utf8(ran.stderr).unwrap();
        let words = ran.strip_prefix("tidegate: ").unwrap().trim_end();
        assert!(
            text.starts_with(&format!("error: {words}\n")),
            "{text}{ran}"
        );
        assert!(text.contains(&format!("{file}:7:12\n")), "{text}");
    }

    let checked = output(&["check", &file(&key)]);

    let text = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{text}");
    assert!(
        text.contains("everybody on this machine may read"),
        "{text}"
    );
}

#[test]
fn nothing_runs_on_an_unsound_file() {
    let directory = TempDir::new();
    let file = directory.write("bad.toml", "[[app]]\nupstream = \"https://a\"\n");

    let ran = output(&["run", "--config", file.to_str().unwrap()]);

    assert_eq!(ran.status.code(), Some(1));
    assert!(ran.stdout.is_empty());
    assert!(
        String::from_utf8(ran.stderr)
            .unwrap()
            .contains("comes later")
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let checked = output(&["check", "no-such.toml"]);

    assert_eq!(checked.status.code(), Some(1));
    let text = String::from_utf8(checked.stderr).unwrap();
    assert!(text.starts_with("tidegate: cannot read the configuration file no-such.toml: "));
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    for args in [
        &["run"][..],
        &["check"],
        &["fly"],
        &["run", "--workers", "many"],
        &[],
    ] {
        assert_eq!(output(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn the_demos_shop_is_not_shown_to_people() {
    let help = output(&["--help"]);

    assert_eq!(help.status.code(), Some(0));
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(text.contains("run") && text.contains("check") && text.contains("demo"));
    assert!(
        !text
            .lines()
            .any(|line| line.trim_start().starts_with("shop")),
        "{text}"
    );
}

#[test]
fn output_that_goes_nowhere_is_no_panic() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/one-box.toml");
    let full = || {
        std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };

    let checked = tidegate()
        .args(["check", example])
        .stdout(full())
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(1));
    let text = String::from_utf8(checked.stderr).unwrap();
    assert!(text.starts_with("tidegate: cannot write"), "{text}");

    let refused = tidegate()
        .args(["check", "/no/such/file"])
        .stderr(full())
        .status()
        .unwrap();
    assert_eq!(refused.code(), Some(1));
}

#[test]
fn what_an_agent_needs_and_is_not_here_is_noted() {
    let directory = TempDir::new();
    let check = |agent: &str| {
        let text = format!(
            "[store]\nurl = \"redis://127.0.0.1:9\"\n[fleet]\nnode = \"a\"\ndecision_log = \"/nope/x\"\n[agent]\n{agent}\n"
        );
        let file = directory.write("agent.toml", &text);
        output(&["check", "--agent", file.to_str().unwrap()])
    };

    let checked = check(
        "runtime = \"tomcat\"\nurl = \"http://127.0.0.1:9/manager\"\nuser = \"probe\"\npassword_file = \"/nope\"\n\
         pid = 4194304",
    );

    let text = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{text}");
    for said in [
        "note: the password file /nope is not looked into: No such file",
        "note: decision_log /nope/x: there is no folder /nope here",
        "note: pid = 4194304: there is no such process here",
    ] {
        assert!(text.contains(said), "{said} in {text}");
    }
    let endless =
        check("runtime = \"puma\"\nurl = \"http://127.0.0.1:9/stats\"\ntoken_file = \"/dev/zero\"");
    assert_eq!(endless.status.code(), Some(1), "{endless:?}");
}
