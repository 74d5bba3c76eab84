use serde_json::Value;

use super::super::keys::{mac, tag};
use super::super::spelling::{read, spelt};
use super::*;

const SECRET: &str =
    r#"{"kid":"h","kty":"oct","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8","published":1000}"#;

fn error(keys: &str) -> String {
    let error = Keys::from_json(&format!("{{\"keys\":[{keys}]}}"));
    error.unwrap_err().to_string()
}

/// The key of this algorithm with a member set, or without it.
fn with(algorithm: Algorithm, member: &str, value: Option<Value>) -> String {
    let mut key: Value = serde_json::from_str(&draw_key("k", algorithm, 1_000)).unwrap();
    match value {
        Some(value) => key[member] = value,
        None => drop(key.as_object_mut().unwrap().remove(member)),
    }
    format!("{SECRET},{key}")
}

#[test]
fn a_key_goes_through_its_states_and_signs_after_it_was_public_for_long_enough() {
    let text = file(&[
        (
            "a",
            Algorithm::Hs256,
            1_000,
            ",\"verify_only_from\":2000,\"revoked_from\":3000",
        ),
        ("b", Algorithm::Hs256, 1_500, ",\"signs_from\":1900"),
    ]);
    let keys = Keys::from_json(&text).unwrap();
    let states = |second| {
        let states = keys.states(at(second)).map(|(.., state)| state);
        states.collect::<Vec<_>>()
    };
    let signer = |second| {
        let key = keys.signer(Algorithm::Hs256, at(second));
        key.map(|key| key.kid.clone())
    };
    use KeyState::{Pending, Published, Revoked, Signing, VerifyOnly};

    assert_eq!(states(999), [Pending, Pending]);
    assert_eq!(states(1_000), [Published, Pending]);
    assert_eq!(states(1_299), [Published, Pending]);
    assert_eq!(states(1_300), [Signing, Pending]);
    assert_eq!(states(1_900), [Signing, Signing]);
    assert_eq!(states(2_000), [VerifyOnly, Signing]);
    assert_eq!(states(3_000), [Revoked, Signing]);
    let too_early = NoSigner::NotNow {
        algorithm: "HS256",
        now_s: 1_299,
    };
    assert_eq!(signer(1_299), Err(too_early));
    assert_eq!(signer(1_899).as_deref(), Ok("a"));
    assert_eq!(signer(1_900).as_deref(), Ok("b"), "the later one signs");
    let none = keys.signer(Algorithm::EdDsa, at(2_000)).err();
    assert_eq!(none, Some(NoSigner::None("EdDSA")));
}

#[test]
fn the_public_set_has_what_is_public_and_no_secret() {
    let published = NOW_S - DAY_S;
    let text = file(&[
        ("secret", Algorithm::Hs256, published, ""),
        ("next", Algorithm::EdDsa, NOW_S, ""),
        ("later", Algorithm::EdDsa, NOW_S + 1, ""),
        (
            "old",
            Algorithm::Es256,
            published,
            &format!(",\"verify_only_from\":{NOW_S}"),
        ),
        (
            "gone",
            Algorithm::Es256,
            published,
            &format!(",\"revoked_from\":{NOW_S}"),
        ),
    ]);
    let keys = Keys::from_json(&text).unwrap();
    let set: Value = serde_json::from_str(&keys.jwks(at(NOW_S))).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();

    let shown = set["keys"].as_array().unwrap();
    let names: Vec<&str> = shown.iter().map(|it| it["kid"].as_str().unwrap()).collect();
    assert_eq!(names, ["next", "old"]);
    for key in shown {
        let members: Vec<&String> = key.as_object().unwrap().keys().collect();
        let expected: &[&str] = match key["kty"].as_str() {
            Some("EC") => &["alg", "crv", "kid", "kty", "use", "x", "y"],
            _ => &["alg", "crv", "kid", "kty", "use", "x"],
        };
        assert_eq!(members, expected);
    }
    for key in file["keys"].as_array().unwrap() {
        for secret in ["k", "d"].iter().filter_map(|it| key[*it].as_str()) {
            assert!(!set.to_string().contains(secret));
            assert!(!format!("{keys:?}").contains(secret));
        }
    }
    assert_eq!(shown[0]["x"], file["keys"][1]["x"]);
    assert_eq!(
        (&shown[1]["x"], &shown[1]["y"]),
        (&file["keys"][3]["x"], &file["keys"][3]["y"])
    );
}

#[test]
fn an_edge_verifies_with_what_is_derived_for_passes_and_makes_no_tickets_with_it() {
    let text = format!("{{\"keys\":[{SECRET}]}}");
    let keys = Keys::from_json(&text).unwrap();
    let master: Vec<u8> = (0..32).collect();
    let edge = tag(&mac(&master), &[b"tidegate room pass 1"]);
    // As `openssl mac -digest SHA256 -macopt hexkey:… HMAC` has it.
    let hex: String = edge.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, EDGE_SECRET);

    let tokens = tokens(Algorithm::Hs256, &keys);
    let device = Device::draw();
    let pass = tokens
        .issue_pass(at(NOW_S), &ADMISSION, &Bond::Device(&device))
        .unwrap();
    let (message, signature) = pass.text.rsplit_once('.').unwrap();

    assert_eq!(spelt(&tag(&mac(&edge), &[message.as_bytes()])), signature);
    // It may see that the pass is the device's as well.
    let engine = &base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let said = base64::Engine::decode(engine, message.split('.').nth(1).unwrap()).unwrap();
    let said: Value = serde_json::from_slice(&said).unwrap();
    let secret: [u8; 16] = read(device.write()).unwrap();
    let bond = [
        &b"tidegate room bond 1 device\0shop\0\0\0\0\0\0\0\0"[..],
        &EPOCH.0.to_be_bytes()[..],
    ];
    assert_eq!(said["bd"], spelt(&tag(&mac(&secret), &bond)[..16]));
    // What it has makes no ticket: the tag of one is by another key.
    let ticket = Ticket::new(
        EPOCH,
        Place(1),
        at(NOW_S),
        Tier::Anonymous,
        TicketFlags::default(),
    );
    let ticket: [u8; 66] = read(tokens.issue_ticket(at(NOW_S), &ticket).unwrap().text).unwrap();
    let body = [&b"tidegate room ticket 1\0"[..], &ticket[..50]];
    assert_ne!(tag(&mac(&edge), &body)[..16], ticket[50..]);
}

const EDGE_SECRET: &str = "fff4d3078afd5d90514cfdac442ae9ccec993cddc83b506c292b9b68fbbb6a24";

/// That a file with these keys is refused, and with which words.
fn are_refused(cases: &[(String, &str)]) {
    for (keys, said) in cases {
        let error = error(keys);
        assert!(error.contains(said), "{error}\ndoes not say {said}");
        let is_secret = ["c2hvcnQ", "c2VjcmV0"].iter().any(|it| error.contains(it));
        assert!(!is_secret, "{error}");
    }
}

#[test]
fn a_name_or_a_kind_that_cannot_be_is_refused_with_what_to_do() {
    use Algorithm::{EdDsa, Hs256};
    are_refused(&[
        (
            with(EdDsa, "kid", None),
            "key number 2 of `keys`, missing: `kid` is missing: name it",
        ),
        (
            with(EdDsa, "kid", Some("a b".into())),
            "`kid` is \"a b\": name it with 1 to 32",
        ),
        (
            with(EdDsa, "kid", Some("h".into())),
            "`kid` is \"h\": an earlier key has this name",
        ),
        (
            with(EdDsa, "kty", Some("RSA".into())),
            "`kty` is \"RSA\": \"oct\" is a secret",
        ),
        (
            with(EdDsa, "crv", Some("P-256".into())),
            "`crv` is \"P-256\": \"Ed25519\" goes with",
        ),
        (
            with(Hs256, "crv", Some("P-256".into())),
            "`crv` is \"P-256\": a secret has none",
        ),
        (
            with(EdDsa, "alg", Some("ES256".into())),
            "`alg` is \"ES256\": this key is for \"EdDSA\"",
        ),
    ]);
}

#[test]
fn times_that_leave_no_time_are_refused_with_those_that_would() {
    use Algorithm::EdDsa;
    are_refused(&[
        (
            with(EdDsa, "published", None),
            "`published` is missing: set it to the second",
        ),
        (
            with(EdDsa, "published", Some("now".into())),
            "`published` is \"now\": a whole number",
        ),
        (
            with(EdDsa, "published", Some((1u64 << 32).into())),
            "4294967295 at most",
        ),
        (
            with(EdDsa, "signs_from", Some(1_299.into())),
            "`signs_from` is 1299: a key is public for 300 s before it signs: 1300 is the earliest",
        ),
        (
            with(EdDsa, "verify_only_from", Some(1_300.into())),
            "`verify_only_from` is 1300: it has to be later than `signs_from`, which is 1300",
        ),
        (
            with(EdDsa, "revoked_from", Some(999.into())),
            "`revoked_from` is 999: it has to be no earlier than `published`, which is 1000",
        ),
    ]);
}

#[test]
fn what_is_no_key_is_refused_and_what_may_be_secret_is_not_shown() {
    use Algorithm::{EdDsa, Es256, Hs256};
    are_refused(&[
        (
            with(Hs256, "k", Some("c2hvcnQ".into())),
            "`k` is not shown: 32 random bytes",
        ),
        (with(Hs256, "k", None), "`k` is missing: 32 random bytes"),
        (
            with(EdDsa, "d", Some("c2VjcmV0".into())),
            "`d` is not shown: the private key is 32 bytes",
        ),
        (
            with(EdDsa, "x", Some(spelt(&[1; 32]).into())),
            "it is not the public key of `d`",
        ),
        (
            with(Es256, "x", Some(spelt(&[1; 32]).into())),
            "with `y` it is not the public key of `d`",
        ),
        (
            with(Es256, "y", Some("AA".into())),
            "`y` is \"AA\": 32 bytes in base64url",
        ),
        (
            with(EdDsa, "sings_from", Some(1.into())),
            "unknown field `sings_from`",
        ),
        (
            format!("{SECRET},{}", SECRET.replace("\"h\"", "\"i\"")),
            "`k` is not shown: an earlier key is the same",
        ),
        (
            draw_key("d", EdDsa, 1_000),
            "`keys` has none with `kty` \"oct\"",
        ),
        (String::new(), "`keys` has 0 of them: 1 to 16 are right"),
        (vec![SECRET; 17].join(","), "`keys` has 17 of them"),
        (
            SECRET.replace("\"kty\"", "\"kid\":\"i\",\"kty\""),
            "duplicate field `kid`",
        ),
    ]);
    assert!(Keys::from_json("tgk1.AAAA").is_err());
}

#[test]
fn a_plan_that_cannot_be_kept_is_refused_with_what_it_is() {
    let refused = |change: fn(&mut TokensPlan)| {
        let mut plan = plan(Algorithm::Hs256);
        change(&mut plan);
        let tokens = Tokens::new(plan, standing(&keys()));
        tokens.err().unwrap().to_string()
    };

    let issuer = refused(|plan| plan.issuer = "a\"b".to_owned());
    assert!(
        issuer.starts_with("`issuer` is \"a\\\"b\": 1 to 64"),
        "{issuer}"
    );
    let lives = refused(|plan| plan.absolute = plan.idle / 2);
    assert!(
        lives.starts_with("`idle` is 900s and `absolute` 450s"),
        "{lives}"
    );
    let classes = refused(|plan| plan.budgets.clear());
    assert!(classes.starts_with("`budgets` has 0 classes"), "{classes}");
    let nothing = refused(|plan| plan.budgets[0].in_flight = 0);
    assert!(
        nothing.starts_with("number 1 of `budgets` lets nothing in"),
        "{nothing}"
    );
    let rate = refused(|plan| plan.budgets[0].burst = 0);
    assert!(
        rate.starts_with("a budget or a bound of checks cannot be kept: "),
        "{rate}"
    );
}
