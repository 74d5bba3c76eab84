//! Requests whose end, or whose addressee, two readers could see differently.
//!
//! Nothing of the kind is ever forwarded: what the application makes of it is not what we made of
//! it, and the difference is how requests are smuggled.

mod line;
mod scan;
mod target;

pub use scan::{Framing, FramingLog, Phase, Scan};

use crate::refusal::Refusal;

/// What is wrong with a request's framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FramingFault {
    /// `Content-Length` beside `Transfer-Encoding`.
    LengthAndCoding,
    /// More than one `Content-Length`, equal or not, on one line or several.
    LengthRepeated,
    /// A `Content-Length` that is not a plain number.
    LengthInvalid,
    /// More than one `Transfer-Encoding`.
    CodingRepeated,
    /// A `Transfer-Encoding` other than `chunked`.
    CodingUnknown,
    /// `Transfer-Encoding` in HTTP/1.0, which has none.
    CodingInHttp10,
    /// HTTP/1.1 without `Host`.
    HostMissing,
    /// More than one `Host`.
    HostRepeated,
    /// A host that cannot be one.
    HostInvalid,
    /// A target that names another authority than `Host`.
    HostDisagrees,
    /// A carriage return that ends no line.
    BareCr,
    /// A line that ends in a line feed alone.
    BareLf,
    /// A line that continues the one before.
    FoldedLine,
    /// White space between a field's name and its colon.
    SpaceBeforeColon,
    /// A field's name with bytes that no name has, or no colon at all.
    FieldName,
    /// A control byte inside a line.
    ControlByte,
    /// A request line of another shape than method, target, version.
    RequestLine,
    /// A version other than HTTP/1.0 and HTTP/1.1.
    Version,
    /// More bytes than a head may have.
    HeadTooLarge,
    /// A chunk size that is not a plain hexadecimal number, or too long a line around it.
    ChunkSize,
    /// A chunk that is longer than it said.
    ChunkEnd,
    /// Trailers that frame or route the request, or too many of them.
    Trailer,
    /// The HTTP engine could not read the head, for a reason of its own.
    Unreadable,
    /// The HTTP engine found a request where the scanner did not, or none where it did.
    OutOfStep,
}

impl FramingFault {
    /// Every fault.
    pub const ALL: [Self; 24] = [
        Self::LengthAndCoding,
        Self::LengthRepeated,
        Self::LengthInvalid,
        Self::CodingRepeated,
        Self::CodingUnknown,
        Self::CodingInHttp10,
        Self::HostMissing,
        Self::HostRepeated,
        Self::HostInvalid,
        Self::HostDisagrees,
        Self::BareCr,
        Self::BareLf,
        Self::FoldedLine,
        Self::SpaceBeforeColon,
        Self::FieldName,
        Self::ControlByte,
        Self::RequestLine,
        Self::Version,
        Self::HeadTooLarge,
        Self::ChunkSize,
        Self::ChunkEnd,
        Self::Trailer,
        Self::Unreadable,
        Self::OutOfStep,
    ];

    /// Position in [`FramingFault::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name used in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::LengthAndCoding => "length_and_coding",
            Self::LengthRepeated => "length_repeated",
            Self::LengthInvalid => "length_invalid",
            Self::CodingRepeated => "coding_repeated",
            Self::CodingUnknown => "coding_unknown",
            Self::CodingInHttp10 => "coding_in_http10",
            Self::HostMissing => "host_missing",
            Self::HostRepeated => "host_repeated",
            Self::HostInvalid => "host_invalid",
            Self::HostDisagrees => "host_disagrees",
            Self::BareCr => "bare_cr",
            Self::BareLf => "bare_lf",
            Self::FoldedLine => "folded_line",
            Self::SpaceBeforeColon => "space_before_colon",
            Self::FieldName => "field_name",
            Self::ControlByte => "control_byte",
            Self::RequestLine => "request_line",
            Self::Version => "version",
            Self::HeadTooLarge => "head_too_large",
            Self::ChunkSize => "chunk_size",
            Self::ChunkEnd => "chunk_end",
            Self::Trailer => "trailer",
            Self::Unreadable => "unreadable",
            Self::OutOfStep => "out_of_step",
        }
    }

    /// A whole answer for whoever sent it, after which the connection ends. No HTTP engine has seen the request, so none writes it.
    pub fn answer(self) -> Vec<u8> {
        let refusal = match self {
            Self::HeadTooLarge => Refusal::HeadTooLarge,
            _ => Refusal::BadFraming,
        };
        let body = refusal.body();
        let mut answer = format!("HTTP/1.1 {}\r\n", refusal.status()).into_bytes();
        for (name, value) in &refusal.headers(None) {
            answer.extend_from_slice(name.as_ref());
            answer.extend_from_slice(b": ");
            answer.extend_from_slice(value.as_bytes());
            answer.extend_from_slice(b"\r\n");
        }
        answer.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        answer.extend_from_slice(&body);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_stands_at_its_index() {
        for (index, fault) in FramingFault::ALL.into_iter().enumerate() {
            assert_eq!(fault.index(), index);
        }
    }
}
