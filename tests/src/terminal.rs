//! A program with a terminal of its own, and somebody who reads and types.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: ChildStdout,
    /// Everything that was on the screen so far, and how much of it was there before the last answer.
    seen: String,
    answered: usize,
}

impl Terminal {
    /// Runs a shell's command line, with the environment of `command`.
    pub fn run(line: &str, command: &mut Command) -> Self {
        let mut child = command
            .args(["-qefc", line, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script(1) is there");
        let (keyboard, screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, keyboard, screen, seen: String::new(), answered: 0 }
    }

    /// Waits for a question, then types an answer that the screen shows.
    pub fn answer(&mut self, question: &str, answer: &str) {
        self.wait_for(question);
        writeln!(self.keyboard, "{answer}").unwrap();
    }

    /// The same for a secret, once the terminal has stopped to show what is typed.
    pub fn answer_hidden(&mut self, question: &str, answer: &str) {
        self.wait_for(question);
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let shell = std::fs::read_to_string(children).unwrap();
        let terminal = format!("/proc/{}/fd/0", shell.trim());
        let settings = || Command::new("stty").args(["-F", &terminal, "-a"]).output().unwrap().stdout;
        while !String::from_utf8_lossy(&settings()).contains(" -echo ") {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended without waiting for an answer");
        }
        writeln!(self.keyboard, "{answer}").unwrap();
    }

    fn wait_for(&mut self, question: &str) {
        let mut piece = [0; 4096];
        while !self.seen[self.answered..].contains(question) {
            let length = self.screen.read(&mut piece).unwrap();
            assert!(length > 0, "it ended without asking `{question}`: {}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&piece[..length]));
        }
        self.answered = self.seen.len();
    }

    /// Its exit code, and all that was on the screen.
    pub fn end(mut self) -> (i32, String) {
        let mut rest = Vec::new();
        self.screen.read_to_end(&mut rest).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, self.seen + &String::from_utf8_lossy(&rest))
    }
}
