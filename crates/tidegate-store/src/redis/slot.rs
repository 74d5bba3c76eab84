//! Which slot of a Cluster has a key.

/// Slots of a Cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of `key`: by the part in its first braces if that is not empty, else by all of it.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let hashed = tag_of(key).unwrap_or(key);
    let crc = hashed.iter().fold(0u16, |crc, &byte| {
        let index = usize::from((crc >> 8) as u8 ^ byte);
        (crc << 8) ^ TABLE[index]
    });
    crc % SLOTS
}

fn tag_of(key: &[u8]) -> Option<&[u8]> {
    let from = key.iter().position(|&byte| byte == b'{')? + 1;
    let length = key[from..].iter().position(|&byte| byte == b'}')?;
    (length > 0).then(|| &key[from..from + length])
}

/// CRC-16 as Redis has it (XMODEM: polynomial 0x1021, beginning at 0).
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31C3 % SLOTS);
        assert_eq!(slot_of(b"foo{hash_tag}"), slot_of(b"hash_tag"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_ne!(slot_of(b"foo{}{bar}"), slot_of(b"bar"));
    }
}
