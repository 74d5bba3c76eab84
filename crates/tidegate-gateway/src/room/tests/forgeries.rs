use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::super::keys::Key;
use super::super::spelling::{read, spelt};
use super::*;

/// Something to forge with: what a holder of a pass, the set of public keys and a book on web tokens has.
struct Forger {
    keys: Keys,
    tokens: Tokens,
    device: Device,
    /// Of a real pass.
    payload: String,
}

impl Forger {
    fn new(algorithm: Algorithm) -> Self {
        let keys = keys();
        let tokens = tokens(algorithm, &keys);
        let device = Device::draw();
        let real = tokens.issue_pass(at(NOW_S), &ADMISSION, &Bond::Device(&device));
        let payload = real.unwrap().text.split('.').nth(1).unwrap().to_owned();
        Self {
            keys,
            tokens,
            device,
            payload,
        }
    }

    fn key(&self, algorithm: Algorithm) -> &Key {
        self.keys.signer(algorithm, at(NOW_S)).unwrap()
    }

    fn come_of(&self, text: &str) -> Result<PassId, Why> {
        come_of(&self.tokens, NOW_S, text.as_bytes(), Some(&self.device))
    }

    /// A pass with this head and the real payload, signed by `sign`.
    fn forged(&self, head: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
        let message = format!("{}.{}", spelt(head.as_bytes()), self.payload);
        let signature = spelt(&sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    /// A pass that says `said`, with the head and the signature of `key`.
    fn signed(key: &Key, said: &str) -> String {
        let message = format!("{}.{}", key.head, spelt(said.as_bytes()));
        format!("{message}.{}", spelt(&key.sign(message.as_bytes())))
    }

    fn said(&self) -> String {
        let engine = &base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let bytes = base64::Engine::decode(engine, &self.payload).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.chain_update(message).finalize().into_bytes().to_vec()
}

fn head(algorithm: &str, kid: &str) -> String {
    format!("{{\"alg\":\"{algorithm}\",\"kid\":\"{kid}\",\"typ\":\"tg-pass+jwt\"}}")
}

#[test]
fn no_pass_chooses_its_algorithm() {
    let forger = Forger::new(Algorithm::EdDsa);
    let named = [
        ("h", Algorithm::Hs256),
        ("d", Algorithm::EdDsa),
        ("s", Algorithm::Es256),
    ];
    for (kid, algorithm) in named {
        let key = forger.key(algorithm);
        // Signed by the right key under the right name is good; under any other name of an algorithm it is not.
        let right = forger.forged(&head(algorithm.name(), kid), |it| key.sign(it));
        assert!(forger.come_of(&right).is_ok(), "{algorithm:?}");
        for other in [
            "none", "None", "NONE", "", "HS256", "HS512", "EdDSA", "Ed25519", "ES256", "RS256",
        ] {
            if other != algorithm.name() {
                let forged = forger.forged(&head(other, kid), |it| key.sign(it));
                assert_eq!(forger.come_of(&forged), Err(Why::Key), "{other} {kid}");
                let bare = forger.forged(&head(other, kid), |_| Vec::new());
                assert_eq!(forger.come_of(&bare), Err(Why::Key), "{other} {kid}");
            }
        }
        // And under the name of another key it is not that key's.
        for (other, its) in named {
            if other != kid {
                let forged = forger.forged(&head(its.name(), other), |it| key.sign(it));
                assert_eq!(
                    forger.come_of(&forged),
                    Err(Why::Signature),
                    "{kid} {other}"
                );
            }
        }
        let unsigned = forger.forged(&head(algorithm.name(), kid), |_| Vec::new());
        assert_eq!(forger.come_of(&unsigned), Err(Why::Signature));
        let zeros = forger.forged(&head(algorithm.name(), kid), |_| vec![0; 64]);
        assert_eq!(forger.come_of(&zeros), Err(Why::Signature));
    }
}

#[test]
fn what_is_public_is_no_secret_to_sign_with() {
    let forger = Forger::new(Algorithm::Hs256);
    let jwks = forger.keys.jwks(at(NOW_S));
    let set: serde_json::Value = serde_json::from_str(&jwks).unwrap();
    let mut secrets: Vec<Vec<u8>> = vec![jwks.clone().into(), Vec::new(), b"h".to_vec()];
    for key in set["keys"].as_array().unwrap() {
        secrets.push(key.to_string().into());
        for member in ["x", "y"] {
            if let Some(text) = key[member].as_str() {
                let engine = &base64::engine::general_purpose::URL_SAFE_NO_PAD;
                secrets.push(text.into());
                secrets.push(base64::Engine::decode(engine, text).unwrap());
            }
        }
        if key["kty"] == "EC" {
            let coordinate = |member: &str| read::<32>(key[member].as_str().unwrap()).unwrap();
            secrets.push([&[4][..], &coordinate("x"), &coordinate("y")].concat());
        }
    }

    assert_eq!(secrets.len(), 3 + 2 + 6 + 1);
    for secret in secrets {
        for kid in ["h", "d", "s"] {
            let forged = forger.forged(&head("HS256", kid), |it| hmac(&secret, it));
            let why = forger.come_of(&forged).unwrap_err();
            let expected = if kid == "h" { Why::Signature } else { Why::Key };
            assert_eq!(why, expected, "{kid}");
        }
    }
}

#[test]
fn a_header_is_what_our_keys_write_and_nothing_that_means_the_same() {
    let forger = Forger::new(Algorithm::Hs256);
    let key = forger.key(Algorithm::Hs256);
    for other in [
        r#"{"kid":"h","alg":"HS256","typ":"tg-pass+jwt"}"#,
        r#"{"alg": "HS256","kid":"h","typ":"tg-pass+jwt"}"#,
        r#"{"alg":"HS256","alg":"none","kid":"h","typ":"tg-pass+jwt"}"#,
        r#"{"alg":"none","alg":"HS256","kid":"h","typ":"tg-pass+jwt"}"#,
        r#"{"alg":"HS256","kid":"d","kid":"h","typ":"tg-pass+jwt"}"#,
        r#"{"alg":"HS256","kid":"h","typ":"tg-pass+jwt","crit":["b64"],"b64":false}"#,
        r#"{"alg":"HS256","kid":"h","typ":"tg-pass+jwt","jwk":{"kty":"oct","k":"AA"}}"#,
        r#"{"alg":"HS256","kid":"h","typ":"tg-pass+jwt","jku":"https://evil.example/"}"#,
        r#"{"alg":"HS256","kid":"h","typ":"JWT"}"#,
        r#"{"alg":"HS256","kid":"h"}"#,
        r#"{"alg":"HS256","typ":"tg-pass+jwt"}"#,
        r#"{"alg":"HS256","kid":"H","typ":"tg-pass+jwt"}"#,
        r#"["HS256","h","tg-pass+jwt"]"#,
        "{}",
        "",
    ] {
        let forged = forger.forged(other, |it| key.sign(it));
        assert_eq!(forger.come_of(&forged), Err(Why::Key), "{other}");
    }
}

#[test]
fn a_payload_says_everything_once_and_nothing_else() {
    let forger = Forger::new(Algorithm::Hs256);
    let key = forger.key(Algorithm::Hs256);
    let said = forger.said();
    let come_of = |said: &str| forger.come_of(&Forger::signed(key, said));
    let with = |from: &str, to: &str| {
        let changed = said.replace(from, to);
        assert_ne!(changed, said, "{from}");
        come_of(&changed)
    };
    let (iat, exp) = (
        format!("\"iat\":{NOW_S}"),
        format!("\"exp\":{}", NOW_S + 900),
    );

    assert!(come_of(&said).is_ok());
    for name in [
        "iss", "aud", "jti", "iat", "nbf", "exp", "abs", "ep", "fn", "tr", "bd", "bl",
    ] {
        let value: serde_json::Value = serde_json::from_str(&said).unwrap();
        let without = {
            let mut value = value.clone();
            value.as_object_mut().unwrap().remove(name).unwrap();
            value.to_string()
        };
        assert_eq!(come_of(&without), Err(Why::Malformed), "without {name}");
        let twice = said.replacen('{', &format!("{{\"{name}\":{},", value[name]), 1);
        assert_eq!(come_of(&twice), Err(Why::Malformed), "{name} twice");
    }
    assert_eq!(with("{", "{\"sub\":\"anna\","), Err(Why::Malformed));
    assert_eq!(with("\"tr\":2", "\"tr\":0"), Err(Why::Malformed));
    assert_eq!(with("\"tr\":2", "\"tr\":4"), Err(Why::Malformed));
    assert_eq!(with("\"tr\":2", "\"tr\":\"2\""), Err(Why::Malformed));
    assert_eq!(
        with(&exp, "\"exp\":4294967295"),
        Err(Why::Malformed),
        "beyond the end"
    );
    assert_eq!(with(&exp, "\"exp\":4294967296"), Err(Why::Malformed));
    assert_eq!(
        with(&iat, "\"iat\":1"),
        Err(Why::Malformed),
        "issued before it is good"
    );
    assert_eq!(
        with("\"aud\":\"shop\"", "\"aud\":[\"shop\"]"),
        Err(Why::Malformed)
    );
    assert_eq!(
        with("\"aud\":\"shop\"", "\"aud\":\"shops\""),
        Err(Why::Foreign)
    );
    assert_eq!(
        with("\"iss\":\"tidegate\"", "\"iss\":\"tidegat\""),
        Err(Why::Foreign)
    );
    assert_eq!(come_of("[]"), Err(Why::Malformed));
    assert_eq!(come_of(""), Err(Why::Malformed));
}

#[test]
fn somebody_else_with_keys_of_the_same_names_signs_nothing_of_ours() {
    for algorithm in Algorithm::ALL {
        let (ours, theirs) = (Forger::new(algorithm), Forger::new(algorithm));
        let key = theirs.key(algorithm);

        let forged = Forger::signed(key, &ours.said());

        assert_eq!(ours.come_of(&forged), Err(Why::Signature), "{algorithm:?}");
        let real = Forger::signed(ours.key(algorithm), &ours.said());
        assert!(ours.come_of(&real).is_ok());
    }
}
