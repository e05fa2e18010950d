//! What a person is asked.

use crate::{printable_lines, screen};
use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::atomic::{AtomicBool, Ordering};

static ASKING: AtomicBool = AtomicBool::new(false);

/// Whether there is somebody who can answer.
pub fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Whether a question is on the screen without an answer.
pub fn is_asking() -> bool {
    ASKING.load(Ordering::Relaxed)
}

/// Asks a question on stderr; anything but a yes is a no.
pub fn yes(question: &str) -> bool {
    // Who asks has the keyboard until the answer: else two questions could wait for one answer.
    let mut keyboard = io::stdin().lock();
    screen::put_question(question);
    let mut answer = String::new();
    ASKING.store(true, Ordering::Relaxed);
    let read = keyboard.read_line(&mut answer);
    ASKING.store(false, Ordering::Relaxed);
    if read.is_err() {
        return false;
    }
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Asks for a word that is not shown.
pub fn hidden(prompt: &str) -> io::Result<String> {
    rpassword::prompt_password(printable_lines(prompt))
}
