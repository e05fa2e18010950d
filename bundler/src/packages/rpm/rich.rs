//! Rich dependencies: `(a if (b or c) else d)`.
//!
//! Parsed into an expression, then brought to clauses: a package that requires the expression
//! requires every clause, and a clause holds if any of `some` is installed or any of `unless_any`
//! has nothing installed. The solver understands clauses and nothing richer.

use super::super::version::Relation;

/// One side of an operator: `name`, or `name >= version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain<'a> {
    pub name: &'a str,
    pub version: Option<(Relation, &'a str)>,
}

/// A set of packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Set<'a> {
    Plain(Plain<'a>),
    /// Packages that meet both.
    With(Box<Set<'a>>, Box<Set<'a>>),
    /// Packages that meet the first and not the second.
    Without(Box<Set<'a>>, Box<Set<'a>>),
    /// Packages that meet either.
    Either(Box<Set<'a>>, Box<Set<'a>>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Expression<'a> {
    Set(Set<'a>),
    And(Box<Expression<'a>>, Box<Expression<'a>>),
    Or(Box<Expression<'a>>, Box<Expression<'a>>),
    Not(Box<Expression<'a>>),
}

impl Expression<'_> {
    /// How many operands it has, copies counted.
    fn size(&self) -> usize {
        match self {
            Expression::Set(_) => 1,
            Expression::Not(inner) => inner.size(),
            Expression::And(left, right) | Expression::Or(left, right) => left.size() + right.size(),
        }
    }
}

/// Holds if a package of one of `some` is installed, or if one of `unless_any` has none installed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clause<'a> {
    pub some: Vec<Set<'a>>,
    pub unless_any: Vec<Set<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rich dependency `{text}`: {reason}")]
pub struct BadRich {
    pub text: String,
    pub reason: &'static str,
}

/// More clauses than any real dependency has; an expression can be written to need 2^n.
const MAX_CLAUSES: usize = 256;

/// More than any real dependency has: each takes stack, and conditions are copied.
const MAX_OPERANDS: usize = 500;

pub fn is_rich(text: &str) -> bool {
    text.starts_with('(')
}

/// The clauses of "requires `text`".
pub fn required(text: &str) -> Result<Vec<Clause<'_>>, BadRich> {
    clauses(text, false)
}

/// The clauses of "conflicts with `text`".
pub fn forbidden(text: &str) -> Result<Vec<Clause<'_>>, BadRich> {
    clauses(text, true)
}

/// The files that it speaks of, each as often as it does.
pub fn files(text: &str) -> Vec<&str> {
    fn collect<'a>(set: &Set<'a>, files: &mut Vec<&'a str>) {
        match set {
            Set::Plain(plain) if plain.name.starts_with('/') => files.push(plain.name),
            Set::Plain(_) => {}
            Set::With(left, right) | Set::Without(left, right) | Set::Either(left, right) => {
                collect(left, files);
                collect(right, files);
            }
        }
    }
    let mut files = Vec::new();
    for clause in required(text).unwrap_or_default() {
        clause.some.iter().chain(&clause.unless_any).for_each(|set| collect(set, &mut files));
    }
    files
}

fn clauses(text: &str, negate: bool) -> Result<Vec<Clause<'_>>, BadRich> {
    let bad = |reason| BadRich { text: text.to_string(), reason };
    let mut parser = Parser { rest: text, depth: 0, operands: 0 };
    let expression = parser.group().map_err(bad)?;
    if !parser.rest.trim().is_empty() {
        return Err(bad("text after the closing parenthesis"));
    }
    normal_form(&expression, negate).ok_or_else(|| bad("too many combinations"))
}

/// Conjunctive normal form. `None` if it grows beyond [`MAX_CLAUSES`].
fn normal_form<'a>(expression: &Expression<'a>, negate: bool) -> Option<Vec<Clause<'a>>> {
    match (expression, negate) {
        (Expression::Set(set), false) => Some(vec![Clause { some: vec![set.clone()], ..Clause::default() }]),
        (Expression::Set(set), true) => {
            Some(vec![Clause { unless_any: vec![set.clone()], ..Clause::default() }])
        }
        (Expression::Not(inner), _) => normal_form(inner, !negate),
        (Expression::And(left, right), false) | (Expression::Or(left, right), true) => {
            let mut both = normal_form(left, negate)?;
            both.extend(normal_form(right, negate)?);
            (both.len() <= MAX_CLAUSES).then_some(both)
        }
        (Expression::Or(left, right), false) | (Expression::And(left, right), true) => {
            let (left, right) = (normal_form(left, negate)?, normal_form(right, negate)?);
            if left.len() * right.len() > MAX_CLAUSES {
                return None;
            }
            let pairs = left.iter().flat_map(|l| right.iter().map(move |r| (l, r)));
            Some(
                pairs
                    .map(|(l, r)| Clause {
                        some: l.some.iter().chain(&r.some).cloned().collect(),
                        unless_any: l.unless_any.iter().chain(&r.unless_any).cloned().collect(),
                    })
                    .collect(),
            )
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
    operands: usize,
}

impl<'a> Parser<'a> {
    /// `( operand [operator operand]… )`
    fn group(&mut self) -> Result<Expression<'a>, &'static str> {
        self.depth += 1;
        if self.depth > 32 {
            return Err("nested too deeply");
        }
        self.rest = self.rest.trim_start().strip_prefix('(').ok_or("an opening parenthesis is missing")?;
        let mut left = self.operand()?;
        let mut chain: Option<&str> = None;
        loop {
            let rest = self.rest.trim_start();
            if let Some(rest) = rest.strip_prefix(')') {
                self.rest = rest;
                self.depth -= 1;
                return Ok(left);
            }
            let operator = self.word()?;
            // Only `and`, `or`, `with` may repeat, and only themselves.
            if chain.is_some_and(|first| first != operator || !matches!(first, "and" | "or" | "with")) {
                return Err("different operators need their own parentheses");
            }
            chain = Some(operator);
            let right = self.operand()?;
            left = self.combine(left, operator, right)?;
        }
    }

    fn combine(
        &mut self,
        left: Expression<'a>,
        operator: &str,
        right: Expression<'a>,
    ) -> Result<Expression<'a>, &'static str> {
        use Expression::{And, Not, Or};
        let not = |expression| Box::new(Not(Box::new(expression)));
        Ok(match operator {
            "and" => And(Box::new(left), Box::new(right)),
            "or" => Or(Box::new(left), Box::new(right)),
            "with" => Expression::Set(Set::With(set(left)?, set(right)?)),
            "without" => Expression::Set(Set::Without(set(left)?, set(right)?)),
            "if" | "unless" if right.size() > MAX_OPERANDS => return Err("too many operands"),
            "if" => {
                let implication = Or(Box::new(left), not(right.clone()));
                match self.otherwise()? {
                    None => implication,
                    Some(other) => And(Box::new(implication), Box::new(Or(Box::new(other), Box::new(right)))),
                }
            }
            "unless" => match self.otherwise()? {
                None => And(Box::new(left), not(right)),
                Some(other) => And(
                    Box::new(Or(Box::new(left), Box::new(right.clone()))),
                    Box::new(Or(Box::new(other), not(right))),
                ),
            },
            _ => return Err("an operator is one of and, or, if, else, unless, with, without"),
        })
    }

    /// `else operand`, if it is here.
    fn otherwise(&mut self) -> Result<Option<Expression<'a>>, &'static str> {
        let rest = self.rest.trim_start();
        match rest.strip_prefix("else").filter(|rest| rest.starts_with([' ', '('])) {
            Some(rest) => {
                self.rest = rest;
                self.operand().map(Some)
            }
            None => Ok(None),
        }
    }

    fn operand(&mut self) -> Result<Expression<'a>, &'static str> {
        if self.rest.trim_start().starts_with('(') {
            return self.group();
        }
        self.operands += 1;
        if self.operands > MAX_OPERANDS {
            return Err("too many operands");
        }
        let name = self.word()?;
        let before = self.rest;
        let version = match self.word().ok().and_then(Relation::parse) {
            Some(relation) => Some((relation, self.word()?)),
            None => {
                self.rest = before;
                None
            }
        };
        Ok(Expression::Set(Set::Plain(Plain { name, version })))
    }

    /// Up to white space or a parenthesis that the word did not open itself: `perl(Foo)` is a word.
    fn word(&mut self) -> Result<&'a str, &'static str> {
        let text = self.rest.trim_start();
        let mut open = 0usize;
        let end = text.char_indices().find(|(_, c)| match c {
            '(' => {
                open += 1;
                false
            }
            ')' if open > 0 => {
                open -= 1;
                false
            }
            ')' => true,
            c => c.is_whitespace() && open == 0,
        });
        let end = end.map_or(text.len(), |(at, _)| at);
        if end == 0 {
            return Err("a name or a closing parenthesis is missing");
        }
        self.rest = &text[end..];
        Ok(&text[..end])
    }
}

fn set(expression: Expression<'_>) -> Result<Box<Set<'_>>, &'static str> {
    match expression {
        Expression::Set(set) => Ok(Box::new(set)),
        Expression::Or(left, right) => Ok(Box::new(Set::Either(set(*left)?, set(*right)?))),
        _ => Err("`with` and `without` join names, not conditions"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(name: &str) -> Set<'_> {
        Set::Plain(Plain { name, version: None })
    }

    fn show(clauses: Result<Vec<Clause<'_>>, BadRich>) -> String {
        let clause = |clause: &Clause<'_>| {
            let some = clause.some.iter().map(show_set);
            let none = clause.unless_any.iter().map(|set| format!("!{}", show_set(set)));
            some.chain(none).collect::<Vec<_>>().join("|")
        };
        clauses.unwrap().iter().map(clause).collect::<Vec<_>>().join(" ")
    }

    fn show_set(set: &Set<'_>) -> String {
        match set {
            Set::Plain(plain) => plain.name.to_string(),
            Set::With(left, right) => format!("{}&{}", show_set(left), show_set(right)),
            Set::Without(left, right) => format!("{}-{}", show_set(left), show_set(right)),
            Set::Either(left, right) => format!("({}/{})", show_set(left), show_set(right)),
        }
    }

    #[test]
    fn operators_become_clauses() {
        for (text, expected) in [
            ("(a and b)", "a b"),
            ("(a or b or c)", "a|b|c"),
            ("(a if b)", "a|!b"),
            ("(a if b else c)", "a|!b c|b"),
            ("(a if (b and c))", "a|!b|!c"),
            ("(a if (b or c))", "a|!b a|!c"),
            ("(a unless b)", "a !b"),
            ("(a unless b else c)", "a|b c|!b"),
            ("(a with b)", "a&b"),
            ("(a without b)", "a-b"),
            ("((a or b) without c)", "(a/b)-c"),
            ("(perl(Foo::Bar) >= 1.2 or python3dist(x))", "perl(Foo::Bar)|python3dist(x)"),
        ] {
            assert_eq!(show(required(text)), expected, "{text}");
        }
        assert_eq!(show(forbidden("(a and b)")), "!a|!b");
        assert_eq!(show(forbidden("(a unless b)")), "b|!a");
    }

    #[test]
    fn files_are_found_wherever_they_stand() {
        assert_eq!(files("(/a if (b with /c))"), ["/a", "/c"]);
        assert_eq!(files("((x or /d) without /e)"), ["/d", "/e"]);
        assert!(files("(a and").is_empty());
    }

    #[test]
    fn versions_are_kept() {
        let clauses = required("(a >= 1:2-3 with a < 4)").unwrap();
        let Set::With(left, _) = &clauses[0].some[0] else { panic!() };
        let version = Some((Relation::GreaterOrEqual, "1:2-3"));
        assert_eq!(**left, Set::Plain(Plain { name: "a", version }));
        assert_eq!(required("(a)").unwrap()[0].some, [plain("a")]);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["(a and", "(a and b or c)", "(a nor b)", "(a) b", "()", "((a and b) with c)"] {
            assert!(required(text).is_err(), "{text}");
        }
        assert!(required(&"(".repeat(100)).is_err());
        let wide = (0..12).map(|i| format!("(a{i} and b{i})")).collect::<Vec<_>>().join(" or ");
        assert_eq!(required(&format!("({wide})")).unwrap_err().reason, "too many combinations");
        // Each `if … else` copies its condition.
        let doubled = (0..30).fold("a".to_string(), |inner, _| format!("(x if {inner} else y)"));
        assert_eq!(required(&doubled).unwrap_err().reason, "too many operands");
        for operator in ["or", "and", "with"] {
            let long = format!("(a{})", format!(" {operator} a").repeat(100_000));
            assert_eq!(required(&long).unwrap_err().reason, "too many operands");
        }
    }
}
