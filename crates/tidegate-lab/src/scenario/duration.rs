//! Durations as people write them: `50ms`, `2s`, `10min`.

use std::time::Duration;

use crate::text::shown;
use serde::{Deserialize, Deserializer, de};

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_duration(&text).map_err(|error| {
        de::Error::custom(format!(
            "`{}` is no duration ({}); write a number with a unit, such as \"50ms\"",
            shown(&text),
            shown(&error.to_string()),
        ))
    })
}

pub(super) mod option {
    use super::{Deserializer, Duration};

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        super::deserialize(from).map(Some)
    }
}
