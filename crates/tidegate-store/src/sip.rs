//! SipHash-1-3 with 128 bits of result, of whole words.
//!
//! Of Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), with one round for each word and three at the
//! end, as the standard library's maps use it; the 128 bits are those of its authors' reference code. It is here because
//! this is the hash of every decision on a limit: what takes bytes of any length puts words together from pieces, which
//! costs more than the hash itself.

use tidegate_core::rate::key::Words;

/// The hash of the words so far.
#[derive(Clone, Copy)]
pub(crate) struct Sip {
    state: [u64; 4],
    words: u64,
}

impl Sip {
    /// Of nothing, with a secret.
    pub(crate) fn new(secret: &[u8; 16]) -> Self {
        let [k0, k1] = halves(secret);
        Self {
            state: [
                k0 ^ 0x736f_6d65_7073_6575,
                k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
                k0 ^ 0x6c79_6765_6e65_7261,
                k1 ^ 0x7465_6462_7974_6573,
            ],
            words: 0,
        }
    }

    /// The hash: the first 64 bits are the low ones.
    #[inline]
    pub(crate) fn finish(mut self) -> u128 {
        // The last word has the number of bytes above those that are left, of which there are none.
        let bytes = self.words.wrapping_mul(8);
        self.word(bytes << 56);
        self.state[2] ^= 0xee;
        let low = self.end();
        self.state[1] ^= 0xdd;
        let high = self.end();
        u128::from(high) << 64 | u128::from(low)
    }

    #[inline]
    fn end(&mut self) -> u64 {
        for _ in 0..3 {
            round(&mut self.state);
        }
        let [v0, v1, v2, v3] = self.state;
        v0 ^ v1 ^ v2 ^ v3
    }
}

impl Words for Sip {
    #[inline]
    fn word(&mut self, word: u64) {
        self.words = self.words.wrapping_add(1);
        self.state[3] ^= word;
        round(&mut self.state);
        self.state[0] ^= word;
    }
}

fn halves(secret: &[u8; 16]) -> [u64; 2] {
    let both = u128::from_le_bytes(*secret);
    [both as u64, (both >> 64) as u64]
}

#[inline]
fn round(state: &mut [u64; 4]) {
    let [mut v0, mut v1, mut v2, mut v3] = *state;
    v0 = v0.wrapping_add(v1);
    v1 = v1.rotate_left(13) ^ v0;
    v0 = v0.rotate_left(32);
    v2 = v2.wrapping_add(v3);
    v3 = v3.rotate_left(16) ^ v2;
    v0 = v0.wrapping_add(v3);
    v3 = v3.rotate_left(21) ^ v0;
    v2 = v2.wrapping_add(v1);
    v1 = v1.rotate_left(17) ^ v2;
    v2 = v2.rotate_left(32);
    *state = [v0, v1, v2, v3];
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher as _;

    use proptest::prelude::{any, prop, prop_assert_eq, proptest};
    use siphasher::sip128::{Hasher128 as _, SipHasher13};

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_hash_that_others_know_of_the_same_bytes(
            secret in any::<[u8; 16]>(),
            words in prop::collection::vec(any::<u64>(), 0..70),
        ) {
            let mut ours = Sip::new(&secret);
            let mut theirs = SipHasher13::new_with_key(&secret);
            for word in words {
                ours.word(word);
                theirs.write(&word.to_le_bytes());
            }

            prop_assert_eq!(ours.finish(), theirs.finish128().as_u128());
        }
    }
}
