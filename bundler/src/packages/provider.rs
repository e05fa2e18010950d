//! The one interface between the solver and a world of packages, the same for DEB and RPM.
//!
//! A format lowers its metadata to three things the solver understands: *needs* (at least one
//! of these packages, in this order of preference, when these conditions hold), *clashes*
//! (never beside these packages) and *groups* (at most one package of a group). Names,
//! virtual packages, file requirements, version relations and rich expressions never get
//! past this line; neither do files, URLs and signatures.
//!
//! How formats map onto it:
//! - alternatives `a | b` → one need, choices in apt's order;
//! - `(a and b)` → two needs; `(a or b)` → one; `(a with b)` and `(a without b)` → one need
//!   over the packages that satisfy both sides, or only the first;
//! - `(a if b)` → a need with a condition; `(a if b else c)` → that, and a need of
//!   `c` or `b` with `c`'s packages first; `(a unless b)` → a need of `a` and a conditional
//!   need without choices, which forbids `b`;
//! - conflicts, breaks, obsoletes → clashes (an obsoleting package is also a choice of the
//!   baseline need of what it replaces);
//! - other versions of one package → its group (with multilib: of one name and arch);
//! - Recommends, if asked for → weak needs, and the guess contains what they bring along.

/// A package of a provider. Providers number their packages as they like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackageId(pub u32);

/// Packages of which at most one can be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// An index into [`Provider::conditions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConditionId(pub u32);

/// What a package is called, for people and for the lock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub name: String,
    pub version: String,
    /// As the format spells it: `amd64`, `all`, `x86_64`, `noarch`.
    pub architecture: String,
    /// The name of the repo it comes from; `baseline` for what a target already has.
    pub repo: String,
}

/// "One of these must be installed too."
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Need {
    /// As the metadata writes it: `libc6 (>= 2.36)`.
    pub text: String,
    /// The need counts only if all of these hold.
    pub when: Vec<ConditionId>,
    /// Best first. Empty: the need cannot be met.
    pub choices: Vec<PackageId>,
    /// Wanted, not required (Recommends): followed where the guess took it up, never a reason
    /// to fail.
    pub weak: bool,
}

/// "None of these may be installed too."
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clash {
    /// As the metadata writes it: `Breaks: runc (<< 1.1)`.
    pub text: String,
    /// Never the package itself.
    pub with: Vec<PackageId>,
}

/// A world of packages, for one architecture.
pub trait Provider {
    fn identity(&self, package: PackageId) -> Identity;

    fn group(&self, package: PackageId) -> GroupId;

    /// All packages of a group that may be chosen.
    fn members(&self, group: GroupId) -> Vec<PackageId>;

    /// What `package` needs, in the order of its metadata. Asked at most a few times, and
    /// only for packages that come into question: parse late.
    fn needs(&self, package: PackageId) -> Vec<Need>;

    fn clashes(&self, package: PackageId) -> Vec<Clash>;

    /// Every condition that a need can name: it holds if any of its packages is installed.
    fn conditions(&self) -> &[Vec<PackageId>] {
        &[]
    }

    /// Whether a target already has exactly this package.
    fn is_installed(&self, package: PackageId) -> bool {
        let _ = package;
        false
    }

    /// One need for each package that a target already has: that package first, then what
    /// may replace it (newer versions, packages that obsolete it).
    fn baseline(&self) -> Vec<Need> {
        Vec::new()
    }

    /// What the format's own tool would install for `roots`, in its own order of choosing.
    /// The solver tries these first wherever there is a choice; it need not be a solution.
    fn guess(&self, roots: &[Need]) -> Vec<PackageId> {
        let _ = roots;
        Vec::new()
    }

    /// The name of a package that `name` was probably meant to be.
    fn nearest(&self, name: &str) -> Option<&str>;

    /// For a need that has no choices: which packages come near, and why each is out.
    fn rejected(&self, text: &str) -> Vec<String>;
}
