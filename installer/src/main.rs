//! Installs a bundle inside the air gap: the program over `eggo-deploy`.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
