//! Texts as numbers: every distinct one is kept once, all in one string.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher as _;

/// A word of [`Words`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(pub(super) u32);

impl Word {
    pub const EMPTY: Word = Word(0);
}

/// Every distinct text once.
pub struct Words {
    text: String,
    ends: Vec<u32>,
    known: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Default for Words {
    fn default() -> Self {
        let (known, hasher) = (HashTable::new(), DefaultHashBuilder::default());
        let mut words = Self { text: String::new(), ends: Vec::new(), known, hasher };
        words.add("");
        words
    }
}

impl Words {
    /// What [`Words::parts`] gave. `None` if it cannot have been: the first word is the empty one.
    pub(super) fn from_parts(text: String, ends: Vec<u32>) -> Option<Self> {
        let is_end = |end: &u32| text.is_char_boundary(*end as usize);
        if ends.first() != Some(&0) || !ends.is_sorted() || !ends.iter().all(is_end) {
            return None;
        }
        let mut words = Self { known: HashTable::with_capacity(ends.len()), text, ends, ..Self::default() };
        let Self { text, ends, known, hasher } = &mut words;
        for number in 0..ends.len() as u32 {
            let hash = hasher.hash_one(slice(text, ends, number));
            known.insert_unique(hash, number, |other| hasher.hash_one(slice(text, ends, *other)));
        }
        Some(words)
    }

    /// All texts behind one another, and where each ends.
    pub(super) fn parts(&self) -> (&str, &[u32]) {
        (&self.text, &self.ends)
    }

    pub fn add(&mut self, new: &str) -> Word {
        let Self { text, ends, known, hasher } = self;
        let hash = hasher.hash_one(new);
        if let Some(number) = known.find(hash, |number| slice(text, ends, *number) == new) {
            return Word(*number);
        }
        let number = ends.len() as u32;
        text.push_str(new);
        ends.push(text.len() as u32);
        known.insert_unique(hash, number, |other| hasher.hash_one(slice(text, ends, *other)));
        Word(number)
    }

    pub fn find(&self, wanted: &str) -> Option<Word> {
        let hash = self.hasher.hash_one(wanted);
        self.known.find(hash, |number| slice(&self.text, &self.ends, *number) == wanted).map(|n| Word(*n))
    }

    pub fn get(&self, word: Word) -> &str {
        slice(&self.text, &self.ends, word.0)
    }

    pub fn count(&self) -> usize {
        self.ends.len()
    }
}

fn slice<'a>(text: &'a str, ends: &[u32], number: u32) -> &'a str {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] as usize };
    &text[start..ends[number] as usize]
}

/// For each word a list, all lists in one vector.
pub(super) struct ByWord<T> {
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> ByWord<T> {
    /// Lists keep the order of `pairs`.
    pub(super) fn collect(words: usize, pairs: impl Iterator<Item = (Word, T)>) -> Self {
        let pairs: Vec<(Word, T)> = pairs.collect();
        let mut starts = vec![0; words + 1];
        for (word, _) in &pairs {
            starts[word.0 as usize + 1] += 1;
        }
        for number in 0..words {
            starts[number + 1] += starts[number];
        }
        let mut next = starts.clone();
        let Some((_, any)) = pairs.first() else { return Self { starts, items: Vec::new() } };
        let mut items = vec![*any; pairs.len()];
        for (word, item) in &pairs {
            let place = &mut next[word.0 as usize];
            items[*place as usize] = *item;
            *place += 1;
        }
        Self { starts, items }
    }

    pub(super) fn get(&self, word: Word) -> &[T] {
        let number = word.0 as usize;
        match self.starts.get(number..number + 2) {
            Some(&[start, end]) => &self.items[start as usize..end as usize],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_once_and_come_back() {
        let mut words = Words::default();
        let (a, b) = (words.add("a"), words.add("bé"));
        assert_eq!((words.add("a"), words.add(""), words.get(b)), (a, Word::EMPTY, "bé"));
        let (text, ends) = words.parts();
        let mut again = Words::from_parts(text.to_string(), ends.to_vec()).unwrap();
        assert_eq!((again.find("bé"), again.find("c"), again.add("c")), (Some(b), None, Word(3)));
        assert!(Words::from_parts("é".to_string(), vec![0, 1]).is_none());
        assert!(Words::from_parts("ab".to_string(), vec![0, 2, 1]).is_none());
        assert!(Words::from_parts("ab".to_string(), vec![2]).is_none());
    }

    #[test]
    fn lists_keep_their_order() {
        let pairs = [(Word(2), 'x'), (Word(0), 'y'), (Word(2), 'z')];
        let lists = ByWord::collect(3, pairs.into_iter());
        assert_eq!(lists.get(Word(2)), ['x', 'z']);
        assert_eq!(lists.get(Word(0)), ['y']);
        assert!(lists.get(Word(1)).is_empty() && lists.get(Word(9)).is_empty());
    }
}
