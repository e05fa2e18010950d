fn main() -> std::process::ExitCode {
    eggo_bundle::cli::main()
}
