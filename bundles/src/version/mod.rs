//! Version order, as each format's own tools define it. Nothing else knows how versions compare.

pub mod deb;
pub mod rpm;

use std::cmp::Ordering;
use std::fmt;

/// How a requirement limits a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Relation {
    /// Whether a version that compares as `order` to the limit satisfies the relation.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Relation::Less => order.is_lt(),
            Relation::LessOrEqual => order.is_le(),
            Relation::Equal => order.is_eq(),
            Relation::GreaterOrEqual => order.is_ge(),
            Relation::Greater => order.is_gt(),
        }
    }

    /// Reads an operator as people and both formats write it. Debian's old `<` and `>` mean
    /// "or equal"; only [`deb`] metadata reads them so.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "<<" | "<" => Relation::Less,
            "<=" => Relation::LessOrEqual,
            "=" | "==" => Relation::Equal,
            ">=" => Relation::GreaterOrEqual,
            ">>" | ">" => Relation::Greater,
            _ => return None,
        })
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Relation::Less => "<",
            Relation::LessOrEqual => "<=",
            Relation::Equal => "=",
            Relation::GreaterOrEqual => ">=",
            Relation::Greater => ">",
        })
    }
}
