//! Beacons, what was published about them, and orders, in a fleet of one process. Nothing of it is in the file: what
//! a node says is over in seconds, and with the process there is nobody to be told anything.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::session::Name;
use tidegate_core::time::Wall;

use super::Embedded;
use super::fleet::wall_ms;
use super::sessions::later_ms;
use super::state::ms;
use crate::beacons::{
    BEACONS_MAX, Beacon, Beacons, Decided, Heard, Issue, LEADERSHIP, Mine, Order, PUBLISHED_KEPT,
    Posted, Published, Stamp,
};
use crate::lease::Fence;
use crate::members::Node;

/// What nodes, a leader and operators said.
#[derive(Debug, Default)]
pub(super) struct Board {
    beacons: BTreeMap<Name, Kept>,
    orders: BTreeMap<Name, Order>,
    /// The last that was published, and until when (ms) it is remembered.
    published: Option<(Decided, Stamp, u64)>,
}

#[derive(Debug)]
struct Kept {
    beacon: Beacon,
    until_ms: u64,
}

impl Board {
    fn remembered(&self, now: Wall) -> Option<(&Decided, Stamp)> {
        let (decided, stamp, until_ms) = self.published.as_ref()?;
        (ms(now) < *until_ms).then_some((decided, *stamp))
    }
}

impl Embedded {
    pub(crate) fn post_beacon(
        &self,
        node: &Node,
        said: &[u8],
        lease: Duration,
        is_first: bool,
    ) -> Posted {
        let leadership = leadership();
        self.with(|state, now| {
            let leader_left = state.circle.lease_left(&leadership, now);
            let board = &mut state.board;
            match board.beacons.get(&node.id) {
                Some(there) => {
                    let is_other = there.beacon.node != *node;
                    if is_other && !is_first && ms(now) < there.until_ms {
                        return Posted::Superseded;
                    }
                }
                None if board.beacons.len() >= BEACONS_MAX as usize => {
                    board.beacons.retain(|_, kept| ms(now) < kept.until_ms);
                    if board.beacons.len() >= BEACONS_MAX as usize {
                        return Posted::Full;
                    }
                }
                None => {}
            }
            let beacon = Beacon {
                node: node.clone(),
                at: wall_ms(ms(now)),
                said: said.to_vec(),
            };
            let until_ms = later_ms(now, lease);
            let kept = Kept { beacon, until_ms };
            board.beacons.insert(node.id.clone(), kept);
            let mine = board.remembered(now).map(|(decided, stamp)| Mine {
                stamp,
                fleet: decided.fleet.clone(),
                verdict: decided.verdicts.get(&node.id).cloned(),
            });
            Posted::Heard(Heard {
                now,
                leader_left,
                mine,
            })
        })
    }

    pub(crate) fn beacons(&self) -> Beacons {
        self.with(|state, now| {
            let board = &mut state.board;
            board.beacons.retain(|_, kept| ms(now) < kept.until_ms);
            let holds = |order: &Order| order.until.is_none_or(|until| ms(now) < ms(until));
            board.orders.retain(|_, order| holds(order));
            let living = board.beacons.values();
            Beacons {
                now,
                beacons: living.map(|kept| kept.beacon.clone()).collect(),
                orders: board.orders.values().cloned().collect(),
                // Nobody else writes here.
                odd: Vec::new(),
            }
        })
    }

    pub(crate) fn publish(&self, decided: &Decided, valid: Duration) -> Published {
        let leadership = leadership();
        self.with(|state, now| {
            let latest = state.circle.fence(&leadership).map(Fence);
            if let Some(by) = latest.filter(|latest| *latest > decided.fence) {
                return Published::Outranked { by };
            }
            if let Some((_, there)) = state.board.remembered(now) {
                let is_later =
                    (there.fence, there.generation) > (decided.fence, decided.generation);
                if is_later {
                    return Published::Outranked { by: there.fence };
                }
            }
            let stamp = Stamp {
                fence: decided.fence,
                generation: decided.generation,
                at: wall_ms(ms(now)),
                until: wall_ms(later_ms(now, valid)),
            };
            let kept_ms = later_ms(now, PUBLISHED_KEPT);
            state.board.published = Some((decided.clone(), stamp, kept_ms));
            Published::Done { now }
        })
    }

    pub(crate) fn published(&self) -> Option<Issue> {
        self.with(|state, now| {
            let (decided, stamp) = state.board.remembered(now)?;
            Some(Issue {
                now,
                stamp,
                fleet: decided.fleet.clone(),
                verdicts: decided.verdicts.clone(),
            })
        })
    }

    pub(crate) fn order(&self, node: &Name, said: &[u8], span: Option<Duration>) -> bool {
        self.with(|state, now| {
            let orders = &mut state.board.orders;
            if !orders.contains_key(node) && orders.len() >= BEACONS_MAX as usize {
                return false;
            }
            let order = Order {
                node: node.clone(),
                since: wall_ms(ms(now)),
                until: span.map(|span| wall_ms(later_ms(now, span.max(Duration::from_millis(1))))),
                said: said.to_vec(),
            };
            orders.insert(node.clone(), order);
            true
        })
    }

    pub(crate) fn take_order_back(&self, node: &Name) -> bool {
        self.with(|state, _| state.board.orders.remove(node).is_some())
    }
}

fn leadership() -> Name {
    Name::new(LEADERSHIP).expect("it is a name")
}
