//! A folder to work in, and the program run in it as from a fresh login.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_eggo-bundle");

pub struct World {
    folder: tempfile::TempDir,
}

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl World {
    pub fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(world.path("home")).unwrap();
        world
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// The names in a folder, sorted.
    pub fn list(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(name)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        self.fresh(Command::new(PROGRAM), arguments)
    }

    /// As [`World::command`]; Ctrl-C reaches it even where the tests run in the background.
    pub fn interruptible(&self, arguments: &[&str]) -> Command {
        self.with_signals("--default-signal=INT,TERM,HUP", arguments)
    }

    /// As [`World::command`], with signals treated as `env` says it.
    pub fn with_signals(&self, how: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("env");
        command.args([how, PROGRAM]);
        self.fresh(command, arguments)
    }

    fn fresh(&self, mut command: Command, arguments: &[&str]) -> Command {
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// As [`World::run`], with what `cat` prints of a file as standard input.
    pub fn piped(&self, file: &str, arguments: &[&str]) -> Ran {
        let mut cat = Command::new("cat").arg(self.path(file)).stdout(Stdio::piped()).spawn().unwrap();
        let ran = Ran::of(self.command(arguments).stdin(cat.stdout.take().unwrap()).output().unwrap());
        cat.wait().unwrap();
        ran
    }

    /// As [`World::run`], and must succeed.
    pub fn done(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}\n{}{}", ran.stdout, ran.stderr);
        ran
    }

    /// The command and all that came of it, without what differs from run to run.
    pub fn transcript(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        let mut text = format!("$ eggo-bundle {}\nexit: {}\n", arguments.join(" "), ran.code);
        for (name, output) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
            if !output.is_empty() {
                text.push_str(&format!("----- {name}\n{output}"));
            }
        }
        self.stable(&text)
    }

    /// `text` without this folder's name, key numbers and ports.
    pub fn stable(&self, text: &str) -> String {
        let text = text.replace(&self.folder.path().display().to_string(), "[HERE]");
        let text =
            regex::Regex::new("key [0-9A-F]{16}").unwrap().replace_all(&text, "key [KEY]").into_owned();
        regex::Regex::new(r"127\.0\.0\.1:\d+").unwrap().replace_all(&text, "[SERVER]").into_owned()
    }
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The smallest thing that says of itself that it is a program for a machine.
pub fn elf(machine: u16, text: &str) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    bytes.extend(machine.to_le_bytes());
    bytes.extend([0; 44]);
    bytes.extend(text.as_bytes());
    bytes
}

pub const AMD64: u16 = 62;
pub const ARM64: u16 = 183;

/// Bytes that do not shrink.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(length).collect()
}

pub fn tar_gz(members: &[(&str, &[u8])]) -> Vec<u8> {
    let gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(gz);
    for (path, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        tar.append_data(&mut header, path, *content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

/// Where the tests' third-party data is, if it is here.
pub fn test_data() -> Option<PathBuf> {
    let named = std::env::var_os("EGGO_TEST_DATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    named.or(Some(beside)).filter(|folder| folder.exists())
}
