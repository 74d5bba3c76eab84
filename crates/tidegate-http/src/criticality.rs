//! How much a request matters, as its `Tidegate-Class` header says.

use tidegate_core::facts::Class;

/// The class that `value` names: one of ours, or one of the four levels of criticality that RPC
/// systems pass along.
pub fn parse(value: &[u8]) -> Option<Class> {
    let text = std::str::from_utf8(value).ok()?.trim();
    Class::from_name(text).or(match text {
        "CRITICAL_PLUS" => Some(Class::Critical),
        "CRITICAL" => Some(Class::SignedIn),
        "SHEDDABLE_PLUS" => Some(Class::Anonymous),
        "SHEDDABLE" => Some(Class::Background),
        _ => None,
    })
}

/// Whether a `Sec-Purpose` or `Purpose` header says that the page is fetched ahead of need.
pub fn is_prefetch(value: &[u8]) -> bool {
    // A structured list such as `prefetch;prerender`; only its first item tells.
    let first = value
        .split(|&byte| byte == b';' || byte == b',')
        .next()
        .unwrap_or_default();
    first.trim_ascii().eq_ignore_ascii_case(b"prefetch")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_vocabularies_are_read() {
        for class in Class::ALL {
            assert_eq!(parse(class.name().as_bytes()), Some(class));
        }
        assert_eq!(parse(b"CRITICAL_PLUS"), Some(Class::Critical));
        assert_eq!(parse(b"CRITICAL"), Some(Class::SignedIn));
        assert_eq!(parse(b"SHEDDABLE_PLUS"), Some(Class::Anonymous));
        assert_eq!(parse(b"SHEDDABLE"), Some(Class::Background));
        assert_eq!(parse(b"urgent"), None);
        assert_eq!(parse(b"\xff"), None);
    }

    #[test]
    fn prefetch_is_known_with_and_without_parameters() {
        assert!(is_prefetch(b"prefetch"));
        assert!(is_prefetch(b"prefetch;prerender"));
        assert!(!is_prefetch(b"preview"));
        assert!(!is_prefetch(b""));
    }
}
