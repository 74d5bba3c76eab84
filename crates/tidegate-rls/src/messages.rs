//! The messages of Envoy's rate limit service v3 (`envoy.service.ratelimit.v3`), as far as they are read and written.
//!
//! Names and numbers are those of the protocol. Fields that we neither read nor write are left out: a reader of
//! protobuf skips what it does not know.

use prost::{Enumeration, Message};

/// What a proxy asks.
#[derive(Clone, PartialEq, Message)]
pub struct RateLimitRequest {
    /// Whose limits are meant.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// What the proxy's request is, each for limits of its own.
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<RateLimitDescriptor>,
    /// How often it counts in each limit; 0 is not set, which is once.
    #[prost(uint32, tag = "3")]
    pub hits_addend: u32,
}

/// A list of keys and values that limits are found by.
#[derive(Clone, PartialEq, Message)]
pub struct RateLimitDescriptor {
    /// The list.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<DescriptorEntry>,
    /// A rate to use instead of the one that is configured.
    #[prost(message, optional, tag = "2")]
    pub limit: Option<RateLimitOverride>,
    /// How often this one counts; 0 only asks.
    #[prost(message, optional, tag = "3")]
    pub hits_addend: Option<u64>,
    /// Whether it gives back instead.
    #[prost(bool, tag = "4")]
    pub is_negative_hits: bool,
}

/// A key and its value.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DescriptorEntry {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value. The protocol calls it a text, which is the same on the wire. It is often what a client has sent: one that
    /// is no UTF-8 must not make the message unreadable, or its sender would choose that nothing is decided.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// A rate that the proxy brings along.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct RateLimitOverride {
    /// How many.
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    /// In what time.
    #[prost(enumeration = "Unit", tag = "2")]
    pub unit: i32,
}

/// What a proxy is told.
#[derive(Clone, PartialEq, Message)]
pub struct RateLimitResponse {
    /// Whether the request passes.
    #[prost(enumeration = "Code", tag = "1")]
    pub overall_code: i32,
    /// One for each descriptor.
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<DescriptorStatus>,
    /// For the client's answer.
    #[prost(message, repeated, tag = "3")]
    pub response_headers_to_add: Vec<HeaderValue>,
    /// The body of a refusal.
    #[prost(bytes = "vec", tag = "5")]
    pub raw_body: Vec<u8>,
}

/// What the limits of one descriptor say.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DescriptorStatus {
    /// Whether it passes.
    #[prost(enumeration = "Code", tag = "1")]
    pub code: i32,
    /// Its limit, as it is configured.
    #[prost(message, optional, tag = "2")]
    pub current_limit: Option<RateLimit>,
    /// How many requests like this one are left.
    #[prost(uint32, tag = "3")]
    pub limit_remaining: u32,
    /// How long until there are more.
    #[prost(message, optional, tag = "4")]
    pub duration_until_reset: Option<Duration>,
}

/// A limit, for people.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RateLimit {
    /// How many.
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    /// In what time; unknown where the protocol has no word for it.
    #[prost(enumeration = "Unit", tag = "2")]
    pub unit: i32,
    /// Its name.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// A header field.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HeaderValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Duration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// And so many nanoseconds.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// Whether something passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Code {
    /// Nothing is said.
    Unknown = 0,
    /// It passes.
    Ok = 1,
    /// It does not.
    OverLimit = 2,
}

/// The times that the protocol has words for. A month is 30 days and a year 365.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Unit {
    /// None of them.
    Unknown = 0,
    /// A second.
    Second = 1,
    /// A minute.
    Minute = 2,
    /// An hour.
    Hour = 3,
    /// A day.
    Day = 4,
    /// Thirty days.
    Month = 5,
    /// 365 days.
    Year = 6,
    /// A week.
    Week = 7,
}

impl Unit {
    const EACH: [Self; 7] = [
        Self::Second,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Year,
    ];

    /// How long it is in microseconds; `None` for the unknown one.
    pub const fn micros(self) -> Option<u64> {
        const SECOND: u64 = 1_000_000;
        const DAY: u64 = 24 * 3600 * SECOND;
        Some(match self {
            Self::Unknown => return None,
            Self::Second => SECOND,
            Self::Minute => 60 * SECOND,
            Self::Hour => 3600 * SECOND,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
        })
    }

    /// The one that is so many microseconds long, or the unknown one.
    pub fn of_micros(micros: u64) -> Self {
        let found = Self::EACH
            .into_iter()
            .find(|it| it.micros() == Some(micros));
        found.unwrap_or(Self::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reads_as_it_is_on_the_wire() {
        // domain "d"; a descriptor with the entry k=v, the limit 5 a minute, 0 hits, and a field that we do not know; 3 hits.
        let wire = b"\x0a\x01d\
            \x12\x12\x0a\x06\x0a\x01k\x12\x01v\x12\x04\x08\x05\x10\x02\x1a\x00\x28\x01\
            \x18\x03";

        let request = RateLimitRequest::decode(&wire[..]).unwrap();

        assert_eq!((request.domain.as_str(), request.hits_addend), ("d", 3));
        let [descriptor] = &request.descriptors[..] else {
            panic!("one descriptor");
        };
        assert_eq!(descriptor.entries[0].key, "k");
        assert_eq!(descriptor.entries[0].value, b"v");
        let limit = descriptor.limit.unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), (5, Unit::Minute));
        assert_eq!(descriptor.hits_addend, Some(0));
        assert!(!descriptor.is_negative_hits);
    }

    #[test]
    fn a_value_that_is_no_text_leaves_the_message_readable() {
        let wire = b"\x0a\x01d\x12\x09\x0a\x07\x0a\x01k\x12\x02\xff\x00";

        let request = RateLimitRequest::decode(&wire[..]).unwrap();

        assert_eq!(request.descriptors[0].entries[0].value, b"\xff\x00");
    }

    #[test]
    fn an_answer_is_written_as_it_is_on_the_wire() {
        let answer = RateLimitResponse {
            overall_code: Code::OverLimit.into(),
            statuses: vec![DescriptorStatus {
                code: Code::OverLimit.into(),
                current_limit: Some(RateLimit {
                    requests_per_unit: 5,
                    unit: Unit::Week.into(),
                    name: "n".to_owned(),
                }),
                limit_remaining: 4,
                duration_until_reset: Some(Duration {
                    seconds: 1,
                    nanos: 2,
                }),
            }],
            response_headers_to_add: vec![HeaderValue {
                key: "k".to_owned(),
                value: "v".to_owned(),
            }],
            raw_body: b"b".to_vec(),
        };

        let wire = answer.encode_to_vec();

        let expected = b"\x08\x02\
            \x12\x13\x08\x02\x12\x07\x08\x05\x10\x07\x1a\x01n\x18\x04\x22\x04\x08\x01\x10\x02\
            \x1a\x06\x0a\x01k\x12\x01v\
            \x2a\x01b";
        assert_eq!(wire, expected);
    }
}
