use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

use super::*;

const IDLE_S: u64 = 15 * 60;
const ABSOLUTE_S: u64 = 12 * 3_600;

/// A pass as its owner shows it.
struct Owner {
    device: Device,
    text: String,
}

impl Owner {
    fn of(tokens: &Tokens, second: u64) -> Self {
        let device = Device::draw();
        let given = tokens.issue_pass(at(second), &ADMISSION, &Bond::Device(&device));
        Self {
            device,
            text: given.unwrap().text,
        }
    }

    fn headers(&self) -> HeaderMap {
        shown(self.text.as_bytes(), Some(&self.device)).unwrap()
    }

    fn come_of(&self, tokens: &Tokens, second: u64) -> Result<PassId, Why> {
        come_of(tokens, second, self.text.as_bytes(), Some(&self.device))
    }

    /// Takes another if there is one.
    fn renew(&mut self, tokens: &Tokens, second: u64) -> bool {
        let headers = self.headers();
        let held = tokens
            .read(moment(second), &headers, &visitor(&[]))
            .unwrap();
        let given = tokens.renew(at(second), &held.pass.unwrap()).unwrap();
        let Some(given) = given else {
            return false;
        };
        self.text = given.text;
        true
    }
}

#[test]
fn a_pass_is_renewed_when_less_than_half_of_its_idle_time_is_left() {
    let tokens = tokens(Algorithm::Hs256, &keys());
    let mut owner = Owner::of(&tokens, NOW_S);
    let id = owner.come_of(&tokens, NOW_S);

    assert!(!owner.renew(&tokens, NOW_S));
    assert!(!owner.renew(&tokens, NOW_S + IDLE_S / 2));
    assert!(owner.renew(&tokens, NOW_S + IDLE_S / 2 + 1));
    assert!(!owner.renew(&tokens, NOW_S + IDLE_S / 2 + 2));

    let later = NOW_S + IDLE_S / 2 + 1 + IDLE_S;
    assert_eq!(owner.come_of(&tokens, later), id, "it is the same pass");
}

#[test]
fn a_pass_ends_though_it_is_used_all_the_time() {
    let tokens = tokens(Algorithm::Hs256, &keys());
    let mut owner = Owner::of(&tokens, NOW_S);
    let mut renewals = 0;
    let mut second = NOW_S;
    while owner.come_of(&tokens, second).is_ok() {
        renewals += u64::from(owner.renew(&tokens, second));
        second += 60;
    }

    let end = NOW_S + ABSOLUTE_S + LEEWAY_S;
    assert!((end..end + 60).contains(&second), "{}", second - NOW_S);
    // Every eight minutes, and not with every request.
    assert!((80..=96).contains(&renewals), "{renewals}");
}

#[test]
fn a_sign_in_keeps_the_pass_and_ties_it_to_the_session() {
    let tokens = tokens(Algorithm::EdDsa, &keys());
    let owner = Owner::of(&tokens, NOW_S);
    let headers = owner.headers();
    let before = tokens
        .read(moment(NOW_S), &headers, &visitor(&[b"new"]))
        .unwrap();
    let pass = before.pass.unwrap();

    let bond = Bond::Session(b"new");
    let given = tokens.rebind(at(NOW_S + 1), &pass, &bond).unwrap().unwrap();

    let headers = shown(given.text.as_bytes(), None).unwrap();
    let read = |sessions: &[&[u8]]| {
        let held = tokens
            .read(moment(NOW_S + 1), &headers, &visitor(sessions))
            .unwrap();
        held.pass.map(|pass| pass.id())
    };
    assert_eq!(read(&[b"new"]), Ok(pass.id()));
    assert_eq!(
        read(&[b"next", b"new"]),
        Ok(pass.id()),
        "a request that was on its way"
    );
    assert_eq!(read(&[b"next"]), Err(Why::Bond));
    assert!(
        owner.come_of(&tokens, NOW_S + 1).is_ok(),
        "so does an older tab's"
    );
    // Once more, as a session that gets another id does.
    let held = tokens
        .read(moment(NOW_S + 2), &headers, &visitor(&[b"new"]))
        .unwrap();
    let bond = Bond::Session(b"next");
    let given = tokens
        .rebind(at(NOW_S + 2), &held.pass.unwrap(), &bond)
        .unwrap()
        .unwrap();
    let headers = shown(given.text.as_bytes(), None).unwrap();
    let held = tokens
        .read(moment(NOW_S + 2), &headers, &visitor(&[b"next"]))
        .unwrap();
    assert_eq!(held.pass.unwrap().id(), pass.id());
}

#[test]
fn keys_are_replaced_and_nobody_loses_a_pass_or_a_place() {
    for algorithm in Algorithm::ALL {
        let old = DAY_S;
        let published = NOW_S - old;
        let end = NOW_S + 7_200;
        let retires = format!(",\"verify_only_from\":{NOW_S},\"revoked_from\":{end}");
        let next = NOW_S - 300;
        let mut keys = vec![
            ("old", Algorithm::Hs256, published, retires.as_str()),
            ("new", Algorithm::Hs256, next, ""),
        ];
        if algorithm != Algorithm::Hs256 {
            keys.push(("olds", algorithm, published, retires.as_str()));
            keys.push(("news", algorithm, next, ""));
        }
        let tokens = tokens(algorithm, &Keys::from_json(&file(&keys)).unwrap());
        let before = NOW_S - 1;
        let mut owner = Owner::of(&tokens, before);
        let first = owner.text.clone();
        let id = owner.come_of(&tokens, before).unwrap();
        let ticket = Ticket::new(
            EPOCH,
            Place(5),
            at(before),
            Tier::Anonymous,
            TicketFlags::default(),
        );
        let place = tokens.issue_ticket(at(before), &ticket).unwrap().text;

        assert_eq!(owner.come_of(&tokens, NOW_S + 400), Ok(id));
        assert!(owner.renew(&tokens, NOW_S + 500));
        assert_ne!(
            owner.text.split('.').next(),
            first.split('.').next(),
            "signed by the new key"
        );
        let mut second = NOW_S + 500;
        while second < end + 600 {
            second += 300;
            assert_eq!(owner.come_of(&tokens, second), Ok(id), "{algorithm:?}");
            owner.renew(&tokens, second);
        }
        assert_eq!(ticket_of(&tokens, end - 1, place.as_bytes()), Ok(ticket));
        assert_eq!(ticket_of(&tokens, end, place.as_bytes()), Err(Why::Key));
        let old = come_of(&tokens, end, first.as_bytes(), Some(&owner.device));
        assert_eq!(old, Err(Why::Key));
    }
}

#[test]
fn a_known_pass_is_refused_once_it_is_taken_back_or_its_key_or_epoch_is() {
    let keys = keys();
    let tokens = tokens(Algorithm::EdDsa, &keys);
    let owner = Owner::of(&tokens, NOW_S);
    let id = owner.come_of(&tokens, NOW_S).unwrap();
    let stand = |change: &dyn Fn(&mut Standing)| {
        let mut standing = standing(&keys);
        change(&mut standing);
        tokens.stand(standing);
        owner.come_of(&tokens, NOW_S + 5)
    };

    assert_eq!(stand(&|_| {}), Ok(id));
    let end = (NOW_S + ABSOLUTE_S) as u32;
    let revoke = |standing: &mut Standing| {
        standing.revoked.revoke(at(NOW_S), id, end).unwrap();
    };
    assert_eq!(stand(&revoke), Err(Why::Revoked));
    let all = |standing: &mut Standing| standing.revoked.issued_from_s = NOW_S as u32 + 1;
    assert_eq!(stand(&all), Err(Why::Revoked));
    let earlier = |standing: &mut Standing| standing.revoked.issued_from_s = NOW_S as u32;
    assert_eq!(stand(&earlier), Ok(id));
    let next = |standing: &mut Standing| standing.epoch = Some(Epoch(EPOCH.0 + 1));
    assert_eq!(stand(&next), Err(Why::Epoch));
    let others = |standing: &mut Standing| standing.keys = super::keys();
    assert_eq!(stand(&others), Err(Why::Signature));
    assert_eq!(stand(&|_| {}), Ok(id));
    let stranger = Device::draw();
    let stolen = come_of(&tokens, NOW_S, owner.text.as_bytes(), Some(&stranger));
    assert_eq!(stolen, Err(Why::Bond));
}

#[test]
fn a_pass_is_good_beside_the_ticket_of_its_own_place_and_of_no_other() {
    let tokens = tokens(Algorithm::Hs256, &keys());
    let owner = Owner::of(&tokens, NOW_S);
    let id = owner.come_of(&tokens, NOW_S).unwrap();
    let beside = |place: Place| {
        let (tier, flags) = (Tier::Anonymous, TicketFlags::default());
        let ticket = Ticket::new(EPOCH, place, at(NOW_S), tier, flags);
        let given = tokens.issue_ticket(at(NOW_S), &ticket).unwrap();
        let mut headers = shown(owner.text.as_bytes(), None).unwrap();
        let text = HeaderValue::from_str(&given.text).unwrap();
        headers.insert(TIDEGATE_TICKET, text);
        let held = tokens.read(moment(NOW_S), &headers, &visitor(&[]));
        held.unwrap().pass.map(|pass| pass.id())
    };

    assert_eq!(beside(ADMISSION.place), Ok(id));
    assert_eq!(beside(ADMISSION.place.plus(1)), Err(Why::Bond));
}

#[test]
fn a_pass_that_is_extended_lives_so_long_and_never_beyond_its_end() {
    let tokens = tokens(Algorithm::Hs256, &keys());
    let owner = Owner::of(&tokens, NOW_S);
    let headers = owner.headers();
    let held = tokens.read(moment(NOW_S), &headers, &visitor(&[])).unwrap();
    let pass = held.pass.unwrap();

    for (span_s, lives_s) in [
        (3_600, 3_600),
        (1, IDLE_S),
        (ABSOLUTE_S + 5_000, ABSOLUTE_S),
    ] {
        let span = std::time::Duration::from_secs(span_s);
        let given = tokens.extend(at(NOW_S), &pass, None, span);
        let text = given.unwrap().unwrap().text;
        let come_of = |after_s: u64| {
            let device = Some(&owner.device);
            come_of(&tokens, NOW_S + after_s, text.as_bytes(), device)
        };
        assert_eq!(come_of(lives_s), Ok(pass.id()), "{span_s}");
        let over = come_of(lives_s + LEEWAY_S + 1);
        assert_eq!(over, Err(Why::Expired), "{span_s}");
    }
}

#[test]
fn a_pass_that_was_taken_back_is_not_had_again_by_renewing() {
    let keys = keys();
    let tokens = tokens(Algorithm::Hs256, &keys);
    let mut owner = Owner::of(&tokens, NOW_S);
    let id = owner.come_of(&tokens, NOW_S).unwrap();
    assert!(owner.renew(&tokens, NOW_S + 600));

    let mut standing = standing(&keys);
    let end = (NOW_S + ABSOLUTE_S) as u32;
    standing.revoked.revoke(at(NOW_S), id, end).unwrap();
    tokens.stand(standing);

    assert_eq!(owner.come_of(&tokens, NOW_S + 601), Err(Why::Revoked));
}

/// A gateway that may verify four signatures a second of one network, and no more than that at once.
fn sparing(algorithm: Algorithm, keys: &Keys) -> Tokens {
    let checks = ChecksPlan {
        network_us: 200,
        ..plan(algorithm).checks
    };
    let plan = TokensPlan {
        checks,
        ..plan(algorithm)
    };
    Tokens::new(plan, standing(keys)).unwrap()
}

#[test]
fn whoever_is_known_goes_on_while_their_network_sends_junk() {
    let keys = keys();
    let tokens = sparing(Algorithm::EdDsa, &keys);
    let others = super::tokens(Algorithm::EdDsa, &keys);
    let (ours, known, unknown) = (
        Owner::of(&tokens, NOW_S),
        Owner::of(&others, NOW_S),
        Owner::of(&others, NOW_S),
    );
    assert!(known.come_of(&tokens, NOW_S).is_ok());
    let (message, signature) = ours.text.rsplit_once('.').unwrap();
    let backwards: String = signature.chars().rev().collect();
    let junk = format!("{message}.{backwards}");

    let mut looked_at = 0;
    for _ in 0..1_000 {
        match come_of(&tokens, NOW_S, junk.as_bytes(), None).unwrap_err() {
            Why::Unverified { .. } => {}
            _ => looked_at += 1,
        }
    }

    assert_eq!(looked_at, 3, "four signatures, of which one was a good one");
    assert!(ours.come_of(&tokens, NOW_S).is_ok(), "it was given here");
    assert!(known.come_of(&tokens, NOW_S).is_ok());
    let wait = unknown.come_of(&tokens, NOW_S);
    assert_eq!(wait, Err(Why::Unverified { wait_us: 500_000 }));
    assert!(unknown.come_of(&tokens, NOW_S + 1).is_ok());
}

#[test]
fn a_pass_has_one_budget_however_often_it_is_renewed() {
    let tokens = tokens(Algorithm::Hs256, &keys());
    let mut owner = Owner::of(&tokens, NOW_S);
    let later = NOW_S + 600;
    let (old, tick) = (owner.headers(), moment(later).tick);
    assert!(owner.renew(&tokens, later));
    let new = owner.headers();
    let begin = |headers: &HeaderMap| {
        let held = tokens.read(moment(later), headers, &visitor(&[])).unwrap();
        tokens.begin(tick, &held.pass.unwrap())
    };

    let using: Vec<_> = [&old, &new]
        .into_iter()
        .cycle()
        .take(8)
        .map(begin)
        .collect();

    assert!(using.iter().all(Result::is_ok));
    assert_eq!(begin(&new).err(), Some(Spent::InFlight));
    drop(using);
    let passed = (0..100).filter(|_| begin(&old).is_ok()).count();
    assert_eq!(passed, 12, "twenty at once");
    assert_eq!(begin(&new).err(), Some(Spent::Rate { wait_us: 100_000 }));
}

proptest! {
    #[test]
    fn no_renewal_reaches_beyond_the_end_or_comes_before_half_the_time(
        steps in prop::collection::vec(1u64..1_000, 1..120),
    ) {
        let tokens = tokens(Algorithm::Hs256, &keys());
        let mut owner = Owner::of(&tokens, NOW_S);
        let (mut second, mut expires) = (NOW_S, NOW_S + IDLE_S);
        for step in steps {
            second += step;
            let alive = second < expires + LEEWAY_S;
            prop_assert_eq!(owner.come_of(&tokens, second).is_ok(), alive);
            if !alive {
                break;
            }
            let left = expires.saturating_sub(second);
            let renewed = owner.renew(&tokens, second);
            let is_last = expires == NOW_S + ABSOLUTE_S;
            prop_assert_eq!(renewed, left * 2 < IDLE_S && !is_last);
            if renewed {
                expires = (second + IDLE_S).min(NOW_S + ABSOLUTE_S);
            }
        }
        prop_assert!(expires <= NOW_S + ABSOLUTE_S);
    }
}
