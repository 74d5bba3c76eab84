//! The waiting room: who waits for what, in which order, and how fast the line moves.
//!
//! A [`Place`] is a number that orders arrivals, a [`Tier`] says how much work somebody has in the site already, and
//! [`Order`] who goes before whom. The [`Ledger`] is all that there is of one room, as a store keeps it: it is the one in
//! this process, and what the scripts of a shared store are held against. [`Stage`] says what may become of a place.
//!
//! The leader asks [`Release`] once a tick how many to let in, by what the fleet has to spare and what [`Load`] has learnt
//! that a visitor brings. [`Positions`] tells everybody how many are before them from one document, [`Outlook`] and [`Band`]
//! how long that may take, and [`Governor`] how often to ask; [`Watch`] says why waits have become longer. Each gateway takes
//! its [`part`] of the rate, and by [`Alone`] and [`Apart`] it goes on without a store. [`Phase`] is what an operator has set,
//! and [`Draw`] the lot that everybody can check.
//!
//! A place is suspended, never destroyed, while its epoch lasts: whoever comes back stands where they stood.

mod band;
mod calls;
mod draw;
mod fleet;
mod governor;
mod ledger;
mod line;
mod load;
mod name;
mod no_shows;
mod order;
mod outlook;
mod pace;
mod phase;
mod place;
mod positions;
mod ranked;
mod release;
mod scored;
mod stage;
mod tier;
mod trend;
mod watch;

pub use band::{Band, Error, HORIZONS};
pub use calls::{EXTENSIONS_MAX, Extended};
pub use draw::{Digest, Draw};
pub use fleet::{ALONE_PART, Alone, Apart, enough, part, spare, unled};
pub use governor::{
    BEAT_MAX, BEAT_MIN, Budget, Governor, Group, INTERVAL_MAX, INTERVAL_MIN, JITTER, Policy,
};
pub use ledger::{Calling, Denied, Ledger, RELEASE_MAX, Released};
pub use line::{
    Beat, Beaten, Census, Claim, Found, MARK_STEP_MIN, MARKS_MAX, Rules, SLACK, Swept, Tallies,
    Whereabouts,
};
pub use load::{LOAD_MAX, LOAD_MIN, Load};
pub use name::{BadRoomName, RoomName};
pub use no_shows::{NO_SHOWS_MAX, NoShows};
pub use order::{CREDIT_MAX_MS, Order};
pub use outlook::{Glance, Outlook, aged};
pub use pace::{Overtaking, Pace, REVERSION};
pub use phase::{Ask, Phase, Ruling};
pub use place::{Epoch, PLACE_MAX, Place, SEQUENCES};
pub use positions::{Marks, Positions};
pub use release::{Bounds, Brake, Look, Plan, Release};
pub use stage::{Event, Stage};
pub use tier::{Standing, Tier};
pub use watch::{Longer, Overshoot, Second, Watch};
