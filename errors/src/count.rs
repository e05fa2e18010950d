//! Numbers of things, in words.

use std::fmt;

/// `1 item`, `2 items`: a number with the noun for one and for several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count<'a>(pub usize, pub &'a str, pub &'a str);

impl fmt::Display for Count<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, if self.0 == 1 { self.1 } else { self.2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let shown = |number| Count(number, "binary", "binaries").to_string();
        assert_eq!([shown(0), shown(1), shown(2)], ["0 binaries", "1 binary", "2 binaries"]);
    }
}
