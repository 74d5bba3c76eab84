//! `tidegate room export`.

use std::fs;

use crate::process::{TempDir, tidegate};

#[test]
fn a_rooms_page_is_exported_with_its_theme() {
    let directory = TempDir::new();
    directory.write("logo.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>");
    directory.write(
        "theme.toml",
        "name = 'Harbour'\nlogo = 'logo.svg'\n[light]\naccent = '#036'\n",
    );
    let to = directory.path().join("out");

    let mut command = tidegate();
    command
        .args(["room", "export", "--room", "shop", "--dir"])
        .arg(&to);
    let output = command
        .arg("--theme")
        .arg(directory.path().join("theme.toml"))
        .output()
        .unwrap();

    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(told.starts_with("33 files below "), "{told}");
    assert!(
        told.contains("Content-Security-Policy: default-src 'none'; script-src 'sha256-"),
        "{told}"
    );
    let index = fs::read(to.join("w/shop/index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let page = fs::read_to_string(to.join(index["pages"]["he"].as_str().unwrap())).unwrap();
    assert!(
        page.contains("<img src=\"data:image/svg+xml;base64,PHN2"),
        "{page}"
    );
    assert!(page.contains("--accent:#003366;"));
}

#[test]
fn a_theme_that_nobody_could_read_is_refused_with_its_figure() {
    let directory = TempDir::new();
    directory.write("theme.toml", "[dark]\nink = '#222222'\n");

    let mut command = tidegate();
    command
        .args(["room", "export", "--room", "shop", "--dir"])
        .arg(directory.path());
    let output = command
        .arg("--theme")
        .arg(directory.path().join("theme.toml"))
        .output()
        .unwrap();

    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        told.contains("ink on card (dark) has a contrast of 1."),
        "{told}"
    );
    assert!(!directory.path().join("w").exists());
}
