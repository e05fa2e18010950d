//! Names that strangers gave, as a terminal may show them.

use std::borrow::Cow;

/// `text` with everything escaped that a terminal would obey instead of showing it: control
/// characters, and those that turn the direction of what follows.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_obeyed(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        for plain in ["docker.io/library/nginx:1.25", "ünïcode “x” 日本", ""] {
            assert!(matches!(printable(plain), Cow::Borrowed(same) if same == plain));
        }
        assert_eq!(printable("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(printable("a\nb\tc\u{9b}d\u{202e}e"), "a\\nb\\tc\\u{9b}d\\u{202e}e");
    }
}
