//! What a person sees of either program: errors with hints and exit codes, tables,
//! sizes, progress. No logic of bundles or hosts, and no decision, lives here.

mod count;
mod report;
mod size;
mod table;
mod watch;

pub use count::Count;
pub use report::{Exit, Explain, Report};
pub use size::{Rate, Size};
pub use table::Table;
pub use watch::{Loudness, Watch};
