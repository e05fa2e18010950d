//! What a person sees of either program: errors with hints and exit codes, tables,
//! sizes, progress; and what both do first. No logic of bundles or hosts, and no decision, lives here.

mod count;
mod lookups;
mod printable;
mod report;
mod size;
mod table;
mod watch;

pub use count::Count;
pub use lookups::keep_lookups_inside;
pub use printable::printable;
pub use report::{Exit, Explain, Report};
pub use size::{Rate, Size};
pub use table::Table;
pub use watch::{Loudness, Watch};
