//! Sessions: what one holds, what may be done to it, and what comes of that.
//!
//! A session lives in a store, and everything about its life goes by the store's clock. The two
//! backends answer alike because they obey the same rules: the embedded one runs [`Record`], the
//! scripts for Redis are the same rules in Lua, and one suite of tests holds both to them.
//!
//! [`Record`]: record::Record

pub mod capsule;
pub mod durability;
pub mod id;
pub mod json;
pub mod layout;
pub mod lifetime;
pub mod merge;
pub mod op;
pub mod policy;
pub mod record;
pub mod reply;
pub mod seen;
pub mod value;

pub use durability::{Durability, OnShort, Replication, Wait, WriteClass};
pub use id::{SessionId, SlotTag, Uid};
pub use lifetime::Lifetimes;
pub use op::{Ceilings, Expect, Fields, Op, OpSeq, Principal, Rotation, Writer};
pub use policy::{MergePolicy, ResumePolicy};
pub use record::{Birth, Record};
pub use reply::{Created, Destroyed, Found, Gone, Head, Opened, Patched, Rotated};
pub use value::{Attribute, Format, Name, Value, Version};
