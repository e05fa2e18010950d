//! Foreign text, as a terminal may show it.
//!
//! What comes from a node, a bundle or a file may hold what a terminal obeys instead of showing it: it clears the screen,
//! overwrites lines, turns their direction, or fakes the next question.

use std::borrow::Cow;

/// `text` with everything escaped that a terminal would obey, or that nobody can see: control characters, those that turn
/// the direction of what follows, and those without any width. The result is one line.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_obeyed)
}

/// The same for several lines: their ends stay, and tabs.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let text = match text.contains("\r\n") {
        true => Cow::Owned(text.replace("\r\n", "\n")),
        false => Cow::Borrowed(text),
    };
    let obeyed = |c| is_obeyed(c) && c != '\n' && c != '\t';
    match text {
        Cow::Borrowed(text) => escaped(text, obeyed),
        Cow::Owned(text) => Cow::Owned(escaped(&text, obeyed).into_owned()),
    }
}

/// The same for a message: whatever follows its first line is indented, so that no line of it goes for one of ours.
pub fn printable_message(text: &str) -> Cow<'_, str> {
    let text = printable_lines(text);
    match text.contains('\n') {
        true => Cow::Owned(text.trim_end_matches('\n').replace('\n', "\n  ")),
        false => text,
    }
}

fn escaped(text: &str, is_obeyed: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_obeyed) {
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

/// Whether a terminal obeys a character, or shows nothing for it.
pub fn is_obeyed(c: char) -> bool {
    let turns_direction = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    let has_no_width = matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    );
    c.is_control() || turns_direction || has_no_width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        for plain in ["docker.io/library/nginx:1.25", "ünïcode “x” 日本 ✓", ""] {
            assert!(matches!(printable(plain), Cow::Borrowed(same) if same == plain));
            assert!(matches!(printable_message(plain), Cow::Borrowed(same) if same == plain));
        }
        assert_eq!(printable("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(printable("a\nb\tc\u{9b}d\u{202e}e"), "a\\nb\\tc\\u{9b}d\\u{202e}e");
        assert_eq!(printable("ro\u{200b}ot\u{feff}"), "ro\\u{200b}ot\\u{feff}");
        assert_eq!(printable("\u{e0041}"), "\\u{e0041}");
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(printable_lines("a\r\n\tb\rc\n"), "a\n\tb\\rc\n");
        assert_eq!(printable_lines("\u{1b}]0;x\u{7}\n"), "\\u{1b}]0;x\\u{7}\n");
    }

    #[test]
    fn no_line_of_a_message_goes_for_one_of_ours() {
        assert_eq!(printable_message("w1: x\ninstall this? [y/N] \n\n"), "w1: x\n  install this? [y/N] ");
    }
}
