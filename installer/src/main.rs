fn main() -> std::process::ExitCode {
    eggo_install::cli::main()
}
