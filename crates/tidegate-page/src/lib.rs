//! The page that a visitor sees in a waiting room: what it looks like, in which words, and what it reads.
//!
//! A [`Theme`] makes [`Pages`]: for each [`Language`] and each [`Variation`] one static file that is the same for every
//! visitor, asks nobody else for anything, and is small enough for the first packets of a connection. What changes is in two
//! documents that its script reads: the room's, the same for everybody ([`document::Room`]), and one's own ([`document::Me`]).
//! `docs/room-page.md` has them field by field.
//!
//! It is a crate of its own so that the services that take `tidegate-http` need no compressor and no JSON. What this leaves
//! out: answering. The gateway decides who gets which variation, with which status and cookies.

mod colour;
pub mod document;
mod export;
mod language;
mod markup;
mod pages;
mod theme;
mod words;

pub use colour::{BadColour, Colour};
pub use export::Exported;
pub use language::Language;
pub use pages::{Page, Pages, SIZE_MAX, Variation};
pub use theme::{BadTheme, Colours, Theme};
