//! What is taken for an order, and what is said of what is not.

use serde_json::json;

use super::*;

const NOW_S: u64 = 1_790_000_000;

fn read(verb: Verb, body: &Value) -> Result<Order, Wrong> {
    let moment = Moment {
        now_s: NOW_S,
        pass_absolute: Duration::from_secs(43_200),
    };
    Order::read(verb, body.to_string().as_bytes(), &moment)
}

fn good(verb: Verb, body: Value) -> Order {
    match read(verb, &body) {
        Ok(order) => order,
        Err(wrong) => panic!("{body}: {wrong:?}"),
    }
}

/// Field, value and fix of what is refused.
fn bad(verb: Verb, body: Value) -> (String, Value, String) {
    let Err(wrong) = read(verb, &body) else {
        panic!("{body} is an order");
    };
    let (status, said) = wrong.reply();
    assert_eq!(
        (status, &said["reason"]),
        (StatusCode::BAD_REQUEST, &json!("invalid"))
    );
    let text = |member: &str| said[member].as_str().unwrap().to_owned();
    assert!(!text("detail").is_empty());
    (text("field"), said["value"].clone(), text("fix"))
}

#[test]
fn a_phase_is_one_of_six_or_what_is_configured() {
    for phase in Phase::ALL {
        if phase == Phase::Closed {
            continue;
        }
        let order = good(Verb::Phase, json!({ "phase": phase.name(), "by": "kim" }));
        assert!(matches!(order.order, RoomOrder::Phase(Some(set)) if set == phase));
        assert_eq!(order.phase, Some(Some(phase)));
        assert_eq!((order.by.as_str(), order.why), ("kim", None));
    }
    let order = good(
        Verb::Phase,
        json!({ "phase": null, "by": "kim", "why": "over" }),
    );
    assert!(matches!(order.order, RoomOrder::Phase(None)));
    assert_eq!(order.phase, Some(None));
    assert_eq!(order.what, "phase: the configured phase");
    assert_eq!(order.why.as_deref(), Some("over"));

    let (field, value, fix) = bad(Verb::Phase, json!({ "phase": "holt", "by": "kim" }));
    assert_eq!((field.as_str(), value), ("phase", json!("holt")));
    assert!(fix.contains("hold, prequeue or drain"), "{fix}");
    let (_, _, fix) = bad(Verb::Phase, json!({ "phase": "closed", "by": "kim" }));
    assert!(fix.contains("/close"), "{fix}");
    for body in [json!({ "by": "kim" }), json!({ "phase": 1, "by": "kim" })] {
        assert_eq!(bad(Verb::Phase, body).0, "phase");
    }
}

#[test]
fn who_orders_is_said_in_one_line() {
    for by in [
        json!(null),
        json!(""),
        json!("  "),
        json!(7),
        json!("a\nb"),
        json!("x".repeat(65)),
    ] {
        let (field, ..) = bad(Verb::Turn, json!({ "by": by }));
        assert_eq!(field, "by");
    }
    let (field, value, fix) = bad(Verb::Turn, json!({ "by": "kim", "why": "w".repeat(241) }));
    assert_eq!(field, "why");
    assert!(value.as_str().unwrap().starts_with("www"));
    assert_eq!(fix, "240 bytes are the most");
    good(Verb::Turn, json!({ "by": "kim", "why": "w".repeat(240) }));
}

#[test]
fn a_member_that_an_order_does_not_have_is_refused_by_its_name() {
    let (field, value, fix) = bad(Verb::Stock, json!({ "stok": 5, "by": "kim" }));

    assert_eq!((field.as_str(), value), ("body", json!("stok")));
    assert_eq!(fix, "it has stock, by, why");
    let moment = Moment {
        now_s: NOW_S,
        pass_absolute: Duration::ZERO,
    };
    for body in ["[]", "{", "7", "{\"by\":\"kim\"} x"] {
        let wrong = Order::read(Verb::Turn, body.as_bytes(), &moment)
            .err()
            .unwrap();
        let (_, said) = wrong.reply();
        assert!(
            said["detail"].as_str().unwrap().contains("no JSON object"),
            "{said}"
        );
    }
    assert!(Order::read(Verb::Turn, b"", &moment).is_err());
}

#[test]
fn a_stock_is_a_whole_number_or_none() {
    let order = good(Verb::Stock, json!({ "stock": 2_500, "by": "kim" }));
    assert!(matches!(order.order, RoomOrder::Stock(Some(2_500))));
    assert_eq!((order.phase, order.what.as_str()), (None, "stock: 2500"));
    let order = good(Verb::Stock, json!({ "stock": null, "by": "kim" }));
    assert!(matches!(order.order, RoomOrder::Stock(None)));

    for stock in [json!(-1), json!(1.5), json!("5"), json!(NUMBER_MAX + 1)] {
        let (field, value, fix) = bad(Verb::Stock, json!({ "stock": stock, "by": "kim" }));
        assert_eq!((field.as_str(), &value), ("stock", &stock));
        assert!(fix.starts_with("a whole number from 0 to "), "{fix}");
    }
    assert_eq!(bad(Verb::Stock, json!({ "by": "kim" })).1, Value::Null);
}

#[test]
fn a_message_is_plain_text_in_languages_of_the_page() {
    let message = json!({ "en": "Doors open at ten.\nBring a coat.", "pt-BR": "Olá" });
    let order = good(Verb::Message, json!({ "message": message, "by": "kim" }));
    let RoomOrder::Message(Some(texts)) = order.order else {
        panic!("a message");
    };
    assert_eq!(texts[&Language::Pt], "Olá");
    assert_eq!(
        order.what,
        "message: en: Doors open at ten.\nBring a coat.; pt: Olá"
    );
    let none = good(Verb::Message, json!({ "message": null, "by": "kim" }));
    assert!(matches!(none.order, RoomOrder::Message(None)));

    for message in [
        json!({}),
        json!("Hello"),
        json!({ "tlh": "nuqneH" }),
        json!({ "en": "" }),
        json!({ "en": 7 }),
        json!({ "en": "a\u{1b}[2J" }),
        json!({ "en": "x".repeat(501) }),
        json!({ "pt": "a", "pt-BR": "b" }),
    ] {
        let (field, ..) = bad(Verb::Message, json!({ "message": message, "by": "kim" }));
        assert_eq!(field, "message");
    }
    // Each is short enough, and all together are not.
    let long = Language::ALL.map(|language| (language.tag().to_owned(), json!("語".repeat(500))));
    let long = Value::Object(long.into_iter().collect());
    let (.., fix) = bad(Verb::Message, json!({ "message": long, "by": "kim" }));
    assert_eq!(fix, "8192 bytes are the most");
}

#[test]
fn a_room_is_closed_for_a_reason() {
    let order = good(
        Verb::Close,
        json!({ "reason": "sold-out", "by": "kim", "why": "all gone" }),
    );
    assert!(matches!(order.order, RoomOrder::Close(Reason::SoldOut)));
    assert_eq!(order.phase, Some(Some(Phase::Closed)));
    assert_eq!(order.why.as_deref(), Some("close: sold-out; all gone"));
    let order = good(Verb::Close, json!({ "reason": "ended", "by": "kim" }));
    assert!(matches!(order.order, RoomOrder::Close(Reason::Ended)));
    assert_eq!(order.why.as_deref(), Some("close: ended"));

    for body in [
        json!({ "by": "kim" }),
        json!({ "reason": "slower", "by": "kim" }),
    ] {
        let (field, _, fix) = bad(Verb::Close, body);
        assert_eq!(
            (field.as_str(), fix.as_str()),
            ("reason", "sold-out or ended")
        );
    }
}

#[test]
fn somebody_is_promoted_to_a_tier_that_goes_first() {
    let order = good(
        Verb::Promote,
        json!({ "place": 4_096, "tier": 1, "by": "kim" }),
    );
    let promoted = RoomOrder::Promote(Place(4_096), Tier::Returning);
    assert!(matches!(
        (order.order, promoted),
        (RoomOrder::Promote(a, at), RoomOrder::Promote(b, to)) if a == b && at == to
    ));
    assert_eq!(order.what, "promote: place 4096 to tier 1");

    for tier in [json!(0), json!(3), json!("1"), json!(null)] {
        let (field, ..) = bad(
            Verb::Promote,
            json!({ "place": 1, "tier": tier, "by": "kim" }),
        );
        assert_eq!(field, "tier");
    }
    assert_eq!(
        bad(Verb::Promote, json!({ "tier": 1, "by": "kim" })).0,
        "place"
    );
}

#[test]
fn passes_are_taken_back_all_or_one() {
    let order = good(Verb::Revoke, json!({ "before_s": NOW_S + 5, "by": "kim" }));
    assert!(
        matches!(order.order, RoomOrder::RevokeBefore(second) if u64::from(second) == NOW_S + 5)
    );
    let pass = "AAAAAAAAAAAAAAAAAAAAAQ";
    let order = good(Verb::Revoke, json!({ "pass": pass, "by": "kim" }));
    // As late as any pass may end that there is now.
    let end = NOW_S + 43_200 + 60;
    assert!(matches!(order.order, RoomOrder::Revoke(_, until) if u64::from(until) == end));
    assert_eq!(order.what, format!("revoke: pass {pass}"));
    let body = json!({ "pass": pass, "absolute_s": NOW_S + 9, "by": "kim" });
    let order = good(Verb::Revoke, body).order;
    assert!(matches!(order, RoomOrder::Revoke(_, until) if u64::from(until) == NOW_S + 9));

    for (body, wrong) in [
        (json!({ "by": "kim" }), "before_s"),
        (
            json!({ "before_s": 5, "pass": pass, "by": "kim" }),
            "before_s",
        ),
        (json!({ "before_s": NOW_S + 61, "by": "kim" }), "before_s"),
        (json!({ "before_s": "now", "by": "kim" }), "before_s"),
        (
            json!({ "before_s": 5, "absolute_s": 7, "by": "kim" }),
            "absolute_s",
        ),
        (json!({ "pass": "short", "by": "kim" }), "pass"),
        (json!({ "pass": 7, "by": "kim" }), "pass"),
        (
            json!({ "pass": pass, "absolute_s": NOW_S - 1, "by": "kim" }),
            "absolute_s",
        ),
        (
            json!({ "pass": pass, "absolute_s": NOW_S + 43_261, "by": "kim" }),
            "absolute_s",
        ),
    ] {
        assert_eq!(bad(Verb::Revoke, body).0, wrong);
    }
}

#[test]
fn every_verb_has_a_name_and_a_method() {
    for (verb, name, members) in Verb::ALL {
        assert_eq!(Verb::of(name), Some(verb));
        assert_eq!(verb.members(), members);
    }
    assert_eq!(Verb::of("open"), None);
    assert_eq!(Verb::Phase.method(), Method::PUT);
    assert_eq!(Verb::Revoke.method(), Method::POST);
}
