//! What a person sees of either program: errors with hints and exit codes, tables,
//! sizes, progress; and what both do first. No logic of bundles or hosts, and no decision, lives here.

mod lookups;
mod table;
mod watch;

pub use eggo_errors::{Code, Count, Exit, Explain, Rate, Report, Size, printable};
pub use lookups::keep_lookups_inside;
pub use table::Table;
pub use watch::{Loudness, Watch};
