//! Lines at the bottom of a terminal that change: spinners and bars. Whatever they show is printable.

use crate::{printable, printable_lines, printable_message};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// All of them, on stderr.
#[derive(Debug, Clone)]
pub struct Bars(MultiProgress);

/// One of them.
#[derive(Debug, Clone)]
pub struct Bar(ProgressBar);

impl Bars {
    /// Drawn so often in a second.
    pub fn new(hertz: u8) -> Self {
        Self(MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(hertz)))
    }

    /// A message above the bars, which stays.
    pub fn say(&self, message: &str) -> bool {
        !self.0.is_hidden() && self.0.println(printable_message(message)).is_ok()
    }

    /// Lines that belong together above the bars.
    pub fn show(&self, lines: &str) -> bool {
        !self.0.is_hidden() && self.0.println(printable_lines(lines)).is_ok()
    }

    /// One that says only that something goes on. `template` is one of indicatif's.
    pub fn spinner(&self, template: &str) -> Bar {
        self.add(ProgressBar::new_spinner(), template, "=> ")
    }

    /// One of a known length.
    pub fn bar(&self, total: u64, template: &str, drawn: &str) -> Bar {
        self.add(ProgressBar::new(total), template, drawn)
    }

    fn add(&self, bar: ProgressBar, template: &str, drawn: &str) -> Bar {
        let style = ProgressStyle::with_template(template).expect("the template is a literal");
        Bar(self.0.add(bar.with_style(style.progress_chars(drawn))))
    }

    pub fn remove(&self, bar: &Bar) {
        self.0.remove(&bar.0);
    }
}

impl Bar {
    /// Turns by itself.
    pub fn tick_every(&self, pause: Duration) {
        self.0.enable_steady_tick(pause);
    }

    pub fn set_prefix(&self, prefix: &str) {
        self.0.set_prefix(printable(prefix).into_owned());
    }

    pub fn set_message(&self, message: &str) {
        self.0.set_message(printable(message).into_owned());
    }

    pub fn set_length(&self, length: u64) {
        self.0.set_length(length);
    }

    pub fn set_position(&self, position: u64) {
        self.0.set_position(position);
    }

    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}
