//! Single lines of a request: fields, lengths, codings, chunk sizes.

use super::FramingFault;

/// The largest length that the engine takes; the two above it stand for something else there.
const LENGTH_MAX: u64 = u64::MAX - 2;

/// A field, as far as framing is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    ContentLength(&'a [u8]),
    TransferEncoding(&'a [u8]),
    Host(&'a [u8]),
    Other,
}

/// The line that announces a chunk.
pub(super) struct Chunk {
    pub(super) bytes: u64,
    pub(super) extensions_bytes: usize,
}

/// `line` without its end, which must be CRLF and the only one of its bytes to control anything.
pub(super) fn strip_crlf(line: &[u8]) -> Result<&[u8], FramingFault> {
    let Some(line) = line.strip_suffix(b"\r\n") else {
        return Err(FramingFault::BareLf);
    };
    // A fold without branches, so that the compiler looks at many bytes at once.
    let controls = line.iter().fold(false, |found, &byte| {
        found | ((byte < 0x20) & (byte != b'\t')) | (byte == 0x7f)
    });
    match controls {
        false => Ok(line),
        true if line.contains(&b'\r') => Err(FramingFault::BareCr),
        true => Err(FramingFault::ControlByte),
    }
}

/// The name and the value of a field line; white space around the value is still there.
pub(super) fn field(line: &[u8]) -> Result<(&[u8], &[u8]), FramingFault> {
    let end = line.iter().position(|&byte| !TOKEN[usize::from(byte)]);
    match end.map(|end| (end, line[end])) {
        Some((1.., b':')) => {}
        Some((0, b' ' | b'\t')) => return Err(FramingFault::FoldedLine),
        Some((1.., b' ' | b'\t')) if is_space_before_colon(line) => {
            return Err(FramingFault::SpaceBeforeColon);
        }
        _ => return Err(FramingFault::FieldName),
    }
    let (name, value) = line.split_at(end.unwrap_or_default());
    Ok((name, &value[1..]))
}

/// Whether what stands before the first colon ends in white space.
fn is_space_before_colon(line: &[u8]) -> bool {
    let colon = memchr::memchr(b':', line).unwrap_or_default();
    matches!(line[..colon].last(), Some(b' ' | b'\t'))
}

/// `value` without the white space around it.
fn trim(value: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !is_space(byte));
    let end = value.iter().rposition(|byte| !is_space(byte));
    match (start, end) {
        (Some(start), Some(end)) => &value[start..=end],
        _ => &[],
    }
}

/// What a field means to framing.
pub(super) fn framing_of<'a>((name, value): (&[u8], &'a [u8])) -> Field<'a> {
    match name.len() {
        4 if name.eq_ignore_ascii_case(b"host") => Field::Host(trim(value)),
        14 if name.eq_ignore_ascii_case(b"content-length") => Field::ContentLength(trim(value)),
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
            Field::TransferEncoding(trim(value))
        }
        _ => Field::Other,
    }
}

/// The length that `value` states.
pub(super) fn content_length(value: &[u8]) -> Result<u64, FramingFault> {
    if value.contains(&b',') {
        return Err(FramingFault::LengthRepeated);
    }
    number(value, 10)
        .filter(|&length| length <= LENGTH_MAX)
        .ok_or(FramingFault::LengthInvalid)
}

impl Chunk {
    /// What `line` states; what follows a semicolon is extensions and ignored.
    pub(super) fn parse(line: &[u8]) -> Result<Self, FramingFault> {
        let end = memchr::memchr(b';', line).unwrap_or(line.len());
        Ok(Self {
            bytes: number(&line[..end], 16).ok_or(FramingFault::ChunkSize)?,
            extensions_bytes: line.len().saturating_sub(end + 1),
        })
    }
}

/// Whether `bytes` are a token of RFC 9110, as methods and names of fields are.
pub(super) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| TOKEN[usize::from(byte)])
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(
            byte as u8,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_'
                | b'`' | b'|' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z'
        );
        byte += 1;
    }
    table
};

/// Digits and nothing else; `None` too when the number does not fit.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut number = 0u64;
    for &digit in digits {
        let digit = char::from(digit).to_digit(radix)?;
        number = number
            .checked_mul(u64::from(radix))?
            .checked_add(u64::from(digit))?;
    }
    Some(number)
}
