//! What is done in a story, to a server and to a table.

use super::*;

const CALL: Call = Call::within(std::time::Duration::from_secs(1));

/// What somebody does in a story.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Open(Option<Epoch>),
    Turn,
    Phase(Option<Phase>),
    Join(u64),
    Beat(Vec<Beat>),
    Promote(Place, Tier),
    Leave(Place),
    Claim(Place),
    Extend(Place, u64, u8),
    Find(Order, Tier, Place),
    Look(Place),
    Sweep(Fence, Place, u64),
    Release(Fence, Calling),
    Settle(Fence, u64),
    Exchange(Saying),
}

/// What a gateway says in a story.
#[derive(Clone, Debug)]
pub(super) struct Saying {
    pub(super) node: Name,
    pub(super) report: String,
    pub(super) word: Option<(Fence, String)>,
    pub(super) notes: Vec<(String, Option<String>)>,
    pub(super) wants_reports: bool,
}

impl Saying {
    fn with<T>(&self, does: impl FnOnce(&Notice<'_>) -> T) -> T {
        let notes: Vec<_> = (self.notes.iter())
            .map(|(name, said)| (name.as_str(), said.as_deref().map(str::as_bytes)))
            .collect();
        does(&Notice {
            node: &self.node,
            report: self.report.as_bytes(),
            word: (self.word.as_ref()).map(|(fence, word)| (*fence, word.as_bytes())),
            notes: &notes,
            wants_reports: self.wants_reports,
        })
    }
}

/// What is said to it.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Epoch(Epoch),
    Phase(Option<Phase>),
    Place(Place),
    Beaten(Vec<Beaten>),
    Flag(bool),
    Claim(Claim),
    Extended(Option<Extended>),
    Found(Found),
    Looked(Looked),
    Swept(Swept),
    Released(Released),
    Count(u64),
    Board(Board),
}

pub(super) fn in_redis(
    on: &mut Executor,
    room: &Room,
    epoch: Epoch,
    act: &Act,
) -> Result<Said, RoomError> {
    Ok(match act {
        Act::Open(known) => {
            let run = leading(room, "open", known.unwrap_or(Epoch(0)));
            Said::Epoch(epoch_of(on.run(run)?)?)
        }
        Act::Turn => Said::Epoch(epoch_of(on.run(leading(room, "turn", epoch))?)?),
        Act::Phase(phase) => {
            let mut said = on.run(setting_phase(room, epoch, *phase))?;
            Said::Phase(phase_of(&mut said)?)
        }
        Act::Join(count) => Said::Place(Place(on.run(joining(room, epoch, *count))?.natural()?)),
        Act::Beat(beats) => {
            let floor = beats.iter().map(|beat| beat.place).max().unwrap();
            let said = on.run(beating(room, epoch, floor, beats))?;
            Said::Beaten(beaten(said, beats.len())?)
        }
        Act::Promote(place, tier) => {
            Said::Flag(flag(on.run(promoting(room, epoch, *place, *tier))?)?)
        }
        Act::Leave(place) => Said::Flag(flag(on.run(of_one(room, "leave", epoch, *place))?)?),
        Act::Claim(place) => Said::Claim(claimed(on.run(of_one(room, "claim", epoch, *place))?)?),
        Act::Extend(place, ms, most) => {
            let run = extending(room, epoch, *place, (*ms, *most));
            Said::Extended(extended(on.run(run)?)?)
        }
        Act::Find(order, tier, place) => {
            let run = finding(room, epoch, order, (*tier, *place));
            Said::Found(found(on.run(run)?)?)
        }
        Act::Look(aged) => Said::Looked(looked(on.run(looking(room, epoch, *aged))?)?),
        Act::Sweep(fence, aged, most) => {
            let run = sweeping(room, (epoch, *fence), GRACE_MS, *aged, *most);
            Said::Swept(swept(on.run(run)?)?)
        }
        Act::Release(fence, calling) => {
            let run = releasing(room, (epoch, *fence), calling);
            Said::Released(released(on.run(run)?)?)
        }
        Act::Settle(fence, most) => {
            let run = settling(room, (epoch, *fence), *most);
            Said::Count(on.run(run)?.natural()?)
        }
        Act::Exchange(saying) => {
            let run = saying.with(|notice| board::write(room, epoch, notice));
            Said::Board(board::read(on.run(run)?)?)
        }
    })
}

pub(super) async fn in_table(room: &Room, epoch: Epoch, act: &Act) -> Result<Said, RoomError> {
    Ok(match act {
        Act::Open(known) => Said::Epoch(room.open(*known, CALL).await?),
        Act::Turn => Said::Epoch(room.turn(epoch, CALL).await?),
        Act::Phase(phase) => Said::Phase(room.set_phase(epoch, *phase, CALL).await?),
        Act::Join(count) => Said::Place(room.join(epoch, *count, CALL).await?),
        Act::Beat(beats) => Said::Beaten(room.beat(epoch, beats, CALL).await?),
        Act::Promote(place, tier) => Said::Flag(room.promote(epoch, *place, *tier, CALL).await?),
        Act::Leave(place) => Said::Flag(room.leave(epoch, *place, CALL).await?),
        Act::Claim(place) => Said::Claim(room.claim(epoch, *place, CALL).await?),
        Act::Extend(place, ms, most) => {
            Said::Extended(room.extend(epoch, *place, *ms, *most, CALL).await?)
        }
        Act::Find(order, tier, place) => {
            Said::Found(room.find(epoch, order, (*tier, *place), CALL).await?)
        }
        Act::Look(aged) => Said::Looked(room.look(epoch, *aged, CALL).await?),
        Act::Sweep(fence, aged, most) => {
            let grace = std::time::Duration::from_millis(GRACE_MS);
            let led = (epoch, *fence);
            Said::Swept(room.sweep(led, grace, *aged, *most, CALL).await?)
        }
        Act::Release(fence, calling) => {
            Said::Released(room.release((epoch, *fence), calling, CALL).await?)
        }
        Act::Settle(fence, most) => Said::Count(room.settle((epoch, *fence), *most, CALL).await?),
        Act::Exchange(saying) => {
            let RoomStore::Embedded(on) = &room.store else {
                unreachable!("it is a table's")
            };
            Said::Board(saying.with(|notice| on.exchange(room, epoch, notice))?)
        }
    })
}
