use crate::error::Error;
use eggo_bundles::parts;
use eggo_bundles::progress::Progress as _;
use eggo_terminal::{Count, Report, Watch};
use std::path::PathBuf;

/// Cut a bundle into numbered parts, each with its checksum
///
/// Every command takes the first part in place of the whole. `sha256sum -c` checks a part
/// alone, and `cat` joins them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  eggo-bundle split k8s.tar.gz --size 4G -o /media/stick")]
pub(super) struct Args {
    /// The bundle to cut.
    bundle: PathBuf,
    /// The size of a part: 700M, 4G (4G gives the largest file that FAT32 takes).
    #[arg(long, default_value = "4G", value_parser = size)]
    size: u64,
    /// The folder for the parts, made if it is not there [default: where the bundle is].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let beside = args.bundle.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = args.output.as_deref().or(beside).unwrap_or(std::path::Path::new("."));
    let parts = parts::split(&args.bundle, args.size, folder, watch).map_err(Error::from)?;
    watch.note(&format!("wrote {}", Count(parts.len(), "part", "parts")));
    let lines: String = parts.iter().map(|part| format!("{}\n", part.display())).collect();
    super::output::print(&lines)
}

/// `4G`, `700M`, `64K`, `1000`; units of 1024.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        other => return Err(format!("unknown unit `{other}` (known: K, M, G)")),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a number and a unit, like 4G".to_string())?;
    match number.checked_mul(unit) {
        Some(0) | None => Err("out of range".to_string()),
        Some(size) => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("4G"), Ok(4 << 30));
        assert_eq!(size("700MiB"), Ok(700 << 20));
        assert_eq!(size("10"), Ok(10));
        for bad in ["", "G", "4X", "0", "-1", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
