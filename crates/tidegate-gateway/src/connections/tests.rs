use super::*;

fn connections(
    normal: u32,
    per_client: Option<u32>,
    probe: u32,
    overflow: u32,
) -> Arc<Connections> {
    Arc::new(Connections {
        normal_max: normal,
        per_client_max: per_client,
        probe_max: probe,
        overflow_max: overflow,
        probe_networks: vec!["10.0.1.0/24".parse().unwrap()],
        trusted_networks: vec!["10.0.2.0/24".parse().unwrap()],
        open: Mutex::new(Open {
            normal: 0,
            probe: 0,
            overflow: 0,
            evicted: 0,
            by_thread: vec![0; 2],
            by_client: HashMap::new(),
            links: Vec::new(),
            eviction_cursor: 0,
        }),
        turned_away: Default::default(),
        accept_errors: AtomicU64::new(0),
        draining: AtomicBool::new(false),
    })
}

fn kind(permit: &Option<Permit>) -> Option<Kind> {
    permit.as_ref().map(Permit::kind)
}

fn from(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), 1)
}

#[test]
fn probes_have_slots_that_nobody_else_can_take() {
    let all = connections(1, None, 1, 1);
    let now = Mono::default();
    let client = all.admit(from("192.0.2.1"), now);
    let over = all.admit(from("192.0.2.2"), now);
    let closed = all.admit(from("192.0.2.3"), now);

    let probe = all.admit(from("10.0.1.9"), now);
    let second_probe = all.admit(from("10.0.1.9"), now);

    assert_eq!(kind(&client), Some(Kind::Normal));
    assert_eq!(kind(&over), Some(Kind::Overflow));
    assert_eq!(kind(&closed), None);
    assert_eq!(kind(&probe), Some(Kind::Probe));
    assert_eq!(kind(&second_probe), None);
    assert_eq!(all.turned_away(TurnedAway::OverflowMax), 2);
    drop((client, over, probe));
    assert!(all.is_empty());
    assert_eq!(kind(&all.admit(from("192.0.2.3"), now)), Some(Kind::Normal));
}

#[test]
fn one_client_has_a_cap_of_its_own_and_a_proxy_none() {
    let all = connections(100, Some(2), 1, 100);
    let now = Mono::default();
    let kinds = |address: &str, count: usize| {
        let permits: Vec<_> = (0..count).map(|_| all.admit(from(address), now)).collect();
        let normal = permits
            .iter()
            .filter(|permit| kind(permit) == Some(Kind::Normal))
            .count();
        let overflow = permits
            .iter()
            .filter(|permit| kind(permit) == Some(Kind::Overflow))
            .count();
        (normal, overflow, permits)
    };

    let (normal, overflow, _held) = kinds("192.0.2.1", 10);
    let mapped = all.admit(from("::ffff:192.0.2.1"), now);
    let (normal_v6, _, _held_v6) = kinds("2001:db8::1", 2);
    let neighbour = all.admit(from("2001:db8::2"), now);
    let (normal_proxy, ..) = kinds("10.0.2.1", 10);

    assert_eq!((normal, overflow), (2, OVERFLOW_PER_CLIENT_MAX as usize));
    assert_eq!(kind(&mapped), None);
    assert_eq!(normal_v6, 2);
    assert_eq!(kind(&neighbour), Some(Kind::Overflow));
    assert_eq!(normal_proxy, 10);
}

#[test]
fn at_the_cap_the_longest_idle_makes_room_and_the_busy_stay() {
    let all = connections(3, None, 1, 1);
    let clock = crate::context::Clock::start();
    let at = Mono::from_millis;
    let old = all.admit(from("192.0.2.1"), at(0)).unwrap();
    let busy = all.admit(from("192.0.2.2"), at(0)).unwrap();
    let young = all.admit(from("192.0.2.3"), at(500)).unwrap();
    let _exchange = busy.link().begin(clock);

    let too_early = all.admit(from("192.0.2.4"), at(900)).unwrap();
    drop(too_early);
    let newcomer = all.admit(from("192.0.2.4"), at(1_200)).unwrap();

    assert_eq!(newcomer.kind(), Kind::Normal);
    assert!(old.link().is_evicted());
    assert!(!busy.link().is_evicted() && !young.link().is_evicted());
    assert_eq!(all.open(Kind::Normal), 4);
    drop(old);
    assert_eq!(all.open(Kind::Normal), 3);
}

#[test]
fn a_connection_goes_to_the_thread_with_the_fewest() {
    let all = connections(10, None, 1, 1);
    let now = Mono::default();
    let first = all.admit(from("192.0.2.1"), now).unwrap();
    let second = all.admit(from("192.0.2.1"), now).unwrap();
    assert_eq!((first.thread(), second.thread()), (0, 1));

    drop(second);
    let third = all.admit(from("192.0.2.1"), now).unwrap();

    assert_eq!(third.thread(), 1);
}

#[test]
fn whoever_connects_while_draining_is_asked_to_close() {
    let all = connections(10, None, 1, 1);
    let before = all.admit(from("192.0.2.1"), Mono::default()).unwrap();
    all.drain();
    let after = all.admit(from("192.0.2.1"), Mono::default()).unwrap();

    assert!(before.link().is_close_asked());
    assert!(after.link().is_close_asked());
}
