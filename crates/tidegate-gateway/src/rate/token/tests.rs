use http::HeaderValue;

use super::*;

// Made with OpenSSL for these tests. The tokens say
// {"iss":"https://id.example","aud":["shop","other"],"sub":"anna","plan":7,"exp":4102444800}.
const SECRET: &str =
    r#"{"kty": "oct", "kid": "h", "k": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}"#;
const RSA: &str = concat!(
    r#"{"kty": "RSA", "kid": "r", "alg": "RS256", "use": "sig", "n": "qa1euiK4Y9YE5o683"#,
    r#"f4sSInleKCE9XhXa_g-b1BRWAYuCuwBq82hHef2KDKyamH3UHqT--QZ4yv0qnrDXlwaJttjv4IAUAPKL"#,
    r#"SBVkaWnW6AoGahG0ziHWQWjlzS6uQbrnERYYGbh4uL1i2BVuNxesI6pfgn3MCWkX6tfcsqXigQxkRcvs"#,
    r#"zsSFay8H2iMPv-CLBLqlEypS_6p1b8mVU5r03oYEmodAL4kzt8Ktw_tT5dcr27UxsvQYw9uYf_TXU1vz"#,
    r#"Ky-P311pUeonakkpYRLq6fU7z7P6k4PkEXkNca0y1JxhC1BeMXZMcqY0Jb9duM9QiojwnK3oK0u4JkC9"#,
    r#"x7Htw", "e": "AQAB"}"#,
);
const EC: &str = concat!(
    r#"{"kty": "EC", "kid": "e", "crv": "P-256", "x": "AHBdJd7BwnLZtZ573XJaz1f6wuZcPXgj"#,
    r#"L8ziBj1Gkdo", "y": "V7V3EENZD7J6xoyuZybbivu31dj1QgibbHZBKd28bkg"}"#,
);
const HS256: &str = concat!(
    "eyJhbGciOiJIUzI1NiIsImtpZCI6ImgifQ.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOlsic2hvcCIsI",
    "m90aGVyIl0sInN1YiI6ImFubmEiLCJwbGFuIjo3LCJleHAiOjQxMDI0NDQ4MDB9.xn_WkvCGufRW8-_NvR5JXtg58slj",
    "oY_idLLf5Kzp5_0",
);
const RS256: &str = concat!(
    "eyJhbGciOiJSUzI1NiIsImtpZCI6InIifQ.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOlsic2hvcCIsI",
    "m90aGVyIl0sInN1YiI6ImFubmEiLCJwbGFuIjo3LCJleHAiOjQxMDI0NDQ4MDB9.XuuGa6Z-J_JYfr8byRQmt8A06-PF",
    "PPF0Z1aYC3kM-rkQ7kr06t2AFOepnhC5f-rEO6X7Thwu8jhpnoPKmoONiB5NPXxO6Ls2hAJItDgIoHo_toJEvOOBCF8j",
    "d60qOA_thlZg9RHfWwKC485pu-J9crfNB_XzwxIYZMvueai-hpPLmShyTO-GG8bftNK51k8fwfTN_4zFZta_wEn0dg4z",
    "-JrIzNcYceptFNsDH1m0_AQcUMV9I9Hqb8qddho0idkwhk1rQufF59Sl9RTkf2Q-FTn-96O_fmU15AVi3tg9E0NsAZac",
    "VRjPdpkQolqn5CpSu4hT4_SQLkUsB0F1Trr0MA",
);
const ES256: &str = concat!(
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUifQ.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOlsic2hvcCIsI",
    "m90aGVyIl0sInN1YiI6ImFubmEiLCJwbGFuIjo3LCJleHAiOjQxMDI0NDQ4MDB9.rX-JUUF1v8mNcA3Opesxl38cSMe3",
    "t-3ODpBLAbvZ5aRooQNYbcmRzW_NxTCBUcYigDqifw9aaYAKTZqcn0mvcQ",
);

const EXP: u64 = 4_102_444_800;

fn plan(keys: &[&str]) -> TokenPlan {
    let keys = format!("{{\"keys\":[{}]}}", keys.join(","));
    TokenPlan {
        header: AUTHORIZATION,
        issuer: Some("https://id.example".to_owned()),
        audience: Some("shop".to_owned()),
        leeway: Duration::from_secs(30),
        key_file: PathBuf::new(),
        keys: TokenKeys::parse(&keys).unwrap(),
    }
}

fn at(seconds: u64) -> Wall {
    Wall::from_micros(seconds * 1_000_000)
}

/// A token that says `said`, signed with the secret and with this head.
fn token(head: &str, said: &str) -> String {
    let message = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(head),
        URL_SAFE_NO_PAD.encode(said)
    );
    let secret: Vec<u8> = (0..32).collect();
    let mac = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
    let signature = mac.chain_update(&message).finalize().into_bytes();
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[test]
fn a_token_that_is_signed_by_a_known_key_says_who_asks() {
    let plan = plan(&[SECRET, RSA, EC]);

    for token in [HS256, RS256, ES256] {
        let claims = plan.verified(token, at(EXP - 1)).unwrap();
        assert_eq!(claims.get("sub"), Some("anna"));
        assert_eq!(claims.get("plan"), Some("7"));
        assert_eq!((claims.get("aud"), claims.get("missing")), (None, None));
        assert!(
            plan.verified(token, at(EXP + 29)).is_some(),
            "within the leeway"
        );
        assert_eq!(plan.verified(token, at(EXP + 30)), None, "it has ended");
    }
}

#[test]
fn one_that_was_changed_or_that_somebody_else_signed_says_nothing() {
    for (token, key, others) in [
        (HS256, SECRET, [RSA, EC]),
        (RS256, RSA, [SECRET, EC]),
        (ES256, EC, [SECRET, RSA]),
    ] {
        assert!(plan(&[key]).verified(token, at(0)).is_some());
        assert_eq!(plan(&others).verified(token, at(0)), None);
        let (message, signature) = token.rsplit_once('.').unwrap();
        let (head, payload) = message.split_once('.').unwrap();
        for changed in [
            format!(
                "{head}.{}.{signature}",
                URL_SAFE_NO_PAD.encode("{\"sub\":\"bert\"}")
            ),
            format!("{head}.{payload}.{}", URL_SAFE_NO_PAD.encode([0; 64])),
            format!("{head}.{payload}."),
            format!("{head}.{payload}"),
            format!("{token}.{signature}"),
            format!("{token}="),
            String::new(),
        ] {
            assert_eq!(plan(&[key]).verified(&changed, at(0)), None, "{changed}");
        }
    }
}

#[test]
fn no_token_chooses_its_algorithm() {
    let said =
        "{\"iss\":\"https://id.example\",\"aud\":\"shop\",\"sub\":\"eve\",\"exp\":4102444800}";
    let plan = plan(&[SECRET, RSA, EC]);

    assert!(
        plan.verified(&token("{\"alg\":\"HS256\"}", said), at(0))
            .is_some()
    );
    for head in [
        "{\"alg\":\"none\"}",
        "{\"alg\":\"hs256\"}",
        "{\"alg\":\"RS256\"}",
        "{\"alg\":\"HS512\"}",
        "{\"alg\":\"HS256\",\"kid\":\"e\"}",
        "{\"alg\":\"HS256\",\"crit\":[\"b64\"]}",
        "{}",
    ] {
        assert_eq!(plan.verified(&token(head, said), at(0)), None, "{head}");
    }
}

#[test]
fn it_holds_from_its_beginning_to_its_end_and_for_those_it_is_for() {
    let plan = plan(&[SECRET]);
    let says = |said: &str| {
        let said = format!("{{\"sub\":\"a\",{said}}}");
        plan.verified(&token("{\"alg\":\"HS256\"}", &said), at(1_000))
            .is_some()
    };
    const OURS: &str = "\"iss\":\"https://id.example\",\"aud\":\"shop\"";

    assert!(says(&format!("{OURS},\"exp\":1001,\"nbf\":1030")));
    assert!(says(&format!("{OURS},\"exp\":970.5")));
    for (said, why) in [
        (OURS.to_owned(), "it never ends"),
        (format!("{OURS},\"exp\":970"), "it has ended"),
        (format!("{OURS},\"exp\":\"1001\""), "its end is no number"),
        (
            format!("{OURS},\"exp\":1001,\"nbf\":1031"),
            "it has not begun",
        ),
        (
            "\"iss\":\"https://id.example\",\"exp\":1001".to_owned(),
            "it is for nobody",
        ),
        (
            "\"aud\":[\"shop\"],\"exp\":1001".to_owned(),
            "it is from nobody",
        ),
        (
            "\"iss\":\"https://id.example\",\"aud\":[\"shops\"],\"exp\":1001".to_owned(),
            "it is for somebody else",
        ),
        (
            "\"iss\":\"https://id\",\"aud\":\"shop\",\"exp\":1001".to_owned(),
            "it is from somebody else",
        ),
    ] {
        assert!(!says(&said), "{why}");
    }
}

#[test]
fn it_is_found_after_its_scheme_or_in_a_header_of_its_own_and_is_not_endless() {
    let mut plan = plan(&[SECRET]);
    let found = |plan: &TokenPlan, line: &str| {
        let mut headers = HeaderMap::new();
        headers.append(plan.header.clone(), HeaderValue::from_str(line).unwrap());
        plan.claims(&headers, at(0)).is_some()
    };

    assert!(found(&plan, &format!("Bearer {HS256}")));
    assert!(found(&plan, &format!("bearer  {HS256}")));
    for other in ["Basic", "Bearer", ""] {
        assert!(!found(&plan, &format!("{other}{HS256}")), "{other}");
    }
    let long = format!(
        "{{\"iss\":\"https://id.example\",\"aud\":\"shop\",\"exp\":1,\"x\":\"{}\"}}",
        "x".repeat(TOKEN_BYTES_MAX)
    );
    assert!(!found(
        &plan,
        &format!("Bearer {}", token("{\"alg\":\"HS256\"}", &long))
    ));
    plan.header = HeaderName::from_static("x-token");
    assert!(found(&plan, HS256));
}

#[test]
fn keys_for_other_things_are_passed_over_and_bad_ones_are_not() {
    let parse = |keys: &str| TokenKeys::parse(&format!("{{\"keys\":[{keys}]}}"));
    let others = "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AA\"},\
                  {\"kty\":\"RSA\",\"use\":\"enc\",\"n\":\"AA\",\"e\":\"AQAB\"},\
                  {\"kty\":\"EC\",\"crv\":\"P-384\"}";

    let kept = parse(&format!("{others},{EC}")).unwrap();
    assert_eq!(format!("{kept:?}"), "TokenKeys(1)");
    for (keys, why) in [
        (others, "no key for HS256"),
        (
            "{\"kty\":\"oct\",\"k\":\"AAECAw\"}",
            "number 1 of `keys` is for HS256 and will not do: its secret",
        ),
        ("{\"kty\":\"oct\"}", "it has no k"),
        (
            "{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}",
            "2048 to 8192 bits",
        ),
        (
            "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AA\",\"y\":\"AA\"}",
            "32 bytes each",
        ),
        (
            "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"A=\",\"y\":\"AA\"}",
            "base64url",
        ),
        ("{}", "no JSON Web Key Set"),
    ] {
        let error = parse(keys).unwrap_err().to_string();
        assert!(error.contains(why), "{keys}: {error}");
    }
    assert!(parse(&[EC; KEYS_MAX + 1].join(",")).is_err());
    assert!(TokenKeys::parse("-----BEGIN PUBLIC KEY-----").is_err());
}

/// The key with other bytes in two of its members.
fn changed(
    key: &str,
    members: [&str; 2],
    change: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>),
) -> String {
    let mut jwk: Value = serde_json::from_str(key).unwrap();
    let [mut one, mut other] = members.map(|it| decoded(jwk[it].as_str().unwrap()).unwrap());
    change(&mut one, &mut other);
    for (member, bytes) in members.into_iter().zip([one, other]) {
        jwk[member] = URL_SAFE_NO_PAD.encode(bytes).into();
    }
    jwk.to_string()
}

fn rsa(change: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) -> String {
    changed(RSA, ["n", "e"], change)
}

fn ec(change: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) -> String {
    changed(EC, ["x", "y"], change)
}

#[test]
fn what_the_verifier_would_not_take_for_a_key_is_refused_with_the_key() {
    let parse = |key: &str| TokenKeys::parse(&format!("{{\"keys\":[{SECRET},{key}]}}"));
    // P-256 is over the numbers below this.
    let mut prime = [0xff; 32];
    prime[4..8].copy_from_slice(&[0, 0, 0, 1]);
    prime[8..20].fill(0);

    for (key, why) in [
        (ec(|_, y| y[31] ^= 1), "no point of P-256"),
        (ec(std::mem::swap), "no point of P-256"),
        (
            ec(|x, y| [x, y].iter_mut().for_each(|it| it.fill(0))),
            "no point of P-256",
        ),
        (ec(|x, _| *x = prime.to_vec()), "no point of P-256"),
        (rsa(|n, _| *n.last_mut().unwrap() -= 1), "is even"),
        (rsa(|n, _| n[0] = 0x7f), "2048 to 8192 bits"),
        (rsa(|n, _| n[0] = 0), "2048 to 8192 bits"),
        (rsa(|n, _| n.truncate(128)), "2048 to 8192 bits"),
        (rsa(|n, _| n.resize(1_025, 1)), "2048 to 8192 bits"),
        (rsa(|n, _| n.clear()), "2048 to 8192 bits"),
        (rsa(|_, e| e.clear()), "the exponent"),
        (rsa(|_, e| *e = vec![0]), "the exponent"),
        (rsa(|_, e| *e = vec![1]), "the exponent"),
        (rsa(|_, e| *e = vec![1, 0, 0]), "the exponent"),
        (rsa(|_, e| *e = vec![2, 0, 0, 0, 1]), "the exponent"),
        (rsa(|_, e| *e = vec![1; 9]), "the exponent"),
    ] {
        let error = parse(&key).unwrap_err().to_string();

        assert!(
            error.starts_with("key number 2 of `keys` is for "),
            "{key}: {error}"
        );
        assert!(error.contains(why), "{key}: {error}");
    }
    // At the bounds. Zeros before a number say nothing.
    for key in [
        rsa(|n, _| n.insert(0, 0)),
        rsa(|n, _| n.resize(1_024, 1)),
        rsa(|_, e| *e = vec![3]),
        rsa(|_, e| *e = vec![0, 1, 0xff, 0xff, 0xff, 0xff]),
    ] {
        parse(&key).unwrap_or_else(|error| panic!("{key}: {error}"));
    }
}
