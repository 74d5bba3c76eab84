//! How long a caller still waits and has waited, as headers say it.

use std::time::Duration;

use tidegate_core::time::Wall;

/// A wait before us that is longer than this is a wrong clock or a wrong unit, not a wait.
pub const WAITED_BEFORE_MAX: Duration = Duration::from_secs(3600);

/// A remaining time in whole milliseconds, as in `Tidegate-Timeout-Ms`.
pub fn timeout_ms(value: &[u8]) -> Option<Duration> {
    // Nine digits are eleven days.
    digits(value.trim_ascii(), 9).map(Duration::from_millis)
}

/// A remaining time as in `grpc-timeout`: up to eight digits and a unit.
pub fn grpc_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, number) = value.trim_ascii().split_last()?;
    let number = digits(number, 8)?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// How long before `now` a balancer got the request, as its `X-Request-Start` says.
///
/// Balancers write `t=` or nothing, then seconds with a fraction, or whole milliseconds or
/// microseconds since the epoch; which one is told by the size. `None` for what makes no sense: in
/// the future by more than clocks differ, or more than [`WAITED_BEFORE_MAX`] ago.
pub fn waited_before(value: &[u8], now: Wall) -> Option<Duration> {
    const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(1);

    let start = request_start(value)?;
    if start.since(now) > CLOCKS_DIFFER_MAX {
        return None;
    }
    Some(now.since(start)).filter(|&waited| waited <= WAITED_BEFORE_MAX)
}

fn request_start(value: &[u8]) -> Option<Wall> {
    let value = value.trim_ascii();
    let value = value.strip_prefix(b"t=").unwrap_or(value);
    let mut halves = value.splitn(2, |&byte| byte == b'.');
    let whole = digits(halves.next()?, 16)?;
    // One unit of `whole`, in nanoseconds. From 1973 to 5138 the units cannot be confused.
    let unit_nanos: u64 = match whole {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        _ => 1_000,
    };
    let fraction_nanos = match halves.next() {
        None => 0,
        Some(text) => {
            let kept = &text[..text.len().min(9)];
            if !text.iter().all(u8::is_ascii_digit) {
                return None;
            }
            digits(kept, 9)? * unit_nanos / 10u64.pow(kept.len() as u32)
        }
    };
    let micros = whole
        .checked_mul(unit_nanos / 1_000)?
        .checked_add(fraction_nanos / 1_000)?;
    Some(Wall::from_micros(micros))
}

/// A number of one to `digits_max` digits and nothing else.
fn digits(text: &[u8], digits_max: usize) -> Option<u64> {
    if text.is_empty() || text.len() > digits_max {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        byte.is_ascii_digit()
            .then(|| number * 10 + u64::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MICROS: u64 = 1_700_000_000_500_000;

    fn waited(text: &str) -> Option<Duration> {
        waited_before(text.as_bytes(), Wall::from_micros(NOW_MICROS))
    }

    #[test]
    fn every_balancers_way_to_write_the_start_is_read() {
        let half_a_second = Some(Duration::from_millis(500));

        assert_eq!(waited("t=1700000000.000"), half_a_second);
        assert_eq!(waited("1700000000"), half_a_second);
        assert_eq!(waited("t=1700000000000"), half_a_second);
        assert_eq!(waited("1700000000000"), half_a_second);
        assert_eq!(waited("t=1700000000000000"), half_a_second);
        assert_eq!(waited("1700000000000.000"), half_a_second);
        assert_eq!(
            waited(" t=1700000000.250 "),
            Some(Duration::from_millis(250))
        );
    }

    #[test]
    fn a_start_that_makes_no_sense_is_none() {
        assert_eq!(waited(""), None);
        assert_eq!(waited("t="), None);
        assert_eq!(waited("yesterday"), None);
        assert_eq!(waited("-5"), None);
        assert_eq!(waited("1700000000."), None);
        assert_eq!(waited("1700000000.5x"), None);
        assert_eq!(waited("1600000000"), None, "three years ago");
        assert_eq!(waited("1700000100"), None, "in the future");
        assert_eq!(waited("99999999999999999999"), None);
    }

    #[test]
    fn clocks_that_differ_a_little_mean_no_wait() {
        assert_eq!(waited("1700000001.2"), Some(Duration::ZERO));
    }

    #[test]
    fn a_remaining_time_is_digits_only() {
        assert_eq!(timeout_ms(b"250"), Some(Duration::from_millis(250)));
        assert_eq!(timeout_ms(b"0"), Some(Duration::ZERO));
        for nonsense in ["", "-1", "1.5", "1e3", "12345678901", "ten"] {
            assert_eq!(timeout_ms(nonsense.as_bytes()), None, "{nonsense}");
        }
    }

    #[test]
    fn grpc_names_its_unit() {
        assert_eq!(grpc_timeout(b"2S"), Some(Duration::from_secs(2)));
        assert_eq!(grpc_timeout(b"100m"), Some(Duration::from_millis(100)));
        assert_eq!(
            grpc_timeout(b"99999999H"),
            Some(Duration::from_secs(99_999_999 * 3600))
        );
        assert_eq!(grpc_timeout(b"100"), None);
        assert_eq!(grpc_timeout(b"S"), None);
        assert_eq!(grpc_timeout(b"123456789S"), None);
    }
}
