//! Plain tables: aligned columns, no borders, so that they paste well into a ticket.

use crate::printable;
use std::fmt;

#[derive(Debug, Clone, Default)]
pub struct Table {
    header: Vec<String>,
    right: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Aligns these columns (counted from 0) to the right: numbers and sizes.
    pub fn right(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }

    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        // A cell is one line, whoever its words are from.
        let cells = cells.into_iter().map(|cell| printable(&cell.into()).into_owned());
        self.rows.push(cells.collect());
        self
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = std::iter::once(&self.header).chain(&self.rows);
        let columns = lines.clone().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|i| {
                let cells = lines.clone().filter_map(|line| line.get(i));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        for line in lines.filter(|line| !line.is_empty()) {
            let mut text = String::new();
            for (i, cell) in line.iter().enumerate() {
                let width = widths[i];
                if i > 0 {
                    text.push_str("  ");
                }
                if self.right.contains(&i) {
                    text.push_str(&format!("{cell:>width$}"));
                } else {
                    text.push_str(&format!("{cell:<width$}"));
                }
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_columns() {
        let mut table = Table::new(["NODE", "BYTES"]).right(&[1]);
        table.row(["master-1", "9"]).row(["w", "1234567"]);
        assert_eq!(table.to_string(), "NODE        BYTES\nmaster-1        9\nw         1234567\n");
    }

    #[test]
    fn a_cell_is_one_line() {
        let mut table = Table::new(["NODE"]);
        table.row(["a\nb\u{1b}[2J"]);
        assert_eq!(table.to_string(), "NODE\na\\nb\\u{1b}[2J\n");
    }
}
