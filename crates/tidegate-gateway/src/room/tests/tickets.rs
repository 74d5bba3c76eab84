use proptest::prelude::{
    Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use tidegate_core::room::PLACE_MAX;

use super::super::spelling::{read, spelt};
use super::*;

fn given(tokens: &Tokens) -> (Ticket, String) {
    let arrived = at(NOW_S);
    let flags = TicketFlags::PROVISIONAL;
    let ticket = Ticket::new(EPOCH, ADMISSION.place, arrived, Tier::Returning, flags);
    let text = tokens.issue_ticket(arrived, &ticket).unwrap().text;
    (ticket, text)
}

#[test]
fn a_ticket_reads_back_for_as_long_as_its_key_is_good() {
    let tokens = tokens(Algorithm::EdDsa, &keys());
    let (ticket, text) = given(&tokens);

    assert_eq!(text.len(), Ticket::LEN);
    for second in [NOW_S, NOW_S + DAY_S, NOW_S - DAY_S] {
        assert_eq!(ticket_of(&tokens, second, text.as_bytes()), Ok(ticket));
    }
    assert!(ticket.flags.has(TicketFlags::PROVISIONAL));
    assert_eq!(ticket.arrived, at(NOW_S));
    let again = Ticket::new(
        EPOCH,
        ADMISSION.place,
        at(NOW_S),
        Tier::Returning,
        ticket.flags,
    );
    assert_ne!(again, ticket, "the nonce differs");
    let empty = HeaderMap::new();
    let held = tokens.read(moment(NOW_S), &empty, &visitor(&[])).unwrap();
    assert_eq!(held.ticket, Err(Why::Absent));
}

#[test]
fn no_ticket_that_differs_in_a_bit_is_one() {
    let tokens = tokens(Algorithm::Hs256, &keys());
    let (_, text) = given(&tokens);
    let bytes: [u8; 66] = read(&text).unwrap();

    let of_bytes = bits_of(&bytes).map(|it| spelt(&it).into_bytes());
    for changed in bits_of(text.as_bytes()).chain(of_bytes) {
        let read = ticket_of(&tokens, NOW_S, &changed);
        assert!(read.is_err(), "{}", String::from_utf8_lossy(&changed));
    }
}

#[test]
fn nothing_that_is_cut_padded_spelt_otherwise_or_moved_over_a_border_is_one() {
    let tokens = tokens(Algorithm::Hs256, &keys());
    let (_, text) = given(&tokens);
    let bytes: [u8; 66] = read(&text).unwrap();
    let mut others: Vec<Vec<u8>> = (0..text.len()).map(|end| text[..end].into()).collect();
    for more in ["=", "A", "==", ".", " ", "%3D"] {
        others.push(format!("{text}{more}").into());
        others.push(format!("{more}{text}").into());
    }
    others.push(text.replace('-', "+").replace('_', "/").into());
    others.push([text.as_bytes(), text.as_bytes()].concat());
    // The last byte of each field goes to the next one, or the first of the next to it, and the rest moves up.
    for border in [1, 4, 16, 24, 32, 40, 41, 42, 50] {
        let mut left = bytes;
        left[border - 1..].rotate_left(1);
        let mut right = bytes;
        right[..=border].rotate_right(1);
        let mut swapped = bytes;
        swapped.swap(border - 1, border);
        let moved = [left, right, swapped].into_iter().filter(|it| *it != bytes);
        others.extend(moved.map(|it| spelt(&it).into_bytes()));
    }

    for other in others.iter().filter(|other| **other != text.as_bytes()) {
        let read = ticket_of(&tokens, NOW_S, other);
        assert!(read.is_err(), "{}", String::from_utf8_lossy(other));
    }
}

#[test]
fn a_ticket_is_for_its_room_and_epoch_and_of_its_keys() {
    let ours = keys();
    let tokens = tokens(Algorithm::Hs256, &ours);
    let (ticket, text) = given(&tokens);
    let come_of = |tokens: &Tokens| ticket_of(tokens, NOW_S, text.as_bytes());

    let other_room = TokensPlan {
        room: room("shop2"),
        ..plan(Algorithm::Hs256)
    };
    let other = Tokens::new(other_room, standing(&ours)).unwrap();
    assert_eq!(come_of(&other), Err(Why::Foreign));
    let strangers = super::tokens(Algorithm::Hs256, &keys());
    assert_eq!(come_of(&strangers), Err(Why::Key));
    let next = Epoch(EPOCH.0 + 1);
    tokens.stand(Standing {
        epoch: Some(next),
        ..standing(&ours)
    });
    assert_eq!(come_of(&tokens), Err(Why::Epoch));
    // Without a store nobody knows the epoch but whoever stands in the line.
    tokens.stand(Standing {
        epoch: None,
        ..standing(&ours)
    });
    assert_eq!(come_of(&tokens), Ok(ticket));
}

#[test]
fn a_pass_is_no_ticket_and_a_ticket_no_pass() {
    let tokens = tokens(Algorithm::Hs256, &keys());
    let (_, text) = given(&tokens);
    let device = Device::draw();
    let pass = tokens.issue_pass(at(NOW_S), &ADMISSION, &Bond::Device(&device));

    let pass = pass.unwrap().text;

    assert_eq!(
        ticket_of(&tokens, NOW_S, pass.as_bytes()),
        Err(Why::Malformed)
    );
    let read = come_of(&tokens, NOW_S, text.as_bytes(), Some(&device));
    assert_eq!(read, Err(Why::Malformed));
}

fn tier() -> impl Strategy<Value = Tier> {
    prop_oneof![
        Just(Tier::Returning),
        Just(Tier::SignedIn),
        Just(Tier::Anonymous)
    ]
}

proptest! {
    #[test]
    fn every_ticket_reads_back_as_what_it_is(
        (name, epoch) in ("[a-z0-9-]{1,12}", any::<u64>()),
        place in 0..=PLACE_MAX,
        arrived_ms in 0..u64::MAX / 1_000,
        tier in tier(),
        flags in any::<u8>(),
    ) {
        let keys = keys();
        let epoch = Epoch(epoch);
        let plan = TokensPlan { room: room(&name), ..plan(Algorithm::Hs256) };
        let standing = Standing { epoch: Some(epoch), ..standing(&keys) };
        let tokens = Tokens::new(plan, standing).unwrap();
        let arrived = Wall::from_micros(arrived_ms * 1_000);

        let ticket = Ticket::new(epoch, Place(place), arrived, tier, TicketFlags(flags));
        let text = tokens.issue_ticket(at(NOW_S), &ticket).unwrap().text;

        prop_assert_eq!(ticket_of(&tokens, NOW_S, text.as_bytes()), Ok(ticket));
    }

    #[test]
    fn no_bytes_of_a_tickets_length_are_one(bytes in prop::collection::vec(any::<u8>(), 66)) {
        let tokens = tokens(Algorithm::Hs256, &keys());
        let (_, text) = given(&tokens);
        let real: [u8; 66] = read(&text).unwrap();
        // With and without the beginning of a real one.
        for kept in [0, 1, 4, 50] {
            let forged = [&real[..kept], &bytes[kept..]].concat();
            let read = ticket_of(&tokens, NOW_S, spelt(&forged).as_bytes());
            prop_assert!(read.is_err());
        }
    }
}
