//! Tomcat's manager: threads of each connector from its status, and everything else from its JMX proxy.
//!
//! `connectionCount` and `keepAliveCount`, which stand beside the threads, tell nothing: of a Tomcat whose five threads
//! were all busy with twenty requests, they said that twenty connections were idle.

use tidegate_core::health::Dimension;
use tidegate_core::time::Mono;

use super::http::{Client, Session, in_query, text};
use super::jmx::{Bean, beans, part, value};
use super::names::{is_old, stops_the_world};
use super::{Budgets, ProbeError, is_count, without_asking};
use crate::agent::sight::{Blank, Sight};

/// Asks for both: a manager that knows no JSON answers in XML, and one that knows it takes the last word.
const STATUS: &str = "/status?XML=true&JSON=true";
const COLLECTORS: &str = "java.lang:type=GarbageCollector,*";
/// Pools of connections: Tomcat's usual ones by what is inside of them, others by their faces, each of a context and of
/// the whole server, and those that applications bring themselves.
///
/// Never `*:type=DataSource,*`: every connection is a bean as well, and for each that is idle Tomcat writes a page about
/// it to its log when it is asked.
const POOLS: [&str; 5] = [
    "*:type=DataSource,host=*,context=*,class=*,name=*,connectionpool=*",
    "*:type=DataSource,class=*,name=*,connectionpool=*",
    "*:type=DataSource,host=*,context=*,class=*,name=*",
    "*:type=DataSource,class=*,name=*",
    "com.zaxxer.hikari:*",
];
/// What the name of a pool inside of another bean has behind that one's.
const INSIDE: &str = ",connectionpool=";
/// Collectors that are asked.
const COLLECTORS_MAX: usize = 4;
/// Connectors that are looked at.
const CONNECTORS_MAX: usize = 32;
/// Looks after which it is found out again what there is to ask: an application may have come.
const DISCOVERY_LOOKS: u32 = 60;

/// Asks the manager.
pub(super) struct Tomcat {
    client: Client,
    beans: Beans,
}

/// What is asked of the JMX proxy, and what it said last.
struct Beans {
    budgets: Budgets,
    looks: u32,
    collectors: Vec<String>,
    old_pool: Option<String>,
    /// Which of [`POOLS`] had any.
    pools: Vec<&'static str>,
    /// Which of them are still to be asked whether they have: a look may end before all were.
    undiscovered: Vec<&'static str>,
    /// Connections that each pool had lent by the last look.
    lent: Lent,
    /// When, and the milliseconds that collections had taken by then.
    last: Option<(Mono, f64)>,
}

/// Connections lent so far, by the bean of the pool.
type Lent = Vec<(String, f64)>;

/// The threads of a connector.
#[derive(Clone, Debug, PartialEq)]
struct Connector {
    name: String,
    busy: f64,
    most: f64,
}

/// What a status says.
#[derive(Debug, Default, PartialEq)]
struct Status {
    connectors: Vec<Connector>,
    old_pool: Option<String>,
}

impl Tomcat {
    pub(super) const fn new(client: Client, budgets: Budgets) -> Self {
        let beans = Beans {
            budgets,
            looks: 0,
            collectors: Vec::new(),
            old_pool: None,
            pools: Vec::new(),
            undiscovered: Vec::new(),
            lent: Vec::new(),
            last: None,
        };
        Self { client, beans }
    }

    pub(super) async fn look(
        &mut self,
        now: Mono,
        sights: &mut Vec<Sight>,
    ) -> Result<(), ProbeError> {
        let Self { client, beans } = self;
        let mut session = client.connect().await?;
        let answer = session.get(&client.url().below(STATUS)).await?;
        let status = Status::parse(text(&answer)?)?;
        let ours = format!("-{}", client.url().port());
        for connector in &status.connectors {
            // The question itself keeps a thread of the connector that it came by.
            let asking = f64::from(u8::from(connector.name.ends_with(&ours)));
            let busy = without_asking(connector.busy, asking);
            let source = format!("Tomcat's {}", connector.name);
            sights.push(Sight::of(
                Dimension::Threads,
                (busy, connector.most),
                source,
                now,
            ));
        }
        let proxy = Proxy {
            path: client.url().below("/jmxproxy/"),
            session,
        };
        beans.look(proxy, status.old_pool, now, sights).await
    }
}

/// The way to the JMX proxy.
struct Proxy<'a> {
    path: String,
    session: Session<'a>,
}

impl Proxy<'_> {
    async fn query(&mut self, pattern: &str) -> Result<bytes::Bytes, ProbeError> {
        self.session
            .get(&format!("{}?qry={}", self.path, in_query(pattern)))
            .await
    }

    async fn attribute(&mut self, bean: &str, attribute: &str) -> Result<bytes::Bytes, ProbeError> {
        let target = format!("{}?get={}&att={attribute}", self.path, in_query(bean));
        self.session.get(&target).await
    }
}

impl Beans {
    async fn look(
        &mut self,
        mut proxy: Proxy<'_>,
        old_pool: Option<String>,
        now: Mono,
        sights: &mut Vec<Sight>,
    ) -> Result<(), ProbeError> {
        let discovers = self.looks.is_multiple_of(DISCOVERY_LOOKS) || self.collectors.is_empty();
        self.looks = self.looks.wrapping_add(1);
        if old_pool.is_some() {
            self.old_pool = old_pool;
        }
        if discovers {
            self.undiscovered = POOLS.to_vec();
            let answer = proxy.query(COLLECTORS).await?;
            let found = beans(text(&answer)?);
            let found = found
                .iter()
                .map(|bean| bean.name)
                .filter(|name| stops_the_world(name));
            self.collectors = found.take(COLLECTORS_MAX).map(str::to_owned).collect();
        }
        // All of them or none: with one that does not tell for once, the sum would fall, and then grow by all that this one
        // has ever taken.
        let mut spent = (!self.collectors.is_empty()).then_some(0.0);
        for collector in &self.collectors {
            let answer = proxy.attribute(collector, "CollectionTime").await?;
            let ms: Option<f64> = value(text(&answer)?).and_then(|ms| ms.parse().ok());
            spent = spent.zip(ms).map(|(spent, ms)| spent + ms);
        }
        sights.push(collections(&mut self.last, spent, self.budgets, now));
        if let Some(pool) = &self.old_pool {
            let bean = format!("java.lang:name={pool},type=MemoryPool");
            let answer = proxy.attribute(&bean, "CollectionUsage").await?;
            sights.push(old_generation(value(text(&answer)?), pool, now));
        }
        let begun = sights.len();
        let mut lent = Lent::new();
        for pattern in POOLS {
            if self.undiscovered.contains(&pattern) || self.pools.contains(&pattern) {
                let answer = proxy.query(pattern).await?;
                let beans = beans(text(&answer)?);
                self.undiscovered.retain(|it| *it != pattern);
                let known = sights.len();
                pools(&beans, self.budgets, now, (&self.lent, &mut lent), sights);
                self.pools.retain(|it| *it != pattern);
                if sights.len() > known {
                    self.pools.push(pattern);
                }
            }
        }
        self.lent = lent;
        if sights.len() == begun {
            let blank = Blank::unsupported("no pool of connections shows itself by JMX");
            sights.push(Sight::blank(
                Dimension::Pool,
                blank,
                "Tomcat's JMX proxy",
                now,
            ));
        }
        Ok(())
    }
}

/// The share of time that collections took since the last look.
fn collections(
    last: &mut Option<(Mono, f64)>,
    spent: Option<f64>,
    budgets: Budgets,
    now: Mono,
) -> Sight {
    let source = "CollectionTime";
    let Some(spent) = spent else {
        *last = None;
        let blank = Blank::error("no collector tells how long it took");
        return Sight::blank(Dimension::Gc, blank, source, now);
    };
    // What cannot be is shown as it is, and nothing is compared with it later.
    if !is_count(spent) {
        *last = None;
        return Sight::of(Dimension::Gc, (spent, budgets.gc_share), source, now);
    }
    let share = last.and_then(|(at, before)| {
        let since = now.since(at).as_secs_f64() * 1_000.0;
        (since > 0.0 && spent >= before).then(|| (spent - before) / since)
    });
    *last = Some((now, spent));
    let figures = share
        .map(|share| (share, budgets.gc_share))
        .ok_or_else(Blank::first_look);
    Sight::read(Dimension::Gc, figures, source, now)
}

/// What a collection left in the old generation. G1 tells zero until it has collected some of it.
fn old_generation(usage: Option<&str>, pool: &str, now: Mono) -> Sight {
    let source = format!("CollectionUsage of {pool}");
    let parts = usage.and_then(|usage| Some((part(usage, "used")?, part(usage, "max")?)));
    let read = match parts {
        None => Err(Blank::unsupported(
            "this pool does not tell what a collection leaves",
        )),
        Some((0.0, _)) => Err(Blank::unsupported(
            "the old generation was not collected yet",
        )),
        Some((_, max)) if max <= 0.0 => {
            Err(Blank::unsupported("the old generation has no largest size"))
        }
        Some(figures) => Ok(figures),
    };
    Sight::read(Dimension::OldGen, read, source, now)
}

/// Connections in use, and how long one is waited for, of every pool that says so. `lent` is what pools had lent by the
/// last look, and what they have by now.
///
/// The wait is the mean of the last hundred, whenever they were: while nobody gets a connection it says nothing. A pool
/// that nobody uses any more would else be in trouble for ever, and with it a node that gets no traffic because of that.
fn pools(
    beans: &[Bean<'_>],
    budgets: Budgets,
    now: Mono,
    lent: (&Lent, &mut Lent),
    sights: &mut Vec<Sight>,
) {
    let (before, lent) = lent;
    // One that brings its own has its size in another bean.
    let size_elsewhere = beans
        .iter()
        .find_map(|bean| bean.number(&["maximumpoolsize"]));
    for bean in beans {
        let used = bean.number(&["numactive", "active", "activeconnections"]);
        let most = bean.number(&["maxtotal", "maxactive"]).or(size_elsewhere);
        let Some((used, most)) = used.zip(most) else {
            continue;
        };
        let is_inside = |(inner, _): &(String, f64)| {
            let rest = inner.strip_prefix(bean.name);
            rest.is_some_and(|rest| rest.starts_with(INSIDE))
        };
        if lent.iter().any(is_inside) {
            continue;
        }
        let name = short(bean.name);
        sights.push(Sight::of(
            Dimension::Pool,
            (used, most),
            format!("connections of {name}"),
            now,
        ));
        let count = bean.number(&["borrowedcount"]);
        let then = before.iter().find(|(its, _)| its == bean.name);
        let somebody_got_one = match (count, then) {
            (Some(count), Some((_, then))) => count != *then,
            (Some(_), None) => false,
            (None, _) => true,
        };
        lent.extend(count.map(|count| (bean.name.to_owned(), count)));
        if let Some(ms) = bean.number(&["meanborrowwaittimemillis"])
            && somebody_got_one
        {
            let source = format!("wait for one of {name}");
            sights.push(Sight::of(
                Dimension::Pool,
                (ms, budgets.pool_wait_ms),
                source,
                now,
            ));
        }
    }
}

/// The part of a bean's name that people know it by.
fn short(bean: &str) -> &str {
    let parts = bean.split_once(':').map_or(bean, |(_, parts)| parts);
    let name = parts.split(',').find_map(|part| part.strip_prefix("name="));
    name.unwrap_or(parts).trim_matches('"')
}

impl Status {
    fn parse(answer: &str) -> Result<Self, ProbeError> {
        let status = match answer.trim_start().as_bytes().first() {
            Some(b'{') => Self::of_json(answer),
            Some(b'<') => Some(Self::of_xml(answer)),
            _ => None,
        };
        status
            .filter(|status| !status.connectors.is_empty())
            .ok_or_else(|| ProbeError::Unexpected("this is no status of a Tomcat".to_owned()))
    }

    fn of_json(answer: &str) -> Option<Self> {
        let answer: serde_json::Value = serde_json::from_str(answer).ok()?;
        let tomcat = &answer["tomcat"];
        let connectors = tomcat["connector"]
            .as_array()?
            .iter()
            .take(CONNECTORS_MAX)
            .map(|connector| {
                let threads = &connector["threadInfo"];
                Some(Connector {
                    name: connector["name"].as_str()?.trim_matches('"').to_owned(),
                    busy: threads["currentThreadsBusy"].as_f64()?,
                    most: threads["maxThreads"].as_f64()?,
                })
            });
        let pools = tomcat["jvm"]["memorypool"].as_array().into_iter().flatten();
        let mut names = pools.filter_map(|pool| pool["name"].as_str());
        Some(Self {
            connectors: connectors.collect::<Option<_>>()?,
            old_pool: names.find(|name| is_old(name)).map(str::to_owned),
        })
    }

    /// Far from reading XML: the few attributes of elements that this page is known to have.
    fn of_xml(answer: &str) -> Self {
        let mut status = Self::default();
        let mut connector = None;
        for element in answer.split('<').skip(1) {
            if element.starts_with("memorypool ") {
                let name = attribute(element, "name").filter(|name| is_old(name));
                status.old_pool = name.map(str::to_owned).or(status.old_pool);
            } else if element.starts_with("connector ") {
                connector = attribute(element, "name");
            } else if element.starts_with("threadInfo ") && status.connectors.len() < CONNECTORS_MAX
            {
                let number = |name| attribute(element, name).and_then(|value| value.parse().ok());
                if let (Some(name), Some(busy), Some(most)) = (
                    connector.take(),
                    number("currentThreadsBusy"),
                    number("maxThreads"),
                ) {
                    let name = name.replace("&quot;", "").trim_matches('"').to_owned();
                    status.connectors.push(Connector { name, busy, most });
                }
            }
        }
        status
    }
}

/// The value of an attribute, in either kind of quotes.
fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let (_, behind) = element.split_once(&format!(" {name}="))?;
    let quote = behind
        .chars()
        .next()
        .filter(|quote| matches!(quote, '\'' | '"'))?;
    behind[1..].split_once(quote).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use tidegate_core::health::Validity;

    use super::*;

    const JSON: &str = r#"{"tomcat":{"jvm":{"memorypool":[{"name":"G1 Eden Space"},{"name":"G1 Old Gen"}]},
        "connector":[{"name":"http-nio-127.0.0.1-18080",
        "threadInfo":{"maxThreads":5,"currentThreadCount":5,"currentThreadsBusy":3},"requestInfo":{}}]}}"#;
    const XML: &str = "<?xml version=\"1.0\"?><status><jvm><memorypool name='G1 Eden Space'/>\
        <memorypool name='G1 Old Gen' usageMax='1'/></jvm><connector name='\"http-nio-127.0.0.1-18080\"'>\
        <threadInfo  maxThreads=\"5\" currentThreadCount=\"5\" currentThreadsBusy=\"3\" /></connector></status>";

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    #[test]
    fn both_forms_of_the_status_say_the_same() {
        let json = Status::parse(JSON).unwrap();

        assert_eq!(json, Status::parse(XML).unwrap());
        assert_eq!(json.old_pool.as_deref(), Some("G1 Old Gen"));
        assert_eq!(
            (json.connectors[0].busy, json.connectors[0].most),
            (3.0, 5.0)
        );
        assert!(Status::parse("<html>").is_err());
        assert!(Status::parse("").is_err());
    }

    #[test]
    fn an_old_generation_that_was_never_collected_is_not_an_empty_one() {
        let usage = |used: i64, max: i64| {
            format!("contents={{committed=0, init=1, max={max}, used={used}}}")
        };
        let validity = |usage: &str| {
            old_generation(Some(usage), "G1 Old Gen", at(0))
                .signal
                .validity
        };

        assert_eq!(validity(&usage(0, 100)), Validity::Unsupported);
        assert_eq!(validity(&usage(50, -1)), Validity::Unsupported);
        let half = old_generation(Some(&usage(50, 100)), "G1 Old Gen", at(0));
        assert_eq!(half.signal.ratio(at(0)), Some(0.5));
    }

    #[test]
    fn collections_are_the_share_of_the_time_between_two_looks() {
        let mut last = None;
        let budgets = Budgets::default();
        let first = collections(&mut last, Some(1_000.0), budgets, at(0));
        assert_eq!(first.signal.ratio(at(0)), None);

        let second = collections(&mut last, Some(1_080.0), budgets, at(1_000));

        assert!((second.signal.ratio(at(1_000)).unwrap() - 0.8).abs() < 1e-9);
        let anew = collections(&mut last, Some(3.0), budgets, at(2_000));
        assert_eq!(anew.signal.ratio(at(2_000)), None);
    }

    const DBCP: &str = "OK\n\nName: Catalina:type=DataSource,context=/x,name=\"jdbc/shop\",connectionpool=connections\n\
                        NumActive: 8\nMaxTotal: 8\nMeanBorrowWaitTimeMillis: 40\n";

    /// What `answer` tells of pools that had lent so many connections before.
    fn read(answer: &str, before: &Lent) -> (Vec<Sight>, Lent) {
        let (mut sights, mut lent) = (Vec::new(), Lent::new());
        let budgets = Budgets::default();
        pools(
            &beans(answer),
            budgets,
            at(0),
            (before, &mut lent),
            &mut sights,
        );
        (sights, lent)
    }

    #[test]
    fn figures_that_cannot_be_are_shown_and_not_used() {
        let budgets = Budgets::default();
        for odd in [1e20, -1e20, f64::INFINITY] {
            let mut last = Some((at(0), 0.0));
            let gc = collections(&mut last, Some(odd), budgets, at(1_000));
            let old = old_generation(
                Some(&format!(
                    "contents={{committed=0, init=1, max=100, used={odd}}}"
                )),
                "G1 Old Gen",
                at(1_000),
            );
            let page = format!(
                "OK\n\nName: Catalina:type=DataSource,name=\"x\"\nNumActive: {odd}\nMaxTotal: 8\n\
                 MeanBorrowWaitTimeMillis: {odd}\n\n"
            );
            let mut sights = vec![gc, old];
            let lent = (&Vec::new(), &mut Vec::new());
            pools(&beans(&page), budgets, at(1_000), lent, &mut sights);

            assert_eq!(sights.len(), 4);
            for sight in &sights {
                assert_eq!(sight.signal.ratio(at(1_000)), None, "{sight:?}");
                let why = sight.why.as_deref().unwrap();
                assert!(why.starts_with("not believed: "), "{sight:?}");
            }
            assert_eq!(last, None);
        }
    }

    #[test]
    fn pools_of_several_makers_are_read() {
        let hikari = "OK\n\nName: com.zaxxer.hikari:type=Pool (p)\nActiveConnections: 2\n\n\
                      Name: com.zaxxer.hikari:type=PoolConfig (p)\nMaximumPoolSize: 10\n\n";

        let (sights, _) = read(DBCP, &Lent::new());

        let ratios: Vec<_> = sights
            .iter()
            .map(|sight| sight.signal.ratio(at(0)).unwrap())
            .collect();
        assert_eq!(ratios, [1.0, 0.4]);
        assert_eq!(sights[0].source, "connections of jdbc/shop");
        let (hikari, _) = read(hikari, &Lent::new());
        assert_eq!(hikari[0].signal.ratio(at(0)), Some(0.2));
        let boundless = "OK\n\nName: a:type=DataSource\nnumActive: 3\nmaxTotal: -1\n\n";
        assert_eq!(read(boundless, &Lent::new()).0[0].signal.ratio(at(0)), None);
    }

    #[test]
    fn a_wait_is_news_only_when_somebody_got_a_connection() {
        let counted = |count: u32| format!("{DBCP}BorrowedCount: {count}\n\n");
        let waits = |sights: &[Sight]| {
            let waits = sights
                .iter()
                .filter(|it| it.source.starts_with("wait for one"));
            waits.count()
        };

        let (first, lent) = read(&counted(100), &Lent::new());
        let (busy, lent) = read(&counted(130), &lent);
        let (idle, _) = read(&counted(130), &lent);

        assert_eq!([waits(&first), waits(&busy), waits(&idle)], [0, 1, 0]);
        assert_eq!(idle.len(), 1, "connections in use are always news");
    }

    #[test]
    fn a_pool_is_told_once_by_what_is_inside_of_it() {
        let face = "OK\n\nName: Catalina:type=DataSource,context=/x,name=\"jdbc/shop\"\nnumActive: 8\nmaxTotal: 8\n\n\
                    Name: Catalina:type=DataSource,context=/y,name=\"jdbc/shop\"\nnumActive: 1\nmaxActive: 4\n\n";
        let inner = beans(DBCP)[0].name.to_owned();

        let (mut sights, mut lent) = (Vec::new(), vec![(inner, 1.0)]);
        pools(
            &beans(face),
            Budgets::default(),
            at(0),
            (&Lent::new(), &mut lent),
            &mut sights,
        );

        assert_eq!(sights.len(), 1);
        assert_eq!(sights[0].signal.ratio(at(0)), Some(0.25));
    }

    #[test]
    fn no_question_asks_for_every_connection() {
        for pattern in POOLS {
            assert!(
                !(pattern.contains("DataSource") && pattern.ends_with(",*")),
                "{pattern} has a bean for each connection"
            );
        }
    }
}
