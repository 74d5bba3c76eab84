//! Whose limit a request is counted in.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tidegate_core::rng::Rng;

use super::{Peers, gateway, passed, told};
use crate::harness::{Figure, Verdict};

/// Addresses that one client takes, one a request.
const ADDRESSES: u64 = 10_000;
const LIMIT: &str = "[[limit]]\nname = \"client\"\nrate = \"10/day\"\n";
/// A network of one client.
const NETWORK: u128 = 0x2001_0db8_0000_0001 << 64;

/// One client with a /64 takes another address for each request.
pub(super) fn one_network(verdict: &mut Verdict, shop: SocketAddr) -> anyhow::Result<()> {
    let gateway = gateway(shop, Peers::Trusted, "workers = 64", LIMIT)?;
    let target = gateway.address();
    let first = passed(target, 1, |_| "192.0.2.1".to_owned())?;
    anyhow::ensure!(first == 1, "nobody passes");
    let keys = told(&gateway, "client", "/keys")?;
    let mut rng = Rng::new(1);
    let rotating = |_| Ipv6Addr::from_bits(NETWORK | u128::from(rng.next_u64())).to_string();
    let all = passed(target, ADDRESSES, rotating)?;
    let more = told(&gateway, "client", "/keys")? - keys;
    verdict.add(
        Figure::count("10/day, one /64 with 10,000 addresses: passed", all as f64).exactly(10.0),
    );
    verdict.add(Figure::count("keys more in memory", more as f64).exactly(1.0));
    let next = passed(target, 20, |_| "2001:db8:0:2::1".to_owned())?;
    verdict.add(Figure::count("the next /64: passed", next as f64).exactly(10.0));
    Ok(())
}

/// Somebody makes up another address for each request: who is no proxy of ours, and who comes through one.
pub(super) fn lies(verdict: &mut Verdict, shop: SocketAddr) -> anyhow::Result<()> {
    for (peers, who) in [
        (Peers::Strangers, "a stranger"),
        (Peers::Trusted, "a proxy's client"),
    ] {
        let gateway = gateway(shop, peers, "workers = 64", LIMIT)?;
        let mut rng = Rng::new(2);
        let lying = |number| {
            let lie = match number % 3 {
                0 => Ipv6Addr::from_bits(u128::from(rng.next_u64()) << 64 | 1).to_string(),
                1 => Ipv4Addr::from_bits(rng.next_u64() as u32).to_string(),
                _ => "127.0.0.1".to_owned(),
            };
            // A proxy adds whom it sees at the end.
            match peers {
                Peers::Strangers => lie,
                Peers::Trusted => format!("{lie}, 203.0.113.7"),
            }
        };
        let all = passed(gateway.address(), ADDRESSES, lying)?;
        let keys = told(&gateway, "client", "/keys")?;
        let what = format!("{who} with 10,000 lies in X-Forwarded-For: passed");
        verdict.add(Figure::count(what, all as f64).exactly(10.0));
        verdict.add(Figure::count(format!("{who}: keys"), keys as f64).exactly(1.0));
    }
    Ok(())
}
