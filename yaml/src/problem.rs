//! What is wrong in a file, where, and what was probably meant.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub column: usize,
    pub message: String,
    pub hint: Option<String>,
}

/// Everything that is wrong with one file; never empty when it is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    pub file: String,
    pub list: Vec<Problem>,
}

impl Problem {
    pub fn new(line: usize, column: usize, message: impl Into<String>) -> Self {
        Self { line, column, message: message.into(), hint: None }
    }

    pub fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl std::error::Error for Problems {}

/// `FILE:LINE:COLUMN: message`, a line for each problem, with its hint below.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.list.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            let Problem { line, column, message, hint } = problem;
            write!(f, "{}:{line}:{column}: {message}", self.file)?;
            if let Some(hint) = hint {
                write!(f, " ({hint})")?;
            }
        }
        Ok(())
    }
}

/// The known word that `word` was probably meant to be.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = word.to_lowercase().replace('_', "-");
    let length = folded.chars().count();
    known
        .into_iter()
        // What differs more in length is another word; comparing it would take long if it is huge.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= 1 + candidate.len() / 4)
        .map(|candidate| (strsim::damerau_levenshtein(&folded, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(word.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_typos_and_no_other_words() {
        let known = ["packages", "package-src", "masters", "etcds"];
        assert_eq!(nearest("pakcages", known), Some("packages"));
        assert_eq!(nearest("package_src", known), Some("package-src"));
        assert_eq!(nearest("master", known), Some("masters"));
        assert_eq!(nearest("zebra", known), None);
    }
}
