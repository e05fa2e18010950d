use super::open::{TrustArgs, is_pipe, pipe_takes_no_base, with_bundle};
use crate::contents;
use crate::error::Error;
use eggo_bundles::progress::Progress as _;
use eggo_bundles::reader::Selection;
use eggo_terminal::{Count, Report, Size, Watch};
use std::path::PathBuf;

/// Unpack a bundle, or parts of it, checking every byte on its way
///
/// Plain `tar xzf` works as well; this is faster, and refuses what is not as the index says. Without
/// `--pubkey`, a bundle of a key that is not known here is unpacked with a warning.
/// `-` reads from standard input.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle extract k8s.tar.gz -C /srv/k8s
  eggo-bundle extract k8s.tar.gz -C . amd64/bin/kubelet arm64/bin
  ssh builder cat k8s.tar.gz | eggo-bundle extract - -C /srv/k8s")]
pub(super) struct Args {
    /// The bundle; of a split one, the first part; `-` for standard input.
    bundle: PathBuf,
    /// The folder to unpack into; it is made if it is not there.
    // `-o`, as other commands have it, is taken too.
    #[arg(short = 'C', long, short_alias = 'o', alias = "output", value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Files and folders of the bundle [default: everything].
    paths: Vec<String>,
    /// The parent of a delta, for what it takes from there.
    #[arg(long, value_name = "BUNDLE")]
    base: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let selection = match args.paths.is_empty() {
        true => Selection::All,
        false => {
            Selection::Paths(args.paths.iter().map(|path| path.trim_end_matches('/').to_string()).collect())
        }
    };
    let (extracted, share) = if is_pipe(&args.bundle) {
        pipe_takes_no_base(args.base.as_deref())?;
        let (pipe, _) = args.trust.opened_pipe(watch)?;
        let share = contents::carried(pipe.index());
        (pipe.extract(&args.directory, &selection, watch), share)
    } else {
        let opened = args.trust.opened_on(&args.bundle, args.base.as_deref(), watch)?;
        with_bundle!(&opened, bundle => {
            (bundle.extract(&args.directory, &selection, watch), contents::carried(bundle.index()))
        })
    };
    let extracted = extracted.map_err(|error| {
        let note = format!("`{}` keeps what was unpacked before that", args.directory.display());
        Report::from(Error::from(error)).note(note)
    })?;
    watch.note(&format!(
        "unpacked {}, {}, into `{}`",
        Count(extracted.files, "file", "files"),
        Size(extracted.bytes),
        args.directory.display()
    ));
    if let (Some(share), None, true) = (share, &args.base, args.paths.is_empty()) {
        watch.note(&format!("the delta {share}; `--base` unpacks that too"));
    }
    Ok(())
}
