//! A refutation in words: who requires what, which candidates exist, why each is out.

use super::Request;
use super::encoding::Refutation;
use crate::packages::provider::{Need, PackageId, Provider};
use eggo_terminal::Explain;
use std::collections::BTreeSet;

/// The requests cannot all be met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unsolvable {
    pub message: String,
    pub notes: Vec<String>,
    pub hint: Option<String>,
}

impl Explain for Unsolvable {
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

pub(super) fn explain(
    provider: &dyn Provider,
    requests: &[Request],
    baseline: &[Need],
    refutation: &Refutation,
) -> Unsolvable {
    let mut story = Story { provider, refutation, notes: Vec::new(), told: BTreeSet::new() };
    let involved: Vec<&Request> =
        requests.iter().filter(|request| story.is_root_fact(&request.need)).collect();
    for request in &involved {
        story.request(request);
    }
    story.clashes(baseline);
    let names: Vec<String> = involved.iter().map(|request| format!("`{}`", request.need.text)).collect();
    let message = match names.as_slice() {
        [] => "the baseline contradicts itself".to_string(),
        [one] => format!("{one} cannot be installed"),
        _ => format!("{} cannot be installed together", names.join(", ")),
    };
    let hint = Some(story.hint(baseline));
    Unsolvable { message, notes: story.notes, hint }
}

struct Story<'a> {
    provider: &'a dyn Provider,
    refutation: &'a Refutation,
    notes: Vec<String>,
    told: BTreeSet<PackageId>,
}

impl Story<'_> {
    fn is_root_fact(&self, need: &Need) -> bool {
        if need.choices.is_empty() {
            return self.refutation.unmet.contains(&(None, need.text.clone()));
        }
        self.refutation.needs.iter().any(|(from, choices)| from.is_none() && same(choices, &need.choices))
    }

    fn request(&mut self, request: &Request) {
        self.notes.push(format!("`{}` is asked for by {}", request.need.text, request.asked_by));
        if request.need.choices.is_empty() {
            self.unmet(&request.need.text, 1);
        }
        for choice in &request.need.choices {
            self.package(*choice, 1);
        }
    }

    /// The needs of `package` that take part in the contradiction, and theirs.
    fn package(&mut self, package: PackageId, depth: usize) {
        if !self.told.insert(package) {
            return;
        }
        let refutation = self.refutation;
        let label = self.label(package);
        for need in self.provider.needs(package) {
            if need.choices.is_empty() {
                if refutation.unmet.contains(&(Some(package), need.text.clone())) {
                    self.line(depth, format!("{label} requires `{}`", need.text));
                    self.unmet(&need.text, depth + 1);
                }
                continue;
            }
            let takes_part = refutation
                .needs
                .iter()
                .any(|(from, choices)| *from == Some(package) && same(choices, &need.choices));
            if takes_part {
                self.line(depth, format!("{label} requires `{}`", need.text));
                for choice in &need.choices {
                    self.package(*choice, depth + 1);
                }
            }
        }
    }

    fn unmet(&mut self, text: &str, depth: usize) {
        let near = self.provider.rejected(text);
        if near.is_empty() {
            self.line(depth, format!("no repo has `{text}`"));
        }
        for line in near {
            self.line(depth, format!("found: {line}"));
        }
    }

    fn clashes(&mut self, baseline: &[Need]) {
        let refutation = self.refutation;
        for (left, right) in &refutation.clashes {
            let clashes = self.provider.clashes(*left);
            let text =
                clashes.iter().find(|clash| clash.with.contains(right)).map(|clash| clash.text.as_str());
            let (left, right) = (self.label(*left), self.label(*right));
            self.line(
                0,
                match text {
                    Some(text) => format!("{left} excludes {right}: `{text}`"),
                    None => format!("{left} excludes {right}"),
                },
            );
        }
        for (left, right) in &refutation.same_group {
            let line =
                format!("only one of {} and {} can be installed", self.label(*left), self.label(*right));
            self.line(0, line);
        }
        let involved: BTreeSet<PackageId> =
            refutation.clashes.iter().chain(&refutation.same_group).flat_map(|(l, r)| [*l, *r]).collect();
        for need in baseline {
            if let Some(first) = need.choices.first().filter(|first| involved.contains(first)) {
                let line = format!("{} is already on the target", self.label(*first));
                self.line(0, line);
            }
        }
    }

    fn hint(&self, baseline: &[Need]) -> String {
        let refutation = self.refutation;
        // A name that nothing in the repos comes near is perhaps misspelt, if a person wrote it.
        let written = refutation.unmet.iter().filter(|(by, _)| by.is_none()).map(|(_, text)| text.as_str());
        let mut unknown = written.filter(|text| self.provider.rejected(text).is_empty());
        if let Some(near) = unknown.find_map(|text| self.provider.nearest(first_word(text))) {
            return format!("did you mean `{near}`?");
        }
        if !refutation.unmet.is_empty() {
            return "add a repo that carries what is missing, or ask for another version".to_string();
        }
        let clashing = refutation.clashes.iter().chain(&refutation.same_group);
        let touched: BTreeSet<PackageId> = clashing.flat_map(|(left, right)| [*left, *right]).collect();
        if baseline.iter().any(|need| need.choices.first().is_some_and(|first| touched.contains(first))) {
            return "remove that package from the targets and capture the baseline again, or leave out what \
                    excludes it"
                .to_string();
        }
        "leave one of them out, or put them into manifests of their own".to_string()
    }

    fn line(&mut self, depth: usize, text: String) {
        self.notes.push(format!("{}{text}", "  ".repeat(depth)));
    }

    fn label(&self, package: PackageId) -> String {
        let identity = self.provider.identity(package);
        format!("`{} {}` ({})", identity.name, identity.version, identity.repo)
    }
}

/// The name in `kubelet >= 1.30`.
fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or(text)
}

fn same(left: &[PackageId], right: &[PackageId]) -> bool {
    let sorted = |list: &[PackageId]| list.iter().copied().collect::<BTreeSet<_>>();
    sorted(left) == sorted(right)
}
