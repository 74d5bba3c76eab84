//! The words that a log is written in: whole numbers of seven bits a byte, spans, and a running
//! check over everything before.

use std::time::Duration;

use crate::time::Mono;

/// What keeps bytes from being read as what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// They end too early.
    Short,
    /// They say something that was never written.
    Damaged(&'static str),
}

/// A longer text in a header is cut.
const TEXT_BYTES_MAX: usize = 255;

pub(super) fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_u32(out: &mut Vec<u8>, value: u32) {
    put_u64(out, u64::from(value));
}

/// The way from `from` to `to`, short when they are near, whichever is the later one.
pub(super) fn put_step(out: &mut Vec<u8>, from: Mono, to: Mono) {
    let step = to.as_nanos().wrapping_sub(from.as_nanos()) as i64;
    put_u64(out, ((step << 1) ^ (step >> 63)) as u64);
}

pub(super) fn put_span(out: &mut Vec<u8>, span: Duration) {
    put_u64(out, span.as_secs());
    put_u32(out, span.subsec_nanos());
}

pub(super) fn put_fixed(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn put_float(out: &mut Vec<u8>, value: f64) {
    put_fixed(out, value.to_bits());
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

/// Reads a slice from its front.
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What is left.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How many bytes are left.
    pub(super) const fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Flaw> {
        let (&first, rest) = self.rest.split_first().ok_or(Flaw::Short)?;
        self.rest = rest;
        Ok(first)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Flaw> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Flaw::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Flaw> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Flaw::Damaged("a number that is too long"))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Flaw> {
        u32::try_from(self.u64()?).map_err(|_| Flaw::Damaged("a number that is too large"))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Flaw> {
        u16::try_from(self.u64()?).map_err(|_| Flaw::Damaged("a number that is too large"))
    }

    pub(super) fn step(&mut self, from: Mono) -> Result<Mono, Flaw> {
        let zigzag = self.u64()?;
        let step = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        Ok(Mono::from_nanos(from.as_nanos().wrapping_add(step)))
    }

    pub(super) fn span(&mut self) -> Result<Duration, Flaw> {
        let (secs, nanos) = (self.u64()?, self.u32()?);
        if nanos < 1_000_000_000 {
            Ok(Duration::new(secs, nanos))
        } else {
            Err(Flaw::Damaged(
                "a span with more than a second of nanoseconds",
            ))
        }
    }

    pub(super) fn fixed(&mut self) -> Result<u64, Flaw> {
        let bytes = self.bytes(8)?;
        Ok(u64::from_le_bytes(
            bytes.try_into().expect("eight were taken"),
        ))
    }

    pub(super) fn float(&mut self) -> Result<f64, Flaw> {
        self.fixed().map(f64::from_bits)
    }

    pub(super) fn text(&mut self) -> Result<String, Flaw> {
        let length = self.byte()?;
        let bytes = self.bytes(length.into())?;
        let text = std::str::from_utf8(bytes);
        text.map(str::to_owned)
            .map_err(|_| Flaw::Damaged("a text that is none"))
    }
}

/// A running check over all bytes so far. Each step is a bijection, so what differs once stays
/// different: a damaged byte that one record's check byte misses is seen by one soon after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check(u64);

impl Check {
    pub(super) const fn new() -> Self {
        Self(0x7469_6465_6761_7465)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            // The multiplier of SplitMix64; any odd one with bits all over would do.
            self.0 = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            self.0 ^= self.0 >> 32;
        }
    }

    /// One byte of it, at the end of each record.
    pub(super) const fn byte(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// All of it, where a log begins and ends.
    pub(super) const fn whole(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_word_is_read_as_it_was_written(
            numbers in prop::collection::vec(any::<u64>(), 1..20),
            small in any::<u32>(),
            from in any::<u64>(),
            float in any::<f64>(),
            secs in any::<u64>(),
            nanos in 0u32..1_000_000_000,
        ) {
            let mut out = Vec::new();
            let span = Duration::new(secs, nanos);
            let from = Mono::from_nanos(from);
            numbers.iter().for_each(|&number| put_u64(&mut out, number));
            numbers.iter().for_each(|&number| put_step(&mut out, from, Mono::from_nanos(number)));
            put_u32(&mut out, small);
            put_span(&mut out, span);
            put_float(&mut out, float);

            let mut cursor = Cursor::new(&out);

            for &number in &numbers {
                prop_assert_eq!(cursor.u64(), Ok(number));
            }
            for &number in &numbers {
                prop_assert_eq!(cursor.step(from), Ok(Mono::from_nanos(number)));
            }
            prop_assert_eq!(cursor.u32(), Ok(small));
            prop_assert_eq!(cursor.span(), Ok(span));
            prop_assert_eq!(cursor.float().map(f64::to_bits), Ok(float.to_bits()));
            prop_assert_eq!(cursor.byte(), Err(Flaw::Short));
        }

        #[test]
        fn a_changed_byte_is_never_forgotten(
            bytes in prop::collection::vec(any::<u8>(), 1..100),
            at in any::<prop::sample::Index>(),
            flip in 1u8..,
        ) {
            let mut changed = bytes.clone();
            *at.get_mut(&mut changed) ^= flip;
            let sum = |bytes: &[u8]| {
                let mut check = Check::new();
                bytes.chunks(13).for_each(|part| check.add(part));
                check.whole()
            };

            prop_assert_ne!(sum(&bytes), sum(&changed));
        }
    }

    #[test]
    fn steps_to_near_readings_are_short_both_ways() {
        let mut out = Vec::new();

        put_step(&mut out, Mono::from_nanos(1000), Mono::from_nanos(1060));
        put_step(&mut out, Mono::from_nanos(1060), Mono::from_nanos(1000));

        assert_eq!(out.len(), 2);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut out = Vec::new();

        put_text(&mut out, &"é".repeat(200));

        assert_eq!(Cursor::new(&out).text().unwrap(), "é".repeat(127));
    }
}
