use super::*;

/// What files make, or why they make nothing.
fn imported(files: &[(&str, &str)]) -> Result<String, String> {
    let mut import = Import::default();
    let mut origins = Vec::new();
    for (name, text) in files {
        let origin = looks_like(text);
        match origin {
            Origin::Ratelimit => ratelimit::read(&mut import, name, text),
            Origin::Limitador => limitador::read(&mut import, name, text),
        }
        .map_err(|error| format!("{error:#}"))?;
        origins.push(origin);
    }
    import
        .refuse_problems()
        .map_err(|error| error.to_string())?;
    import.name();
    let names: Vec<PathBuf> = files.iter().map(|(name, _)| PathBuf::from(name)).collect();
    let page = page::Page {
        import: &import,
        files: &names,
        origins: &origins,
    };
    let page = page.to_string();
    check(&page).map_err(|error| format!("{error:#}\n{page}"))?;
    Ok(page)
}

/// The sections of the limits alone.
fn limits(files: &[(&str, &str)]) -> String {
    let page = imported(files).unwrap_or_else(|why| panic!("{why}"));
    let at = page.find("[[rls.limit]]").unwrap();
    page[at..].to_owned()
}

const SHOP: &str = r#"
domain: shop
descriptors:
  - key: path
    value: /login
    rate_limit:
      name: login
      unit: minute
      requests_per_unit: 100
    descriptors:
      - key: remote_address
        rate_limit: { unit: Minute, requests_per_unit: 10 }
        detailed_metric: true
  - key: path
    value: /health
    rate_limit: { unlimited: true }
  - key: path
    value: /api/*
    share_threshold: true
    shadow_mode: true
    rate_limit:
      unit: week
      requests_per_unit: 7000
      replaces:
        - name: login
        - name: gone
  - key: banned
    rate_limit: { unit: day, requests_per_unit: 0 }
"#;

#[test]
fn a_tree_of_descriptors_becomes_a_list_of_limits() {
    let expected = r#"[[rls.limit]]
name = "login"
domain = "shop"
descriptor = [{ key = "path", value = "/login" }]
rate = "100/min"

[[rls.limit]]
# detailed_metric has no equivalent: metrics have the limit's name and no value
name = "shop.path_-login.remote_address"
domain = "shop"
descriptor = [{ key = "path", value = "/login" }, { key = "remote_address" }]
rate = "10/min"

[[rls.limit]]
name = "shop.path_-health"
domain = "shop"
descriptor = [{ key = "path", value = "/health" }]
unlimited = true

[[rls.limit]]
name = "shop.path_-api-"
domain = "shop"
descriptor = [{ key = "path", prefix = "/api/", together = true }]
rate = "7000/7day"
shadow = true
# It replaced "gone", which there is not.
replaces = ["login"]

[[rls.limit]]
name = "shop.banned"
domain = "shop"
descriptor = [{ key = "banned" }]
rate = "0/day"
"#;

    assert_eq!(limits(&[("shop.yaml", SHOP)]), expected);
}

#[test]
fn several_files_are_several_domains_with_names_of_their_own() {
    let other = "domain: mail\ndescriptors:\n- {key: k, rate_limit: {name: login, unit: hour, requests_per_unit: 3}}\n";

    let page = imported(&[("shop.yaml", SHOP), ("mail.yaml", other)]).unwrap();

    assert!(page.contains("domains = [\"shop\", \"mail\"]"), "{page}");
    assert!(
        page.contains("name = \"login-2\"\n# It was called \"login\".\n"),
        "{page}"
    );
    let twice = imported(&[("a.yaml", other), ("b.yaml", other)]).unwrap_err();
    assert!(
        twice.contains("b.yaml: a second domain \"mail\""),
        "{twice}"
    );
}

#[test]
fn what_would_count_otherwise_is_refused_with_its_place() {
    let text = "domain: a\ndescriptors:\n- key: k\n  quota_mode: true\n  rate_limit: {unit: fortnight, requests_per_unit: 1}\n\
                - key: l\n  share_threshold: true\n  rate_limit: {unit: day, requests_per_unit: 1}\n";

    let why = imported(&[("a.yaml", text)]).unwrap_err();

    assert!(
        why.starts_with("cannot be carried over: a.yaml line 3: quota_mode"),
        "{why}"
    );
    assert!(
        why.contains("a.yaml line 3: the unit \"fortnight\""),
        "{why}"
    );
    assert!(
        why.contains("a.yaml line 6: share_threshold without"),
        "{why}"
    );
    let unknown = imported(&[("a.yaml", "domain: a\nsurprise: 1\n")]).unwrap_err();
    assert!(unknown.contains("surprise"), "{unknown}");
    let broken = imported(&[("a.yaml", "domain: [a\n")]).unwrap_err();
    assert!(broken.contains("a.yaml is no file"), "{broken}");
}

const LIMITADOR: &str = r#"---
- namespace: shop
  max_value: 1000
  seconds: 60
  conditions:
  variables:
- namespace: shop
  name: "POST by user"
  max_value: 5
  seconds: 86400
  conditions:
    - "descriptors[0]['req.method'] == 'POST'"
    - descriptors[0].path != "/health"
  variables:
    - user_id
    - descriptors[0]['req.method']
"#;

#[test]
fn conditions_and_variables_become_parts_of_descriptors() {
    let expected = r#"[[rls.limit]]
name = "shop"
domain = "shop"
descriptor = []
match = "part"
rate = "1000/min"

[[rls.limit]]
name = "POST-by-user"
# It was called "POST by user".
domain = "shop"
descriptor = [{ key = "req.method", value = "POST" }, { key = "path", not = "/health" }, { key = "user_id" }]
match = "part"
rate = "5/day"
"#;

    assert_eq!(limits(&[("limits.yaml", LIMITADOR)]), expected);
}

#[test]
fn what_limitador_can_say_and_we_cannot_is_refused() {
    for (key, text) in [
        ("conditions", "descriptors[1].a == 'b'"),
        ("conditions", "a == 'b' && c == 'd'"),
        ("conditions", "a.startsWith('b')"),
        ("conditions", "a == b"),
        ("variables", "descriptors[0].a + 'x'"),
    ] {
        let limit =
            format!("- namespace: n\n  max_value: 1\n  seconds: 1\n  {key}:\n    - \"{text}\"\n");
        let why = imported(&[("l.yaml", &limit)]).unwrap_err();
        assert!(why.contains(text) && why.contains("l.yaml line 1"), "{why}");
    }
    let never = "- {namespace: n, max_value: 1, seconds: 0}\n";
    assert!(
        imported(&[("l.yaml", never)])
            .unwrap_err()
            .contains("0 seconds")
    );
}

#[test]
fn names_are_short_plain_and_nobody_elses() {
    assert_eq!(plain("a b/c\u{e4}"), "a-b-c-");
    assert_eq!(plain(""), "limit");
    let long = "x".repeat(200);
    let one = format!("- {{namespace: {long}, max_value: 1, seconds: 1}}\n");
    let three = one.repeat(3);

    let why = imported(&[("l.yaml", &three)]).unwrap_err();

    // Our domains are shorter, and say so.
    assert!(why.contains("no name of a domain"), "{why}");
}
