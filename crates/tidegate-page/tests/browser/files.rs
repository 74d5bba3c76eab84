//! The page as a file that somebody else serves, with the gateway gone.

use tidegate_core::room::RoomName;
use tidegate_page::{Language, Pages, Theme};

use crate::browser::Browser;
use crate::site::Site;

#[test]
fn the_exported_file_stands_by_itself_and_explains() {
    let folder = std::env::temp_dir().join(format!("tidegate-page-file-{}", std::process::id()));
    let pages = Pages::new(&RoomName::new("shop").unwrap(), &Theme::default()).unwrap();
    let exported = pages.export(&folder).unwrap();
    let english = format!("{}.{}.html", pages.hash(), Language::En);
    let file = exported
        .files
        .iter()
        .find(|file| file.ends_with(&english))
        .unwrap();
    let browser = Browser::start();

    // Nothing answers it: no room, no gateway, not even a server.
    browser.go(&format!("file://{}", folder.join(file).display()));

    browser.until_state("away");
    assert_eq!(browser.text("head"), "We cannot reach the line right now");
    assert!(browser.told().contains("Keep this page open"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn nothing_is_asked_of_anybody_else_and_the_policy_is_kept() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.before_pages(
        "window.broken = []; document.addEventListener('securitypolicyviolation', event => broken.push(event.violatedDirective));",
    );
    browser.go(&site.url("/"));
    browser.until_state("waiting");
    site.hears("room", 2);

    let asked = "performance.getEntriesByType('resource').map(entry => new URL(entry.name)).filter(url => url.host !== location.host && url.protocol !== 'data:').length";
    assert_eq!(browser.eval(asked), 0);
    assert_eq!(browser.eval("broken"), serde_json::json!([]));
    // The policy is there: what is not in it does not run.
    browser.run("const script = document.createElement('script'); script.textContent = 'window.foreign = 1'; document.body.append(script);");
    assert_eq!(browser.eval("typeof window.foreign"), "undefined");
    assert_ne!(browser.eval("broken.length"), 0);
}
