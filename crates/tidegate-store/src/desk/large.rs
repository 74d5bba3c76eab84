//! Values that are too large for a session lie beside it, and a pointer in it.

use std::time::Instant;

use tidegate_core::session::{Format, Name, Op, SessionId, SlotTag, Value};
use tidegate_core::time::Wall;

use super::Shared;
use super::counters::Count;
use super::error::DeskError;
use crate::{Call, StoreError};

/// Where a large value lies: `BLOB,BYTES,FORMAT`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pointer {
    /// Its name, which begins with the slot tag that it lies at: a pointer may come along to a
    /// session elsewhere.
    blob: String,
    /// How large it is.
    bytes: usize,
    format: Format,
}

/// A value that cannot be put out of line either.
pub(super) struct Oversized {
    pub(super) name: Name,
    pub(super) bytes: usize,
}

/// Why values cannot be put out of line.
pub(super) enum NotOutside {
    Oversized(Oversized),
    /// An application may not point to what it likes.
    Forged,
    Store(StoreError),
}

impl Shared {
    /// Puts values over the ceiling beside the session, and pointers in their place.
    pub(super) async fn put_outside(
        &self,
        id: &SessionId,
        ops: &mut [Op],
        until: Instant,
    ) -> Result<(), NotOutside> {
        for op in ops {
            let Op::Set { name, value, .. } = op else {
                continue;
            };
            self.point(id, name, value, until).await?;
        }
        Ok(())
    }

    /// Puts a value beside the session if it is over the ceiling, and a pointer in its place.
    pub(super) async fn point(
        &self,
        id: &SessionId,
        name: &Name,
        value: &mut Value,
        until: Instant,
    ) -> Result<(), NotOutside> {
        let bytes = value.bytes.len();
        if value.format == Format::Pointer {
            return Err(NotOutside::Forged);
        }
        if bytes <= self.plan.ceilings.value as usize {
            return Ok(());
        }
        if bytes > self.plan.blob_bytes_max as usize {
            let name = name.clone();
            return Err(NotOutside::Oversized(Oversized { name, bytes }));
        }
        let blob = blob_name(id.tag()).map_err(NotOutside::Store)?;
        let call = self.large_call(until);
        let keep = self.keep_large(name);
        // The value first: a pointer to nothing would be worse than a value without a pointer,
        // which dies by its time.
        let put = self.store.put_blob(id, &blob, &value.bytes, keep, call);
        self.heard(id, put.await).map_err(NotOutside::Store)?;
        self.counters.add(Count::BlobsWritten);
        let format = value.format;
        *value = Pointer {
            blob,
            bytes,
            format,
        }
        .value();
        Ok(())
    }

    /// The value behind a pointer.
    pub(super) async fn behind(
        &self,
        id: &SessionId,
        pointer: &Value,
        until: Instant,
    ) -> Result<Option<Value>, DeskError> {
        let Some(pointer) = Pointer::parse(pointer) else {
            return Err(DeskError::Odd("this is no pointer".to_owned()));
        };
        let place = place_of(&pointer.blob, id);
        let call = self.large_call(until);
        let bytes = self.store.blob(&place, &pointer.blob, call).await;
        let bytes = self.heard(id, bytes).map_err(DeskError::from)?;
        self.counters.add(Count::BlobsRead);
        let format = pointer.format;
        Ok(bytes.map(|bytes| Value { format, bytes }))
    }

    /// Copies the value behind a pointer of the session `from` to the side of `id`, and points there.
    pub(super) async fn copy_large(
        &self,
        from: &SessionId,
        id: &SessionId,
        name: &Name,
        pointer: &mut Value,
        until: Instant,
    ) -> Result<(), DeskError> {
        let Some(mut value) = self.behind(from, pointer, until).await? else {
            return Err(DeskError::Odd(
                "there is nothing behind the pointer".to_owned(),
            ));
        };
        match self.point(id, name, &mut value, until).await {
            Ok(()) => {
                *pointer = value;
                Ok(())
            }
            Err(NotOutside::Store(error)) => Err(error.into()),
            Err(_) => Err(DeskError::Odd("the value is too large by now".to_owned())),
        }
    }

    /// Until when a large value is kept: as long as any session could want it.
    fn keep_large(&self, name: &Name) -> Wall {
        let lives = &self.plan.lives;
        let mut keep = lives.anonymous.absolute.max(lives.signed_in.absolute);
        if self.plan.attributes.of(name).resume.is_some() {
            keep += self.plan.resume.window;
        }
        let micros = u64::try_from(keep.as_micros()).unwrap_or(u64::MAX);
        Wall::from_micros(self.clock.now().as_micros().saturating_add(micros))
    }

    fn large_call(&self, until: Instant) -> Call {
        let left = until.saturating_duration_since(Instant::now());
        Call::within(left.min(self.plan.blob))
    }
}

/// The blob that `value` points to and the session beside which it lies, by its slot tag.
pub(super) fn target(id: &SessionId, value: &Value) -> Option<(SessionId, String)> {
    let pointer = Pointer::parse(value)?;
    Some((place_of(&pointer.blob, id), pointer.blob))
}

impl Pointer {
    fn value(&self) -> Value {
        let Self {
            blob,
            bytes,
            format,
        } = self;
        let letter = char::from(format.letter());
        Value {
            format: Format::Pointer,
            bytes: format!("{blob},{bytes},{letter}").into_bytes(),
        }
    }

    fn parse(value: &Value) -> Option<Self> {
        if value.format != Format::Pointer {
            return None;
        }
        let text = std::str::from_utf8(&value.bytes).ok()?;
        let mut parts = text.split(',');
        let (blob, bytes, format) = (parts.next()?, parts.next()?, parts.next()?);
        let [letter] = *format.as_bytes() else {
            return None;
        };
        Some(Self {
            blob: blob.to_owned(),
            bytes: bytes.parse().ok()?,
            format: Format::of_letter(letter),
        })
    }
}

/// A name for a blob that lies at `tag`.
fn blob_name(tag: SlotTag) -> Result<String, StoreError> {
    let random = getrandom::u64().map_err(|error| StoreError::Broken(error.to_string()))?;
    Ok(format!("{tag}{random:016x}"))
}

/// Some id at the slot tag where `blob` lies.
fn place_of(blob: &str, id: &SessionId) -> SessionId {
    let tag = blob.as_bytes().get(..SlotTag::LEN);
    let tag = tag.and_then(|tag| SlotTag::parse(tag).ok());
    let hash = id.hash().as_bytes().try_into().ok();
    let place = tag
        .zip(hash)
        .and_then(|(tag, hash)| SessionId::new(tag, hash).ok());
    place.unwrap_or(*id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_reads_back_and_says_where_the_value_lies() {
        let id = SessionId::new(SlotTag::from_bits(7), *b"ABCDEFGHIJKLMNOPQRSTUV").unwrap();
        let elsewhere = SlotTag::from_bits(99);
        let pointer = Pointer {
            blob: blob_name(elsewhere).unwrap(),
            bytes: 100_000,
            format: Format::Json,
        };

        let value = pointer.value();

        assert_eq!(Pointer::parse(&value), Some(pointer.clone()));
        let (place, blob) = target(&id, &value).unwrap();
        assert_eq!((place.tag(), blob), (elsewhere, pointer.blob));
    }

    #[test]
    fn what_is_no_pointer_is_not_followed() {
        for (format, text) in [
            (Format::Text, "aaaa0,1,s"),
            (Format::Pointer, "aaaa0,1"),
            (Format::Pointer, "aaaa0,x,s"),
            (Format::Pointer, "aaaa0,1,ss"),
        ] {
            let bytes = text.as_bytes().to_vec();
            assert_eq!(Pointer::parse(&Value { format, bytes }), None, "{text}");
        }
    }
}
