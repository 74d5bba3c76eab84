//! Dates and times as RFC 3339 has them.
//!
//! `humantime` reads those of UTC. People who have something begin go by their own clock, which is some hours ahead or behind.

use std::time::UNIX_EPOCH;

/// The moment at `text`, in milliseconds since 1970. It is strict: capitals, and nothing around it.
pub(super) fn moment_ms(text: &str) -> Option<u64> {
    let (local, ahead_min) = match text.strip_suffix('Z') {
        Some(local) => (local, 0),
        None => {
            let at = text.len().checked_sub("+00:00".len())?;
            let (local, ahead) = text.split_at_checked(at)?;
            (local, ahead_minutes(ahead)?)
        }
    };
    // What is between it and the Z would be taken for a part of a second, even nothing.
    if !local.ends_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let moment = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let since = moment.duration_since(UNIX_EPOCH).ok()?;
    let local_ms = i64::try_from(since.as_millis()).ok()?;
    u64::try_from(local_ms - 60_000 * ahead_min).ok()
}

/// How many minutes a clock is ahead of UTC that has `+01:00` behind what it says.
fn ahead_minutes(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let two = |digits: &str, most: i64| -> Option<i64> {
        let fits = digits.len() == 2 && digits.bytes().all(|it| it.is_ascii_digit());
        let number: i64 = fits.then(|| digits.parse().ok())??;
        (number <= most).then_some(number)
    };
    Some(sign * (60 * two(hours, 23)? + two(minutes, 59)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_same_by_every_clock() {
        let ten = 1_798_106_400_000;
        for text in [
            "2026-12-24T10:00:00Z",
            "2026-12-24T10:00:00+00:00",
            "2026-12-24T10:00:00-00:00",
            "2026-12-24T11:00:00+01:00",
            "2026-12-24T15:45:00+05:45",
            "2026-12-23T22:30:00-11:30",
            "2026-12-25T00:00:00+14:00",
        ] {
            assert_eq!(moment_ms(text), Some(ten), "{text}");
        }
        assert_eq!(moment_ms("2026-12-24T10:00:00.25Z"), Some(ten + 250));
        assert_eq!(moment_ms("2026-12-24T11:00:00.250+01:00"), Some(ten + 250));
        assert_eq!(moment_ms("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(moment_ms("2024-02-29T00:00:00Z"), Some(1_709_164_800_000));
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "",
            "Z",
            "2026-12-24",
            "2026-12-24T10:00:00",
            "2026-12-24 10:00:00Z",
            "2026-12-24T10:00Z",
            "2026-12-24t10:00:00z",
            "2026-12-24T10:00:00z",
            "2026-12-24T10:00:00ZZ",
            "2026-12-24T10:00:00.Z",
            "2026-12-24T10:00:00.+01:00",
            "2026-12-24T10:00:00+00:00Z",
            "2026-12-24T10:00:00+1:00",
            "2026-12-24T10:00:00+0100",
            "2026-12-24T10:00:00+24:00",
            "2026-12-24T10:00:00+01:60",
            "2026-12-24T10:00:00 01:00",
            "2026-12-24T10:00:00+0a:00",
            "2026-13-24T10:00:00Z",
            "2026-02-29T10:00:00Z",
            "2026-12-24T24:00:00Z",
            "2026-12-24T10:61:00Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:30:00+01:00",
            " 2026-12-24T10:00:00Z",
            "2026-12-24T10:00:00Zé",
            "2026-12-24T10:00:00é01:0",
        ] {
            assert_eq!(moment_ms(text), None, "{text}");
        }
    }
}
