//! What is odd in a file, but no reason to refuse it.

use eggo_yaml::{Node, Problem, Problems};
use std::cell::RefCell;

#[derive(Default)]
pub(super) struct Warnings(RefCell<Vec<Problem>>);

impl Warnings {
    pub(super) fn at(&self, node: &Node, message: impl Into<String>) {
        self.0.borrow_mut().push(Problem::new(node.line, node.column, message));
    }

    pub(super) fn line(&self, line: usize, message: impl Into<String>) {
        self.0.borrow_mut().push(Problem::new(line, 1, message));
    }

    pub(super) fn at_hinted(&self, node: &Node, message: impl Into<String>, hint: impl Into<String>) {
        self.0.borrow_mut().push(Problem::new(node.line, node.column, message).hinted(hint));
    }

    /// In the order of the file.
    pub(super) fn finish(self, file: &str) -> Problems {
        let mut list = self.0.into_inner();
        list.sort_by_key(|problem| (problem.line, problem.column));
        Problems { file: file.to_string(), list }
    }
}
