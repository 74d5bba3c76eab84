//! What a limit counts by: parts of a request, written down so that no two lists of parts look the same.
//!
//! Each part says of what kind and how long it is before what it is. Joined strings do not: `a_b`, `c` and `a`, `b_c`
//! would share a limit, and a client could aim at somebody else's. It is written in whole words of 64 bits, the last
//! of a part filled up with zeros: a hash that takes words has nothing to put together from pieces.
//!
//! What is written goes into a keyed hash of 128 bits, and that is the key of the state. The hash and its secret are the
//! caller's: the core depends on nothing. It must be keyed, or clients could choose headers
//! that collide.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Takes what is written: a hash, one word after the other.
pub trait Words {
    /// The next word.
    fn word(&mut self, word: u64);
}

/// One part of what a limit counts by. `Eq` here is what counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part<'a> {
    /// The network of a client's address.
    Address(Prefix),
    /// A named network that the client's address is in.
    Network(&'a str),
    /// Who is asking, such as the user id of a session.
    Identity(&'a [u8]),
    /// A header from somebody trusted.
    Header(&'a [u8]),
    /// The hash of an API key; never the key itself.
    ApiKey(&'a [u8]),
    /// A claim of a token that was verified.
    Claim(&'a [u8]),
    /// The id of a session.
    Session(&'a [u8]),
    /// Which route.
    Route(&'a str),
    /// The same for everybody.
    Constant(&'a str),
    /// There is no such part in this request, and all of those count together. Not the same as an empty one.
    Absent,
}

/// The first bits of an address: everybody who can choose the others counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// What is not in the prefix is 0.
    network: IpAddr,
    bits: u8,
}

/// How long the prefixes of addresses are that count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefixLengths {
    v4: u8,
    v6: u8,
}

impl PrefixLengths {
    /// `v4` of 32 bits and `v6` of 128; `None` when there are not so many.
    pub const fn new(v4: u8, v6: u8) -> Option<Self> {
        if v4 > 32 || v6 > 128 {
            return None;
        }
        Some(Self { v4, v6 })
    }
}

impl Default for PrefixLengths {
    /// A whole IPv4 address, and of IPv6 what one household has at least: it may take each of 2⁶⁴ addresses.
    fn default() -> Self {
        Self { v4: 32, v6: 64 }
    }
}

impl Prefix {
    /// The prefix of `address`. An IPv4 address in IPv6 clothes is an IPv4 address.
    pub fn of(address: IpAddr, lengths: PrefixLengths) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(lengths.v4));
                Self {
                    network: Ipv4Addr::from_bits(v4.to_bits() & mask.unwrap_or(0)).into(),
                    bits: lengths.v4,
                }
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(lengths.v6));
                Self {
                    network: Ipv6Addr::from_bits(v6.to_bits() & mask.unwrap_or(0)).into(),
                    bits: lengths.v6,
                }
            }
        }
    }
}

/// A whole address as it is, a network with its length.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.network.is_ipv4() { 32 } else { 128 };
        match self.bits {
            bits if bits == whole => write!(f, "{}", self.network),
            bits => write!(f, "{}/{bits}", self.network),
        }
    }
}

/// Writes the name of a limit. To be written first and once for all requests: a hash can be cloned after it.
pub fn begin(limit: &str, words: &mut impl Words) {
    write_part(FORMAT, limit.as_bytes(), words);
}

/// Writes what the limit counts this request by. The same on every machine.
// One place that writes, and within the caller's function: there the state of a hash stays in registers.
#[inline]
pub fn write(parts: &[Part<'_>], words: &mut impl Words) {
    let mut prefix = [0; 17];
    for part in parts {
        let (kind, bytes) = match *part {
            Part::Address(Prefix { network, bits }) => {
                prefix[0] = bits;
                match network {
                    IpAddr::V4(v4) => {
                        prefix[1..5].copy_from_slice(&v4.octets());
                        (1, &prefix[..5])
                    }
                    IpAddr::V6(v6) => {
                        prefix[1..].copy_from_slice(&v6.octets());
                        (2, &prefix[..])
                    }
                }
            }
            Part::Network(name) => (3, name.as_bytes()),
            Part::Identity(bytes) => (4, bytes),
            Part::Header(bytes) => (5, bytes),
            Part::ApiKey(bytes) => (6, bytes),
            Part::Claim(bytes) => (7, bytes),
            Part::Session(bytes) => (8, bytes),
            Part::Route(name) => (9, name.as_bytes()),
            Part::Constant(text) => (10, text.as_bytes()),
            Part::Absent => (11, &[][..]),
        };
        write_part(kind, bytes, words);
    }
}

/// Before the name of the limit, in place of a kind. To be changed with anything else of the format: then nothing that was
/// counted is found again.
const FORMAT: u8 = 0x81;

/// Kind and length are one word, so that nothing that follows can be taken for another part.
// Always: as a call it puts the state of the hash into memory after every word.
#[inline(always)]
fn write_part(kind: u8, bytes: &[u8], words: &mut impl Words) {
    words.word(u64::from(kind) | (bytes.len() as u64) << 8);
    let (whole, rest) = bytes.as_chunks::<8>();
    for word in whole {
        words.word(u64::from_le_bytes(*word));
    }
    if rest.is_empty() {
        return;
    }
    // Where there are eight bytes, the last eight hold the rest: no copy of a length that is not known before.
    words.word(match bytes.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last) >> (8 * (8 - rest.len())),
        None => rest
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte)),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
    use std::collections::BTreeSet;

    /// Keeps what is written.
    #[derive(Default)]
    struct Written(Vec<u64>);

    impl Words for Written {
        fn word(&mut self, word: u64) {
            self.0.push(word);
        }
    }

    fn written(limit: &str, parts: &[Part<'_>]) -> Vec<u64> {
        let mut written = Written::default();
        begin(limit, &mut written);
        write(parts, &mut written);
        written.0
    }

    fn address(text: &str, v4: u8, v6: u8) -> Part<'_> {
        let lengths = PrefixLengths::new(v4, v6).unwrap();
        Part::Address(Prefix::of(text.parse().unwrap(), lengths))
    }

    #[test]
    fn ten_thousand_addresses_of_one_household_are_one() {
        let keys: BTreeSet<_> = (0..10_000u128)
            .map(|n| {
                let host = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) & u128::from(u64::MAX);
                let address = Ipv6Addr::from_bits(0x2001_0db8_0000_0001 << 64 | host);
                let prefix = Prefix::of(address.into(), PrefixLengths::default());
                written("login", &[Part::Address(prefix)])
            })
            .collect();

        assert_eq!(keys.len(), 1);
    }

    #[test]
    fn an_address_is_cut_to_its_prefix_and_its_clothes_do_not_matter() {
        assert_eq!(address("10.1.2.3", 24, 64), address("10.1.2.99", 24, 64));
        assert_ne!(address("10.1.2.3", 24, 64), address("10.1.3.3", 24, 64));
        assert_eq!(
            address("::ffff:10.1.2.3", 32, 64),
            address("10.1.2.3", 32, 64)
        );
        assert_eq!(address("10.1.2.3", 0, 0), address("203.0.113.9", 0, 0));
        assert_eq!(address("2001:db8::1", 32, 0), address("fe80::1", 32, 0));
        assert_ne!(
            address("2001:db8::1", 32, 128),
            address("2001:db8::2", 32, 128)
        );
        // Prefixes of different lengths are different limits.
        assert_ne!(
            written("l", &[address("10.0.0.0", 8, 64)]),
            written("l", &[address("10.0.0.0", 16, 64)])
        );
        assert_ne!(
            written("l", &[address("0.0.0.0", 0, 0)]),
            written("l", &[address("::", 0, 0)])
        );
        assert_eq!(PrefixLengths::new(33, 64), None);
        assert_eq!(PrefixLengths::new(32, 129), None);
    }

    #[test]
    fn a_prefix_is_shown_as_people_write_it() {
        let shown = |text: &str, v4, v6| match address(text, v4, v6) {
            Part::Address(prefix) => prefix.to_string(),
            part => panic!("{part:?}"),
        };

        assert_eq!(shown("203.0.113.7", 32, 64), "203.0.113.7");
        assert_eq!(shown("203.0.113.7", 24, 64), "203.0.113.0/24");
        assert_eq!(shown("2001:db8:0:1::9", 32, 64), "2001:db8:0:1::/64");
        assert_eq!(shown("2001:db8::9", 32, 128), "2001:db8::9");
    }

    #[test]
    fn nothing_that_is_shifted_from_one_part_to_another_is_the_same() {
        let (one, two) = (Part::Header(b"a_b"), Part::Header(b"c"));
        let (three, four) = (Part::Header(b"a"), Part::Header(b"b_c"));

        assert_ne!(written("l", &[one, two]), written("l", &[three, four]));
        assert_ne!(written("l", &[]), written("l", &[Part::Absent]));
        assert_ne!(
            written("l", &[Part::Absent]),
            written("l", &[Part::Header(b"")])
        );
        assert_ne!(
            written("l", &[Part::Header(b"none")]),
            written("l", &[Part::Claim(b"none")])
        );
    }

    #[test]
    fn what_is_written_stays_the_same_from_version_to_version() {
        let parts = [
            address("10.1.2.3", 24, 64),
            Part::Identity(b"u7"),
            Part::Absent,
        ];

        let expected = [
            0x0581,
            u64::from_le_bytes(*b"login\0\0\0"),
            0x0501,
            u64::from_le_bytes([24, 10, 1, 2, 0, 0, 0, 0]),
            0x0204,
            u64::from_le_bytes(*b"u7\0\0\0\0\0\0"),
            0x000b,
        ];

        assert_eq!(written("login", &parts), expected);
    }

    #[test]
    fn a_part_is_its_bytes_in_words_whatever_its_length() {
        let bytes: Vec<u8> = (1..=40).collect();
        for length in 0..=bytes.len() {
            let bytes = &bytes[..length];

            let written = written("", &[Part::Header(bytes)]);

            let mut padded = bytes.to_vec();
            padded.resize(length.next_multiple_of(8), 0);
            let body: Vec<u8> = written[2..]
                .iter()
                .flat_map(|it| it.to_le_bytes())
                .collect();
            assert_eq!(written[1], 5 | (length as u64) << 8);
            assert_eq!(body, padded);
        }
    }

    /// A kind and what it is of; the bytes are such as tell kinds and lengths.
    fn part() -> impl Strategy<Value = (u8, Vec<u8>)> {
        let byte = prop_oneof![
            Just(0u8),
            Just(1),
            Just(5),
            Just(11),
            Just(0x81),
            any::<u8>()
        ];
        prop_oneof![0usize..12, 46usize..52]
            .prop_flat_map(move |length| (0u8..7, prop::collection::vec(byte.clone(), length)))
    }

    fn as_part((kind, bytes): &(u8, Vec<u8>)) -> Part<'_> {
        let octet = |at: usize| bytes.get(at).copied().unwrap_or(0);
        match kind {
            0 => Part::Identity(bytes),
            1 => Part::Header(bytes),
            2 => Part::ApiKey(bytes),
            3 => Part::Claim(bytes),
            4 => Part::Session(bytes),
            5 => {
                let v4 = Ipv4Addr::new(octet(0), octet(1), octet(2), octet(3));
                let lengths = PrefixLengths::new(octet(4) % 33, 64).unwrap();
                Part::Address(Prefix::of(v4.into(), lengths))
            }
            _ => Part::Absent,
        }
    }

    proptest! {
        #[test]
        fn only_equal_parts_are_written_alike(
            one in prop::collection::vec(part(), 0..4),
            two in prop::collection::vec(part(), 0..4),
            same in 0usize..4,
            (limit, other) in ("[a-c]{0,2}", "[a-c]{0,2}"),
        ) {
            // Two lists that begin alike are harder to keep apart than any two.
            let mut begun: Vec<_> = one.iter().take(same).cloned().collect();
            begun.extend(two);
            let one: Vec<_> = one.iter().map(as_part).collect();
            let two: Vec<_> = begun.iter().map(as_part).collect();

            let alike = written(&limit, &one) == written(&other, &two);

            prop_assert_eq!(alike, limit == other && one == two);
        }
    }
}
