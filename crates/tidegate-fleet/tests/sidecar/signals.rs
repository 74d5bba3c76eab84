//! Readings that an application posts of itself.

use serde_json::Value;

use crate::site::Site;

fn shown(site: &Site) -> Vec<Value> {
    let answer = site.ask("GET", "/v1/signals", "");
    assert_eq!(answer.status, 200);
    answer.json()["signals"].as_array().unwrap().clone()
}

#[test]
fn what_is_posted_is_shown_and_what_is_not_known_is_not_zero() {
    let site = Site::new();
    let post = |body: &str| site.ask("POST", "/v1/signals", body).status;

    assert_eq!(
        post(r#"{"source":"shop","signals":[{"dimension":"pool","value":9,"limit":9}]}"#),
        204
    );
    let body = r#"{"source":"shop","signals":[{"dimension":"threads","value":-1,"limit":200},
        {"dimension":"oldgen","value":null},{"dimension":"downstream","value":0.5}]}"#;
    assert_eq!(post(body), 204);

    let shown = shown(&site);
    let told: Vec<_> = shown
        .iter()
        .map(|it| {
            (
                it["dimension"].as_str().unwrap(),
                it["validity"].as_str().unwrap(),
                it["value"].as_f64(),
            )
        })
        .collect();
    let expected = [
        ("threads", "error", None),
        ("oldgen", "unsupported", None),
        ("downstream", "ok", Some(0.5)),
    ];
    assert_eq!(told, expected, "the pool of the first post is gone");
}

#[test]
fn what_is_wrong_is_named() {
    let site = Site::new();
    let field = |body: &str| {
        let answer = site.ask("POST", "/v1/signals", body);
        assert_eq!(answer.status, 400, "{body}");
        answer.json()["field"].as_str().unwrap().to_owned()
    };

    assert_eq!(
        field(r#"{"signals":[{"dimension":"pool","value":1}]}"#),
        "source"
    );
    assert_eq!(
        field(r#"{"source":"a b","signals":[{"dimension":"pool"}]}"#),
        "source"
    );
    assert_eq!(field(r#"{"source":"a","signals":[]}"#), "signals");
    assert_eq!(
        field(r#"{"source":"a","signals":[{"dimension":"heap","value":1}]}"#),
        "signals[0].dimension"
    );
    assert_eq!(
        field(r#"{"source":"a","signals":[{"dimension":"gc","value":"1"}]}"#),
        "signals[0].value"
    );
    assert_eq!(
        field(r#"{"source":"a","signals":[{"dimension":"threads","value":5}]}"#),
        "signals[0].limit"
    );
    assert_eq!(
        field(r#"{"source":"a","signals":[{"dimension":"gc","worth":1}]}"#),
        "signals[0].worth"
    );
    assert!(shown(&site).is_empty());
}
