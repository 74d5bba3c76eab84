//! Whether this is a container: there the host's load says nothing of us.

use super::Roots;
use super::file::text_of;

/// What engines call the groups they put containers into.
const ENGINES: [&str; 8] = [
    "docker",
    "kubepods",
    "containerd",
    "libpod",
    "crio",
    "lxc",
    "garden",
    "machine.slice",
];
/// What a container's root usually is, and a machine's is not.
const LAYERS: [&str; 3] = ["overlay", "aufs", "fuse-overlayfs"];
/// Where engines leave a mark, below the root.
const MARKS: [&str; 2] = [".dockerenv", "run/.containerenv"];

/// What says that this is a container, if anything does.
pub fn in_container(roots: &Roots) -> Option<String> {
    let groups = text_of(&roots.proc.join("self/cgroup")).unwrap_or_default();
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    for path in paths {
        if let Some(engine) = ENGINES.iter().find(|engine| path.contains(*engine)) {
            return Some(format!("a group of processes of {engine}: {path}"));
        }
    }
    let mounts = text_of(&roots.proc.join("self/mountinfo")).unwrap_or_default();
    let layers = mounts
        .lines()
        .find_map(root_kind)
        .filter(|kind| LAYERS.contains(kind));
    if let Some(kind) = layers {
        return Some(format!("its root is mounted as {kind}"));
    }
    // As this process sees its root, which is ours unless another machine's files are looked at.
    let root = roots.proc.join("self/root");
    let mark = MARKS.iter().find(|mark| root.join(mark).exists());
    mark.map(|mark| format!("there is a file /{mark}"))
}

/// The kind of the filesystem at `/`: fields of a line stand before a hyphen, and the kind behind it.
fn root_kind(line: &str) -> Option<&str> {
    let (before, behind) = line.split_once(" - ")?;
    let is_root = before.split(' ').nth(4) == Some("/");
    is_root.then(|| behind.split(' ').next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::kernel::host::tests::Tree;

    #[test]
    fn engines_are_known_by_their_groups_and_by_what_the_root_is() {
        let tree = Tree::new();
        let plain = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n";
        tree.proc("self/cgroup", "0::/system.slice/tomcat10.service\n");
        tree.proc("self/mountinfo", plain);
        assert_eq!(in_container(&tree.roots()), None);

        tree.proc("self/cgroup", "4:memory:/docker/abc\n0::/\n");
        assert!(in_container(&tree.roots()).unwrap().contains("docker"));

        // A container with a namespace of groups sees itself at the top.
        tree.proc("self/cgroup", "0::/\n");
        let layered = "711 620 0:56 / / rw,relatime - overlay overlay rw,lowerdir=x\n";
        tree.proc("self/mountinfo", layered);
        assert!(in_container(&tree.roots()).unwrap().contains("overlay"));

        tree.proc("self/mountinfo", plain);
        tree.proc(&["self", "root", ".dockerenv"].join("/"), "");
        assert!(in_container(&tree.roots()).unwrap().contains(".dockerenv"));
    }
}
