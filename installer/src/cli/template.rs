//! `eggo-install template`

use super::output;
use eggo_bundles::Arch;
use eggo_deploy::config::{HostWord, Template, defaults};
use eggo_deploy::runtimes::RuntimeKind;
use eggo_terminal::Report;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Write a commented deploy.yaml.
///
/// A host is IP, NAME@IP, NAME@IP:ARCH or NAME@IP:ARCH:PORT. Repeat an option for more hosts. The
/// same address in several lists is one host.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  eggo-install template -n prod --masters m1@192.168.7.1 \\\n    --workers w1@192.168.7.2:arm64 -f deploy.yaml"
)]
pub struct Args {
    /// The file to write [default: stdout]
    #[arg(short = 'f', short_alias = 'o', long = "file", alias = "output", value_name = "FILE")]
    file: Option<PathBuf>,

    /// Replace the file if it is there
    #[arg(long)]
    force: bool,

    /// The cluster's name
    #[arg(short = 'n', long = "name", value_name = "NAME", default_value = "k8s-cluster")]
    name: String,

    /// Who logs in on the nodes
    #[arg(short = 'u', long = "user", value_name = "USER", default_value = "root")]
    user: String,

    /// The password of that user. It will be in the file in plain text, and is in your
    /// shell's history: a key is safer
    #[arg(short = 'p', long = "password", value_name = "PASSWORD")]
    password: Option<String>,

    /// The private key of that user
    #[arg(long, value_name = "FILE")]
    private_key: Option<String>,

    /// A master; may be repeated
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    masters: Vec<HostWord>,

    /// A worker; may be repeated. The masters are added to the list: without a kubelet their API
    /// servers cannot reach webhooks in pods. Other pods stay away from them
    #[arg(long, alias = "nodes", value_name = "HOST", value_delimiter = ',')]
    workers: Vec<HostWord>,

    /// An etcd member; may be repeated [default: every master]
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    etcds: Vec<HostWord>,

    /// The load balancer
    #[arg(long, alias = "loadbalancer", value_name = "HOST")]
    loadbalance: Option<HostWord>,

    #[arg(long, default_value = "containerd", value_parser = runtime, help = RuntimeKind::names())]
    runtime: RuntimeKind,

    /// The image of every pod's first container, as the bundle has it
    #[arg(long, value_name = "IMAGE", default_value = defaults::PAUSE_IMAGE)]
    pause_image: String,

    /// The arch of hosts that do not say
    #[arg(long, default_value = "amd64")]
    arch: Arch,
}

fn runtime(text: &str) -> Result<RuntimeKind, String> {
    text.parse().map_err(|()| format!("expected {}", RuntimeKind::names()))
}

pub fn run(args: Args) -> Result<(), Report> {
    if args.password.is_some() {
        output::say(
            "warning: the password will be in the file in plain text, and is in your shell's history; \
             a private key (`--private-key`) or an agent is safer",
        );
    }
    let text = Template {
        cluster_id: args.name,
        user: args.user,
        password: args.password,
        private_key: args.private_key,
        masters: args.masters,
        workers: args.workers,
        etcds: args.etcds,
        load_balancer: args.loadbalance,
        runtime: args.runtime,
        pause_image: args.pause_image,
        arch: args.arch,
    }
    .to_string();
    // What it writes is accepted, or it says why not instead of writing it.
    eggo_deploy::config::parse("the template", text.as_bytes())
        .map_err(eggo_deploy::config::LoadError::from)?;
    match args.file {
        None => output::text_out(&text),
        Some(path) => write(&path, &text, args.force),
    }
}

/// 0600, for it may hold a password sooner or later.
fn write(path: &Path, text: &str, force: bool) -> Result<(), Report> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).mode(0o600);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => {
            output::say(format_args!(
                "wrote {}; check it with `eggo-install validate -f {}`",
                path.display(),
                path.display()
            ));
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(Report::new(format!("`{}` already exists", path.display()))
                .hinted("replace it with `--force`"))
        }
        Err(error) => Err(Report::new(format!("cannot write `{}`: {error}", path.display()))),
    }
}
