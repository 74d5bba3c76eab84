//! The examples in deploy/ and examples/ are ones that their programs take.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::output;

fn at_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
        .canonicalize()
        .unwrap()
}

/// A program of Debian's that may be where only root looks.
fn system(name: &str) -> Command {
    let path = ["/usr/sbin", "/usr/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name));
    let path = path.into_iter().find(|path| path.exists());
    Command::new(path.unwrap_or_else(|| panic!("{name} is missing; ./test installs it")))
}

#[test]
fn haproxy_takes_the_example_for_it() {
    let checked = system("haproxy")
        .args(["-c", "-f"])
        .arg(at_root("deploy/haproxy.cfg"))
        .output()
        .unwrap();

    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

#[test]
fn nginx_takes_the_example_for_it() {
    let checked = system("nginx")
        .args(["-t", "-e", "stderr", "-c"])
        .arg(at_root("deploy/nginx.conf"))
        .output()
        .unwrap();

    // Whether it could write its process id does not matter here.
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(said.contains("syntax is ok"), "{said}");
}

#[test]
fn every_example_configuration_is_sound() {
    for entry in at_root("examples").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        // A shape is for `tidegate sim --shape` to read.
        if name.ends_with(".toml") && !name.starts_with("shape-") {
            let checked = output(&["check", path.to_str().unwrap()]);
            assert_eq!(
                checked.status.code(),
                Some(0),
                "{}",
                String::from_utf8_lossy(&checked.stderr)
            );
        }
    }
}
