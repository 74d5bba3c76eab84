//! Named bytes one after another: how the file keeps what has several fields.

/// The bytes of `fields`: of each the length of its name in two bytes, the name, the length of its
/// value in four, the value.
pub(super) fn encode<'a>(fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        let name_len = u16::try_from(name.len()).expect("names are short");
        let value_len = u32::try_from(value.len()).expect("values are under 4 GiB");
        bytes.extend_from_slice(&name_len.to_be_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&value_len.to_be_bytes());
        bytes.extend_from_slice(value);
    }
    bytes
}

/// The fields in `bytes`; `None` when they are none.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<(&str, &[u8])>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let (len, rest) = bytes.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(u16::from_be_bytes(*len).into())?;
        let (len, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        fields.push((std::str::from_utf8(name).ok()?, value));
        bytes = rest;
    }
    Some(fields)
}

/// The field called `name`.
pub(super) fn field<'a>(fields: &[(&str, &'a [u8])], name: &str) -> Option<&'a [u8]> {
    let mut fields = fields.iter();
    fields.find_map(|(other, value)| (*other == name).then_some(*value))
}

/// The number in the field called `name`.
pub(super) fn number(fields: &[(&str, &[u8])], name: &str) -> Option<u64> {
    text(fields, name)?.parse().ok()
}

/// The text in the field called `name`.
pub(super) fn text<'a>(fields: &[(&str, &'a [u8])], name: &str) -> Option<&'a str> {
    std::str::from_utf8(field(fields, name)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_read_back_and_a_torn_one_is_noticed() {
        let bytes = encode([("a", &b"1"[..]), ("long", &[0; 300])]);

        let fields = decode(&bytes).unwrap();

        assert_eq!(number(&fields, "a"), Some(1));
        assert_eq!(field(&fields, "long"), Some(&[0; 300][..]));
        for len in 1..bytes.len() {
            assert!(len == 8 || decode(&bytes[..len]).is_none(), "{len}");
        }
    }
}
