//! Whether a request is another try of something that was refused or failed before, as headers
//! say it.

/// Whether an attempt's number, as in `Tidegate-Attempt` and `x-envoy-attempt-count`, is that of a
/// retry. `None` for what is no such number.
pub fn is_retry(value: &[u8]) -> Option<bool> {
    match number(value)? {
        0 => None,
        attempt => Some(attempt >= 2),
    }
}

/// Whether attempts went before, as `grpc-previous-rpc-attempts` says. `None` for what is no number.
pub fn follows_others(value: &[u8]) -> Option<bool> {
    number(value).map(|attempts| attempts >= 1)
}

fn number(value: &[u8]) -> Option<u32> {
    // Digits alone: the standard parser would take a sign as well.
    let value = value.trim_ascii();
    if value.iter().all(u8::is_ascii_digit) {
        str::from_utf8(value).ok()?.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempt_is_no_retry_and_the_second_is() {
        assert_eq!(is_retry(b"1"), Some(false));
        assert_eq!(is_retry(b" 2 "), Some(true));
        assert_eq!(is_retry(b"40"), Some(true));
    }

    #[test]
    fn grpc_counts_those_before() {
        assert_eq!(follows_others(b"0"), Some(false));
        assert_eq!(follows_others(b"1"), Some(true));
    }

    #[test]
    fn what_is_no_number_says_nothing() {
        for value in [
            &b""[..],
            b"0",
            b"+2",
            b"-1",
            b"two",
            b"99999999999",
            b"\xff",
        ] {
            assert_eq!(is_retry(value), None, "{value:?}");
        }
    }
}
