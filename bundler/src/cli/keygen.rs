use super::{keys, output};
use eggo_bundles::progress::Progress as _;
use eggo_terminal::{Report, Watch};
use std::path::PathBuf;

/// Make a key pair to sign bundles with, in minisign's format
///
/// KEY signs and stays here; KEY.pub verifies and goes to where bundles are installed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle keygen -o release.key
  eggo-bundle keygen --no-password -o ci.key      for machines that sign on their own
  minisign -V -p release.key.pub -m eggo-bundle.json   accepts what it signs")]
pub(super) struct Args {
    /// Where to write the secret key; the public one gets `.pub` added.
    #[arg(short, long, value_name = "KEY", default_value = "eggo.key")]
    output: PathBuf,
    /// Do not protect the secret key by a password.
    #[arg(long)]
    no_password: bool,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let password = if args.no_password { None } else { Some(new_password()?) };
    let public = keys::write_pair(&args.output, password.as_deref())?;
    watch.note(&format!(
        "wrote `{}` and `{}`",
        args.output.display(),
        keys::public_path(&args.output).display()
    ));
    // The key itself, for those who paste it somewhere.
    output::print(&format!("{}\n", public.lines().nth(1).unwrap_or_default()))
}

fn new_password() -> Result<String, Report> {
    let missing = || {
        Report::new("a password is needed, and there is no terminal to ask on")
            .hinted("set EGGO_KEY_PASSWORD, or use `--no-password`")
    };
    let first = keys::password("password for the new key: ").ok_or_else(missing)?;
    let second = keys::password("repeat the password: ").ok_or_else(missing)?;
    if first != second {
        return Err(Report::new("the two passwords differ"));
    }
    if first.is_empty() {
        return Err(Report::new("the password is empty").hinted("use `--no-password` if you want none"));
    }
    Ok(first)
}
