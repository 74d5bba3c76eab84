//! A page about a language, taken apart.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use crate::process::TempDir;

/// What a test needs of a page. Its files are in the test's directory.
pub(super) struct Page {
    /// `tidegate.toml`.
    pub(super) configuration: String,
    /// The commands to try it.
    pub(super) script: String,
    /// What they print.
    pub(super) prints: String,
    /// Where the application is to listen.
    pub(super) application_port: u16,
}

impl Page {
    /// Reads the page and writes its files, with ports and a socket of the test's own in place of
    /// those that the page names.
    pub(super) fn read(language: &str, directory: &TempDir) -> Self {
        let path = format!("../../docs/languages/{language}.md");
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        let socket = directory.path().join("sidecar.sock");
        let [application_port, sidecar_port] = free_ports();
        let own = |block: &str| {
            block
                .replace("/run/tidegate/sidecar.sock", &socket.display().to_string())
                .replace("8000", &application_port.to_string())
                .replace("9091", &sidecar_port.to_string())
        };

        let (mut configuration, mut script, mut prints) = Default::default();
        for (mark, block) in blocks(&text) {
            match mark.split_once(' ') {
                Some(("file:", "tidegate.toml")) => configuration = own(&block),
                Some(("file:", name)) => drop(directory.write(name, &own(&block))),
                None if mark == "run" => script = block,
                None if mark == "prints" => prints = block,
                _ => panic!("{language}.md has a mark that means nothing: {mark}"),
            }
        }
        let state = directory.path().join("state");
        configuration += &format!("\n[store]\npath = \"{}\"\n", state.display());
        assert!(!script.is_empty() && !prints.is_empty());
        Self {
            configuration,
            script,
            prints,
            application_port,
        }
    }
}

/// The blocks of code that have a mark, `<!-- MARK -->`, in the line above.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mark = line
            .strip_prefix("<!-- ")
            .and_then(|rest| rest.strip_suffix(" -->"));
        let Some(mark) = mark else { continue };
        let fence = lines.next().unwrap();
        assert!(fence.starts_with("```"), "{mark} is about no block");
        let mut block = String::new();
        for line in lines.by_ref().take_while(|line| *line != "```") {
            block += line;
            block.push('\n');
        }
        blocks.push((mark.to_owned(), block));
    }
    blocks
}

/// Ports that nobody listens on, different from each other.
fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
