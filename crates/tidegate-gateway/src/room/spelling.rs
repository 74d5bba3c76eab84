//! Base64url of which there is one spelling and no other.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// `bytes` in base64url without padding (RFC 4648, 5).
pub(super) fn spelt(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The `N` bytes that `text` spells: with no padding, no other alphabet, and no bits behind the last byte that would make two
/// texts of the same bytes.
pub(super) fn read<const N: usize>(text: impl AsRef<[u8]>) -> Option<[u8; N]> {
    let text = text.as_ref();
    if text.len() != (N * 8).div_ceil(6) {
        return None;
    }
    let mut bytes = [0; N];
    let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
    (length == N).then_some(bytes)
}

/// The bytes that `text` spells, of whatever length, at the beginning of `into`.
pub(super) fn read_into<'b>(text: &str, into: &'b mut [u8]) -> Option<&'b [u8]> {
    let length = URL_SAFE_NO_PAD.decode_slice(text, into).ok()?;
    Some(&into[..length])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn bytes_have_one_spelling() {
        assert_eq!(read::<1>("_w"), Some([0xff]));
        for other in [
            "_x", "_z", "/w", "_w=", "_w==", "_", "", "_w_w", " _w", "_w\n",
        ] {
            assert_eq!(read::<1>(other), None, "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_spelt_is_read_and_what_is_read_is_spelt_so(
            bytes in any::<[u8; 16]>(),
            text in prop::collection::vec(any::<u8>(), 22),
        ) {
            prop_assert_eq!(read(spelt(&bytes)), Some(bytes));
            if let Some(read) = read::<16>(&text) {
                prop_assert_eq!(spelt(&read).into_bytes(), text);
            }
        }
    }
}
