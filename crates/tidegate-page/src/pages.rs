//! All pages of a room, made once.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;
use sha2::{Digest, Sha256};
use tidegate_core::room::RoomName;

use crate::markup::{self, Assets};
use crate::{BadTheme, Language, Theme};

/// Most bytes that a page has when it is compressed: about what a server may send before it must wait for the first answer
/// of the client (ten segments, RFC 6928).
pub const SIZE_MAX: usize = 14 * 1_024;

/// What a page is the answer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variation {
    /// A visit that has to wait. The page looks again at its own address.
    Waiting,
    /// A form that was sent and not passed on: the page asks for itself again, so that the browser sends it once more.
    Unsent,
    /// Nothing: it is served by a CDN, and the fragment of its address has the path to go to.
    Hosted,
    /// The wish, without script, that it should not look again by itself.
    Still,
    /// The second visit without our cookie.
    NoCookies,
    /// A visit to what is sold out.
    SoldOut,
    /// A visit to what has ended.
    Ended,
}

/// A page as it is sent.
#[derive(Clone, Debug)]
pub struct Page {
    /// As it is. `Content-Type: text/html; charset=utf-8`.
    pub plain: Bytes,
    /// The same with `Content-Encoding: gzip`; [`SIZE_MAX`] bytes at most.
    pub gzip: Bytes,
}

/// All pages of a room.
#[derive(Clone, Debug)]
pub struct Pages {
    room: RoomName,
    fallback: Language,
    policy: HeaderValue,
    hash: String,
    pages: Vec<Page>,
}

impl Variation {
    /// How many there are.
    pub const COUNT: usize = 7;
    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Waiting,
        Self::Unsent,
        Self::Hosted,
        Self::Still,
        Self::NoCookies,
        Self::SoldOut,
        Self::Ended,
    ];

    /// What its `main` says of itself.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Waiting | Self::Unsent | Self::Hosted => "start",
            Self::Still => "still",
            Self::NoCookies => "nocookie",
            Self::SoldOut | Self::Ended => "closed",
        }
    }

    /// The keys of its heading and of what is below.
    pub(crate) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Waiting | Self::Unsent | Self::Hosted => ("heading", "sub"),
            Self::Still => ("heading", "still"),
            Self::NoCookies => ("nocookie_head", "nocookie"),
            Self::SoldOut => ("sold_out_head", "sold_out"),
            Self::Ended => ("ended_head", "ended"),
        }
    }

    /// Whether it has a script.
    pub(crate) const fn lives(self) -> bool {
        matches!(self, Self::Waiting | Self::Unsent | Self::Hosted)
    }
}

impl Pages {
    /// Makes all pages of `room`: a hundred, in some hundred milliseconds.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the theme, and pages that it makes too large.
    pub fn new(room: &RoomName, theme: &Theme) -> Result<Self, BadTheme> {
        theme.check()?;
        let assets = Assets::new(theme);
        let mut pages = Vec::with_capacity(Variation::COUNT * Language::COUNT);
        for variation in Variation::ALL {
            for language in Language::ALL {
                let page = markup::page(room, theme, &assets, language, variation);
                let gzip = compressed(page.as_bytes());
                if gzip.len() > SIZE_MAX {
                    return Err(BadTheme::TooLarge {
                        language,
                        bytes: gzip.len(),
                        max: SIZE_MAX,
                    });
                }
                pages.push(Page {
                    plain: page.into(),
                    gzip,
                });
            }
        }
        // What a `meta` element cannot say: who may put the page into a frame.
        let policy = assets.policy + "; frame-ancestors 'self'";
        Ok(Self {
            room: room.clone(),
            fallback: theme.fallback(),
            policy: policy.try_into().expect("a policy is ASCII"),
            hash: hash(&pages),
            pages,
        })
    }

    /// The page, ready to be sent: clone the bytes that are wanted, which copies nothing.
    pub fn of(&self, language: Language, variation: Variation) -> &Page {
        &self.pages[variation as usize * Language::COUNT + language.index()]
    }

    /// The language for whoever sent this `Accept-Language`.
    pub fn language(&self, accept: Option<&str>) -> Language {
        Language::choose(accept, self.fallback)
    }

    /// The value of `Content-Security-Policy` for all of them.
    pub const fn policy(&self) -> &HeaderValue {
        &self.policy
    }

    /// What changes with any of the pages: 16 hexadecimal digits.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Whose pages they are.
    pub const fn room(&self) -> &RoomName {
        &self.room
    }
}

fn compressed(page: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder
        .write_all(page)
        .and_then(|()| encoder.finish())
        .expect("writing to memory")
        .into()
}

fn hash(pages: &[Page]) -> String {
    let mut all = Sha256::new();
    for page in pages {
        all.update(&page.plain);
    }
    let digest = all.finalize();
    digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests;
