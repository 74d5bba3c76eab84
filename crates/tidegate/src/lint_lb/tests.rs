use super::*;

#[test]
fn whose_a_file_is_can_be_seen() {
    for text in [
        "static_resources:\n",
        "# x\n---\nadmin: {}\n",
        "{\"admin\": 1}",
        "\u{feff}\n\"admin\": 1",
        "%YAML 1.2\n",
    ] {
        assert_eq!(looks_like(text), Balancer::Envoy, "{text}");
    }
    for text in ["global\n", "# a: b\n\ndefaults x\n", "backend a:b\n", ""] {
        assert_eq!(looks_like(text), Balancer::Haproxy, "{text}");
    }
}

#[test]
fn a_page_says_where_and_why_and_what_instead() {
    let text = "backend x\n balance static-rr\n server a h:1 check agent-check weight 100\n";
    let (balancer, findings) = lint(text, None, false).unwrap();

    let page = text_page("lb.cfg", balancer, &findings);

    let begins =
        "lb.cfg:2:10: backend x has agents and `balance static-rr` [ignored-weight]\n    why: ";
    assert!(page.starts_with(begins), "{page}");
    assert!(page.contains("\n    fix: "), "{page}");
    assert!(page.ends_with("lb.cfg: 1 trap"), "{page}");
}

#[test]
fn many_findings_are_counted_and_not_all_shown() {
    let servers: String = (0..300)
        .map(|at| format!(" server s{at} h:1 check weight 0\n"))
        .collect();
    let text = format!("backend x\n option redispatch\n{servers}");
    let (balancer, findings) = lint(&text, None, false).unwrap();

    let page = text_page("lb.cfg", balancer, &findings);

    assert_eq!(findings.len(), 300);
    assert!(
        page.ends_with("300 traps, of which 200 are shown"),
        "{page}"
    );
    assert_eq!(page.matches("[zero-weight]").count(), 200);
}

#[test]
fn names_of_a_file_do_nothing_to_a_terminal() {
    let text = "backend \u{1b}[2J\n server \u{202e}b h:1 check weight 0\n server c h:1 check\n";
    let (balancer, findings) = lint(text, None, false).unwrap();

    let page = text_page("lb.cfg", balancer, &findings);

    assert!(
        !page.contains('\u{1b}') && !page.contains('\u{202e}'),
        "{page}"
    );
}

#[test]
fn what_is_nothing_of_either_is_unreadable() {
    for text in [
        "",
        "lorem ipsum\n",
        "a: 1\n",
        "{\"a\": [1, 2}",
        "[]",
        "backend x\n server \"a\n",
    ] {
        assert!(lint(text, None, false).is_err(), "{text}");
    }
}

#[test]
fn large_and_strange_files_come_to_an_end() {
    let long = "x ".repeat(1_000_000);
    assert!(lint(&format!("backend x\n{long}\n"), None, false).is_err());
    let wide = format!("backend x\n server {} h:1 check\n", "a".repeat(1_000_000));
    assert!(lint(&wide, None, false).is_ok());
    let many: String = (0..50_000)
        .map(|at| format!("backend b{at}\n server a h:1\n"))
        .collect();
    assert!(lint(&many, None, false).unwrap().1.is_empty());
    let names: String = (0..3_000)
        .map(|at| format!("defaults d{at}\n mode http\n"))
        .collect();
    assert!(lint(&names, None, false).is_ok());
}

#[test]
fn a_backend_of_many_servers_takes_as_long_as_it_has_lines() {
    let servers: String = (0..100_000)
        .map(|at| format!(" server s{at} h:1 check agent-check weight 100\n"))
        .collect();
    let huge = format!(" server-template t {} h:1 check\n", usize::MAX);
    let text = format!("backend x\n option redispatch\n{servers}{huge}{huge}");
    let begun = std::time::Instant::now();

    let (_, findings) = lint(&text, None, false).unwrap();

    assert!(findings.is_empty(), "{:?}", findings.first());
    // A tenth of a second; were each server counted anew for each it would be a minute and a half.
    assert!(begun.elapsed() < std::time::Duration::from_secs(10));
}
