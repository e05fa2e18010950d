use eggo_bundles::output::{hint, write_new};
use eggo_bundles::progress::Progress as _;
use eggo_terminal::{Report, Watch};
use std::path::PathBuf;

/// Write a manifest to begin with, with the common keys explained
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle init
  eggo-bundle init k8s.yaml && eggo-bundle build -m k8s.yaml")]
pub(super) struct Args {
    /// The file to write; an existing one is never replaced.
    #[arg(default_value = "bundle.yaml")]
    file: PathBuf,
}

const MANIFEST: &str = include_str!("init.yaml");

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    write_new(&args.file, MANIFEST.as_bytes(), 0o644).map_err(|error| {
        let file = args.file.display();
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            return Report::new(format!("`{file}` already exists")).hinted("name another file");
        }
        Report { hint: hint(&args.file, &error), ..Report::new(format!("cannot write `{file}`: {error}")) }
    })?;
    watch.note(&format!(
        "wrote `{}`; next: edit it, then `eggo-bundle build -m {}`",
        args.file.display(),
        args.file.display()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;

    #[test]
    fn the_written_manifest_is_valid_also_with_its_examples() {
        let file = std::path::Path::new("bundle.yaml");
        Manifest::parse(file, MANIFEST.as_bytes()).unwrap();
        // The examples are comments of the form `#   key`; prose has one space after the sign.
        let uncommented: String = MANIFEST
            .lines()
            .map(
                |line| {
                    if line.starts_with("#  ") { format!("{}\n", &line[1..]) } else { format!("{line}\n") }
                },
            )
            .collect();
        let full = Manifest::parse(file, uncommented.as_bytes()).unwrap();
        assert!(!full.files.is_empty() && !full.images.is_empty() && !full.addons.is_empty());
    }
}
