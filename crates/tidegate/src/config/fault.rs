//! What is wrong with what a configuration names, such as a file of keys: found once the configuration itself is sound, and
//! told at the place that names it.

use toml::de::DeTable;

use super::problem::{Problems, Refused};
use super::tree::{Node, Origin, Value};

/// Something that is named and will not do.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The keys that may name it, each behind the sections that it is in; the first that there is does.
    pub(crate) named: Vec<Vec<&'static str>>,
    /// Of each list of sections on the way the one that it is about, in their order.
    pub(crate) at: Vec<usize>,
    pub(crate) message: String,
    pub(crate) fix: &'static str,
}

/// The refusal of the configuration `file` with content `text` for `faults` of what it names.
pub(crate) fn faulty(file: &str, text: &str, faults: Vec<Fault>) -> Refused {
    let problems = Problems::default();
    let (document, _) = DeTable::parse_recoverable(text);
    let root = Node::of_document(&document);
    for fault in faults {
        let find = |path: &Vec<&'static str>| place(&root, path, &fault.at);
        let named = fault.named.iter().find_map(find);
        problems.add(named.unwrap_or(&root.origin), fault.message, fault.fix);
    }
    problems.refused(file, text)
}

/// Where the value is that `path` leads to, by way of the elements `at` of lists.
fn place<'n>(root: &'n Node, path: &[&str], at: &[usize]) -> Option<&'n Origin> {
    let (mut node, mut at) = (root, at.iter());
    for key in path {
        let Value::Table(entries) = &node.value else {
            return None;
        };
        node = &entries.iter().find(|entry| entry.key == *key)?.node;
        if let Value::List(items) = &node.value
            && let Some(at) = at.next()
        {
            node = items.get(*at)?;
        }
    }
    Some(&node.origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_told_at_the_key_that_names_it() {
        let text = "[store]\npassword_file = \"/p\"\n[store.limits]\nurl = \"redis://a\"\n";
        let fault = |used: &'static str| Fault {
            named: vec![
                vec!["store", used, "password_file"],
                vec!["store", "password_file"],
            ],
            at: Vec::new(),
            message: format!("of {used}"),
            fix: "name another one",
        };

        let page = faulty("t.toml", text, vec![fault("limits")]).to_string();
        assert!(
            page.starts_with("error: of limits\n --> t.toml:2:17\n"),
            "{page}"
        );
        let nearer = text.to_owned() + "password_file = \"/q\"\n";
        let page = faulty("t.toml", &nearer, vec![fault("limits"), fault("bus")]).to_string();
        assert!(
            page.contains("error: of limits\n --> t.toml:5:17\n"),
            "{page}"
        );
        assert!(page.contains("error: of bus\n --> t.toml:2:17\n"), "{page}");
    }

    #[test]
    fn a_fault_in_a_list_of_sections_is_told_at_the_one_that_it_is_about() {
        let text = "[[room]]\nkey_file = \"a\"\n[[room.webhook]]\nsecret_file = \"b\"\n\
                    [[room]]\nkey_file = \"c\"\n[[room.webhook]]\nsecret_file = \"d\"\n\
                    [[room.webhook]]\nsecret_file = \"e\"\n";
        let told = |named: &[&'static str], at: &[usize]| {
            let fault = Fault {
                named: vec![named.to_vec()],
                at: at.to_vec(),
                message: "bad".to_owned(),
                fix: "name another one",
            };
            faulty("t.toml", text, vec![fault]).to_string()
        };

        for (named, at, place) in [
            (vec!["room", "key_file"], vec![0], "t.toml:2:12"),
            (vec!["room", "key_file"], vec![1], "t.toml:6:12"),
            (
                vec!["room", "webhook", "secret_file"],
                vec![0, 0],
                "t.toml:4:15",
            ),
            (
                vec!["room", "webhook", "secret_file"],
                vec![1, 1],
                "t.toml:10:15",
            ),
        ] {
            let page = told(&named, &at);
            assert!(page.contains(place), "{at:?}: {page}");
        }
    }
}
