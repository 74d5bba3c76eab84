//! Where applications on this machine ask for more: `[sidecar]`.

use std::net::SocketAddr;

use tidegate_fleet::SidecarPlan;

use super::keys::sessions::SIDECAR;
use super::listener::usize_of;
use super::local::{self, Example};
use super::problem::Problems;
use super::section::Section;

const EXAMPLE: Example = Example {
    socket: "unix:/run/tidegate/sidecar.sock",
    address: "127.0.0.1:9091",
    exposed: "other machines would reach every session without a password",
};

/// The section `[sidecar]` of `root`, if there is one. `own` are the addresses that are taken;
/// it is `wanted` where there is something to ask for.
pub(crate) fn sidecar(
    root: &Section<'_>,
    own: &[SocketAddr],
    wanted: bool,
    problems: &Problems,
) -> Option<SidecarPlan> {
    let node = root.node("sidecar")?;
    let section = Section::new("[sidecar]", node, SIDECAR, &[], problems);
    if !wanted {
        problems.add(
            &node.origin,
            "[sidecar] has no effect: there are no sessions to ask for, no permits and no fleet",
            "add a section [sessions], a [fleet] or a [[dependency]], or remove [sidecar]",
        );
    }
    Some(SidecarPlan {
        listen: local::listen(&section, &EXAMPLE, own),
        connections_max: section.count("connections_max") as usize,
        requests_max: section.count("requests_max") as usize,
        body_bytes_max: usize_of(section.bytes("body_max")),
        timeout: section.span("timeout"),
    })
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{MINIMAL, errors, setup};

    use tidegate_fleet::Listen;

    use super::super::local::SOCKET_PATH_LEN_MAX;

    #[test]
    fn only_this_machine_reaches_a_sidecar() {
        let listen = |text: &str| {
            let setup = setup(&format!(
                "{MINIMAL}[sessions]\n[sidecar]\nlisten = \"{text}\"\n"
            ));
            setup.sidecar.unwrap().listen
        };
        assert_eq!(
            listen("unix:/run/t.sock"),
            Listen::Socket("/run/t.sock".into())
        );
        assert_eq!(listen("[::1]:9091").to_string(), "[::1]:9091");

        for (text, why) in [
            ("0.0.0.0:9091", "without a password"),
            ("10.0.0.1:9091", "without a password"),
            ("unix:sidecar.sock", "no whole path"),
            ("unix:/run/", "no whole path"),
            ("localhost:9091", "neither a socket's path nor an address"),
            ("/run/t.sock", "neither a socket's path nor an address"),
            ("127.0.0.1:9090", "taken by a listener"),
            ("127.0.0.1:8080", "taken by a listener"),
        ] {
            let text = format!("{MINIMAL}[sessions]\n[sidecar]\nlisten = \"{text}\"\n");
            let errors = errors(&text);
            assert_eq!(errors.len(), 1, "{errors:#?}");
            assert!(errors[0].1.contains(why), "{errors:#?}");
        }
        let long = format!("unix:/{}", "x".repeat(SOCKET_PATH_LEN_MAX));
        let text = format!("{MINIMAL}[sessions]\n[sidecar]\nlisten = \"{long}\"\n");
        assert!(errors(&text)[0].1.contains("too long"));
    }

    #[test]
    fn a_sidecar_without_sessions_is_refused() {
        let errors = errors(&format!(
            "{MINIMAL}[sidecar]\nlisten = \"unix:/run/t.sock\"\n"
        ));

        assert_eq!(errors.len(), 1);
        assert!(errors[0].1.contains("no sessions to ask for"));
    }

    #[test]
    fn an_application_is_not_at_the_sidecars_address() {
        let text = format!("{MINIMAL}[sessions]\n[sidecar]\nlisten = \"127.0.0.1:8000\"\n");

        assert!(errors(&text)[0].1.contains("Tidegate's own"));
    }
}
