//! Answers of Tomcat's JMX proxy, which is text for people.

/// A bean with the attributes that were printed: their names in lower case, since servers differ in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bean<'a> {
    pub(super) name: &'a str,
    attributes: Vec<(String, &'a str)>,
}

/// Beans of one answer.
const BEANS_MAX: usize = 64;
/// Attributes of a bean.
const ATTRIBUTES_MAX: usize = 128;

impl Bean<'_> {
    /// The number that the first of `names` has that is there.
    pub(super) fn number(&self, names: &[&str]) -> Option<f64> {
        names.iter().find_map(|name| {
            let attribute = self.attributes.iter().find(|(its, _)| its == name)?;
            attribute.1.parse().ok()
        })
    }
}

/// The beans of an answer to `qry`. A bean begins behind an empty line: it may have an attribute `Name`, too.
pub(super) fn beans(answer: &str) -> Vec<Bean<'_>> {
    let mut beans: Vec<Bean<'_>> = Vec::new();
    let mut behind_empty = false;
    for line in answer.lines() {
        let line = line.trim_end();
        if let Some(name) = line.strip_prefix("Name: ").filter(|_| behind_empty) {
            if beans.len() == BEANS_MAX {
                break;
            }
            beans.push(Bean {
                name,
                attributes: Vec::new(),
            });
        } else if let Some((name, value)) = line.split_once(": ")
            && let Some(bean) = beans.last_mut()
            && bean.attributes.len() < ATTRIBUTES_MAX
        {
            bean.attributes.push((name.to_ascii_lowercase(), value));
        }
        behind_empty = line.is_empty();
    }
    beans
}

/// The value in an answer to `get`.
pub(super) fn value(answer: &str) -> Option<&str> {
    let line = answer
        .lines()
        .next()?
        .strip_prefix("OK - Attribute get '")?;
    Some(line.rsplit_once("' - ")?.1.split_once(" = ")?.1.trim())
}

/// The number at `key` of a value that has several parts.
pub(super) fn part(value: &str, key: &str) -> Option<f64> {
    let contents = value.rsplit_once("contents={")?.1.split_once('}')?.0;
    let mut parts = contents.split(", ").filter_map(|part| part.split_once('='));
    let (_, number) = parts.find(|(name, _)| *name == key)?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beans_are_told_apart_though_they_have_names_of_their_own() {
        let answer = "OK - Number of results: 2\n\nName: java.lang:name=G1 Old Generation,type=GarbageCollector\n\
                      Name: G1 Old Generation\nCollectionTime: 7\n\nName: Catalina:type=DataSource\nnumActive: 3\n\
                      maxTotal: 8\n\n";

        let beans = beans(answer);

        assert_eq!(beans.len(), 2);
        assert_eq!(beans[0].number(&["collectiontime"]), Some(7.0));
        assert_eq!(beans[1].name, "Catalina:type=DataSource");
        assert_eq!(beans[1].number(&["maxactive", "maxtotal"]), Some(8.0));
        assert_eq!(beans[1].number(&["waitcount"]), None);
    }

    #[test]
    fn values_are_read_and_errors_are_none() {
        let time = "OK - Attribute get 'java.lang:name=G1 Young Generation,type=GarbageCollector' - CollectionTime = 48\n";
        let usage = "OK - Attribute get 'java.lang:name=G1 Old Gen,type=MemoryPool' - CollectionUsage = \
                     javax.management.openmbean.CompositeDataSupport(compositeType=x(items=((itemName=used))),\
                     contents={committed=0, init=126877696, max=134217728, used=-1})\n";

        assert_eq!(value(time), Some("48"));
        let usage = value(usage).unwrap();
        assert_eq!(
            (part(usage, "used"), part(usage, "max")),
            (Some(-1.0), Some(134_217_728.0))
        );
        assert_eq!(part(usage, "free"), None);
        assert_eq!(
            value("Error - javax.management.InstanceNotFoundException: x - y = z\n"),
            None
        );
    }
}
