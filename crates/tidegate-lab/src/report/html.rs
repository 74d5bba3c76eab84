//! Text that is safe inside a page.

/// `text` with everything escaped that means something in HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_escaped_means_anything_to_a_browser() {
        assert_eq!(
            escaped("<a href='x' id=\"y\">&amp;"),
            "&lt;a href=&#39;x&#39; id=&quot;y&quot;&gt;&amp;amp;"
        );
    }
}
