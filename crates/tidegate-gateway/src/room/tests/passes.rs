use http::header::{AUTHORIZATION, COOKIE};
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use std::time::Duration;

use super::super::spelling::spelt;
use super::*;
use crate::rate::{TokenKeys, TokenPlan};

fn given(tokens: &Tokens, device: &Device) -> String {
    let given = tokens.issue_pass(at(NOW_S), &ADMISSION, &Bond::Device(device));
    given.unwrap().text
}

#[test]
fn a_pass_of_each_algorithm_is_good_beside_what_it_is_tied_to() {
    for algorithm in Algorithm::ALL {
        let tokens = tokens(algorithm, &keys());
        let (device, other) = (Device::draw(), Device::draw());
        let text = given(&tokens, &device);
        let come_of = |device| come_of(&tokens, NOW_S, text.as_bytes(), device);

        let id = come_of(Some(&device)).unwrap();

        assert_eq!(PassId::read(&id.to_string()), Some(id));
        assert_eq!(come_of(Some(&other)), Err(Why::Bond), "{algorithm:?}");
        assert_eq!(come_of(None), Err(Why::Bond));
    }
}

#[test]
fn a_pass_of_a_session_is_good_in_no_other_and_after_it_has_moved() {
    let tokens = tokens(Algorithm::EdDsa, &keys());
    let bond = Bond::Session(b"session 1");
    let given = tokens.issue_pass(at(NOW_S), &ADMISSION, &bond).unwrap();
    let headers = shown(given.text.as_bytes(), Some(&Device::draw())).unwrap();
    let come_of = |sessions: &[&[u8]]| {
        let read = tokens.read(moment(NOW_S), &headers, &visitor(sessions));
        read.unwrap().pass.map(|pass| pass.id())
    };

    assert!(come_of(&[b"session 1"]).is_ok());
    assert!(come_of(&[b"session 2", b"session 1"]).is_ok());
    assert_eq!(come_of(&[b"session 2"]), Err(Why::Bond));
    assert_eq!(come_of(&[]), Err(Why::Bond));
}

#[test]
fn the_same_admission_has_the_same_pass_however_often_it_is_asked_for() {
    let keys = keys();
    let device = Device::draw();
    for algorithm in Algorithm::ALL {
        let (one, other) = (tokens(algorithm, &keys), tokens(algorithm, &keys));
        let (a, b) = (given(&one, &device), given(&other, &device));
        let id = |tokens, text: &str| come_of(tokens, NOW_S, text.as_bytes(), Some(&device));

        assert_eq!(id(&one, &a).unwrap(), id(&one, &b).unwrap());
        // A signature of ECDSA has something random in it.
        assert_eq!(a == b, algorithm != Algorithm::Es256);
        let next = Admission {
            nth: 1,
            ..ADMISSION
        };
        let next = one.issue_pass(at(NOW_S), &next, &Bond::Device(&device));
        assert_ne!(id(&one, &a), id(&one, &next.unwrap().text));
    }
}

#[test]
fn no_pass_that_differs_in_a_bit_is_one() {
    for algorithm in Algorithm::ALL {
        let tokens = tokens(algorithm, &keys());
        let device = Device::draw();
        let text = given(&tokens, &device);
        let parts: Vec<&str> = text.split('.').collect();
        let mut changed: Vec<Vec<u8>> = bits_of(text.as_bytes()).collect();
        for (at, part) in parts.iter().enumerate() {
            let engine = &base64::engine::general_purpose::URL_SAFE_NO_PAD;
            let bytes = base64::Engine::decode(engine, part).unwrap();
            for bits in bits_of(&bytes) {
                let mut parts: Vec<String> = parts.iter().map(|&part| part.to_owned()).collect();
                parts[at] = spelt(&bits);
                changed.push(parts.join(".").into());
            }
        }

        for changed in changed {
            let why = come_of(&tokens, NOW_S, &changed, Some(&device));
            let refused = matches!(why, Err(Why::Malformed | Why::Key | Why::Signature));
            assert!(refused, "{why:?} {}", String::from_utf8_lossy(&changed));
        }
        assert!(come_of(&tokens, NOW_S, text.as_bytes(), Some(&device)).is_ok());
    }
}

#[test]
fn nothing_that_is_cut_padded_spelt_otherwise_or_moved_over_a_border_is_one() {
    for algorithm in Algorithm::ALL {
        let tokens = tokens(algorithm, &keys());
        let device = Device::draw();
        let text = given(&tokens, &device);
        let mut others: Vec<String> = (0..text.len()).map(|end| text[..end].into()).collect();
        for more in ["=", "==", "A", ".", ".A", " ", "\t"] {
            others.push(format!("{text}{more}"));
        }
        for (dot, _) in text.match_indices('.') {
            let mut left = text.clone().into_bytes();
            left.swap(dot - 1, dot);
            let mut right = text.clone().into_bytes();
            right.swap(dot, dot + 1);
            others.extend([left, right].map(|it| String::from_utf8(it).unwrap()));
            others.push(format!("{}{}", &text[..dot], &text[dot + 1..]));
            others.push(format!("{}=.{}", &text[..dot], &text[dot + 1..]));
            others.push(format!("{}..{}", &text[..dot], &text[dot + 1..]));
        }
        // Bits behind the last byte of the signature: another text of the same bytes.
        let (most, last) = text.split_at(text.len() - 1);
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        others.extend(alphabet.chars().map(|it| format!("{most}{it}")));
        assert!(alphabet.contains(last));

        for other in others.iter().filter(|other| **other != text) {
            // A header's value has no blanks at its ends.
            let read = come_of(&tokens, NOW_S, other.as_bytes(), Some(&device));
            assert!(read.is_err(), "{other:?}");
        }
    }
}

#[test]
fn a_pass_is_for_its_room_issuer_and_epoch() {
    let keys = keys();
    for algorithm in Algorithm::ALL {
        let tokens = tokens(algorithm, &keys);
        let device = Device::draw();
        let text = given(&tokens, &device);
        let come_of = |tokens: &Tokens| come_of(tokens, NOW_S, text.as_bytes(), Some(&device));
        let other = |change: fn(&mut TokensPlan)| {
            let mut plan = plan(algorithm);
            change(&mut plan);
            Tokens::new(plan, standing(&keys)).unwrap()
        };

        let other_room = other(|plan| plan.room = room("shops"));
        assert_eq!(come_of(&other_room), Err(Why::Foreign));
        let other_issuer = other(|plan| plan.issuer = "tidegate2".to_owned());
        assert_eq!(come_of(&other_issuer), Err(Why::Foreign));
        assert_eq!(come_of(&super::tokens(algorithm, &super::keys())).err(), {
            // The names of the keys are the same, what they sign with is not.
            Some(Why::Signature)
        });
        assert!(come_of(&tokens).is_ok());
        tokens.stand(Standing {
            epoch: None,
            ..standing(&keys)
        });
        assert!(come_of(&tokens).is_ok(), "nobody knows the epoch");
        assert!(come_of(&tokens).is_ok(), "and from what is remembered");
        let next = Epoch(EPOCH.0 + 1);
        tokens.stand(Standing {
            epoch: Some(next),
            ..standing(&keys)
        });
        assert_eq!(come_of(&tokens), Err(Why::Epoch));
    }
}

#[test]
fn clocks_may_differ_by_half_a_minute_and_not_by_a_day() {
    for algorithm in Algorithm::ALL {
        let tokens = tokens(algorithm, &keys());
        let device = Device::draw();
        let text = given(&tokens, &device);
        let fresh = super::tokens(algorithm, &tokens.standing().keys);
        for tokens in [&tokens, &fresh] {
            let come_of = |second| come_of(tokens, second, text.as_bytes(), Some(&device));
            let ends = NOW_S + 15 * 60;

            assert_eq!(come_of(NOW_S - 31), Err(Why::Early));
            assert_eq!(come_of(NOW_S - DAY_S), Err(Why::Early));
            assert_eq!(come_of(ends + 30), Err(Why::Expired));
            assert_eq!(come_of(NOW_S + DAY_S), Err(Why::Expired));
            assert!(come_of(NOW_S - 30).is_ok() && come_of(ends + 29).is_ok());
            assert_eq!(
                come_of(ends + 30),
                Err(Why::Expired),
                "once it is known, too"
            );
            assert_eq!(come_of(NOW_S - 31), Err(Why::Early));
        }
    }
}

#[test]
fn a_browser_brings_what_it_was_given() {
    let tokens = tokens(Algorithm::Hs256, &keys());
    let device = Device::draw();
    let pass = tokens.issue_pass(at(NOW_S), &ADMISSION, &Bond::Device(&device));
    let set = [pass.unwrap(), tokens.give_device(&device)].map(|it| it.set_cookie);
    let mut headers = HeaderMap::new();
    for line in &set {
        let pair = line.to_str().unwrap().split(';').next().unwrap();
        headers.append(COOKIE, HeaderValue::from_str(pair).unwrap());
    }

    let held = tokens.read(moment(NOW_S), &headers, &visitor(&[])).unwrap();

    assert_eq!(held.device, Some(device));
    assert_eq!(held.pass.unwrap().tier(), Tier::SignedIn);
    assert_eq!(held.ticket, Err(Why::Absent));
    headers.insert(TIDEGATE_PASS, HeaderValue::from_static("another"));
    let read = tokens.read(moment(NOW_S), &headers, &visitor(&[]));
    assert_eq!(read.err(), Some(Ambiguous("pass")));
    let taken = tokens
        .take_cookies()
        .map(|it| it.to_str().unwrap().to_owned());
    assert!(taken.iter().all(|it| it.contains("=; Path=/; Max-Age=0; ")));
}

#[test]
fn whoever_verifies_web_tokens_verifies_a_pass_by_the_public_keys() {
    let keys = keys();
    let text = given(&tokens(Algorithm::Es256, &keys), &Device::draw());
    let jwks = keys.jwks(at(NOW_S));
    let theirs = TokenPlan {
        header: AUTHORIZATION,
        issuer: Some("tidegate".to_owned()),
        audience: Some("shop".to_owned()),
        leeway: Duration::from_secs(30),
        key_file: std::path::PathBuf::new(),
        keys: TokenKeys::parse(&jwks).unwrap(),
    };
    let bearer = HeaderValue::from_str(&format!("Bearer {text}")).unwrap();
    let headers: HeaderMap = [(AUTHORIZATION, bearer)].into_iter().collect();

    let claims = theirs.claims(&headers, at(NOW_S)).unwrap();

    assert_eq!(claims.get("fn"), Some("7"));
    assert_eq!(claims.get("tr"), Some("2"));
    assert_eq!(claims.get("ep"), Some(EPOCH.0.to_string().as_str()));
    assert_eq!(
        claims.get("abs"),
        Some((NOW_S + 12 * 3_600).to_string().as_str())
    );
    assert!(theirs.claims(&headers, at(NOW_S + 930)).is_none());
}

proptest! {
    #[test]
    fn every_pass_is_good_for_its_owner_until_it_ends(
        (epoch, place, nth, fence) in any::<(u64, u64, u32, u64)>(),
        class in any::<u8>(),
        wait in 0u64..2_000,
    ) {
        let tokens = tokens(Algorithm::Hs256, &keys());
        let admission = Admission {
            epoch: Epoch(epoch),
            place: Place(place),
            nth,
            fence,
            tier: Tier::Anonymous,
            class,
        };
        let keys = tokens.standing().keys.clone();
        tokens.stand(Standing { epoch: Some(Epoch(epoch)), ..standing(&keys) });
        let device = Device::draw();

        let given = tokens.issue_pass(at(NOW_S), &admission, &Bond::Device(&device)).unwrap();

        let read = come_of(&tokens, NOW_S + wait, given.text.as_bytes(), Some(&device));
        prop_assert_eq!(read.is_ok(), wait < 930);
        prop_assert!(given.text.len() <= PASS_LEN_MAX);
    }

    #[test]
    fn no_text_is_a_pass(text in "[A-Za-z0-9_.=-]{0,80}", cut in any::<prop::sample::Index>()) {
        let tokens = tokens(Algorithm::EdDsa, &keys());
        let device = Device::draw();
        let real = given(&tokens, &device);
        let cut = cut.index(real.len());
        for forged in [text.clone(), format!("{}{text}", &real[..cut])] {
            let read = come_of(&tokens, NOW_S, forged.as_bytes(), Some(&device));
            prop_assert!(read.is_err() || forged == real);
        }
    }
}
