//! The one spelling of a path by which rules about paths are applied.
//!
//! Most applications decode escapes, merge slashes and resolve dots before they route. Rules that
//! looked at the path as sent would be led past by another spelling of it: into a class that it has
//! not, or out of its bulkhead. What is forwarded stays as it was sent.

use std::borrow::Cow;

/// `path` (no query) as an application that takes it apart would see it: escapes of printable ASCII
/// decoded, `;` parameters left out, slashes merged, `.` and `..` resolved. Other bytes are escaped,
/// in capitals. Escapes of `%`, `?`, `#` and `;` stay, so that the result has one meaning.
pub fn canonical(path: &str) -> Cow<'_, str> {
    if is_canonical(path) {
        return Cow::Borrowed(path);
    }
    let decoded = decoded(path);
    let mut segments: Vec<&str> = Vec::new();
    let mut is_open = false;
    for segment in decoded.split('/') {
        is_open = true;
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => {
                segments.push(segment);
                is_open = false;
            }
        }
    }
    let mut whole = String::with_capacity(decoded.len());
    for segment in &segments {
        whole.push('/');
        whole.push_str(segment);
    }
    if is_open {
        whole.push('/');
    }
    Cow::Owned(whole)
}

/// Whether a look is enough; what it cannot tell goes the long way.
fn is_canonical(path: &str) -> bool {
    let mut before = 0;
    path.bytes().all(|byte| {
        let plain = match byte {
            b'/' | b'.' => before != b'/',
            b'%' | b';' => false,
            _ => byte.is_ascii_graphic(),
        };
        before = byte;
        plain
    })
}

fn decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut text = String::with_capacity(bytes.len());
    let mut in_parameters = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = (byte == b'%').then(|| escape(&bytes[at + 1..])).flatten();
        at += if escaped.is_some() { 3 } else { 1 };
        in_parameters = match byte {
            b'/' => false,
            b';' => true,
            _ => in_parameters,
        };
        if in_parameters {
            continue;
        }
        match escaped.unwrap_or(byte) {
            b'%' if escaped.is_none() => text.push('%'),
            kept @ (b'%' | b'?' | b'#' | b';') => push_escape(&mut text, kept),
            plain if plain.is_ascii_graphic() => text.push(char::from(plain)),
            other => push_escape(&mut text, other),
        }
    }
    text
}

/// The byte whose two hexadecimal digits `rest` begins with.
fn escape(rest: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match rest {
        [high, low, ..] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
        _ => None,
    }
}

fn push_escape(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.push('%');
    for digit in [byte >> 4, byte & 15] {
        text.push(char::from(DIGITS[usize::from(digit)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_path_is_left_alone() {
        for path in [
            "/",
            "/cart",
            "/p/17/reviews.html",
            "/a/",
            "/~u/x=1,2&y",
            "*",
            "",
        ] {
            assert!(matches!(canonical(path), Cow::Borrowed(same) if same == path));
        }
    }

    #[test]
    fn every_spelling_of_a_path_is_the_same() {
        for (path, same) in [
            ("//checkout", "/checkout"),
            ("/%63heckout", "/checkout"),
            ("/checkout/../browse", "/browse"),
            ("/checkout/%2e%2E/browse", "/browse"),
            ("/checkout/..;x=1/browse", "/browse"),
            ("/checkout%2F..%2fbrowse", "/browse"),
            ("/recommend;jsessionid=1/x", "/recommend/x"),
            ("/./a/.//b/.", "/a/b/"),
            ("/a/b/..", "/a/"),
            ("/..", "/"),
            ("/../../a", "/a"),
            ("/.well-known/x", "/.well-known/x"),
            ("/...", "/..."),
            ("/a/;x", "/a/"),
        ] {
            assert_eq!(canonical(path), same, "{path}");
        }
    }

    #[test]
    fn what_would_be_read_twice_stays_escaped() {
        for (path, same) in [
            ("/%2563art", "/%2563art"),
            ("/a%3fb%23c%3Bd", "/a%3Fb%23c%3Bd"),
            ("/a%20b%00", "/a%20b%00"),
            ("/é", "/%C3%A9"),
            ("/%c3%a9", "/%C3%A9"),
            ("/%", "/%"),
            ("/%zz%4", "/%zz%4"),
        ] {
            assert_eq!(canonical(path), same, "{path}");
            assert_eq!(canonical(same), same, "once is enough: {same}");
        }
    }
}
