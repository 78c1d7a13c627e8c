//! What people at a terminal get and pipes do not: colour, and signs of life.

use std::io::{IsTerminal, stdout};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that ends sooner shows no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// How a word stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tint {
    Good,
    Bad,
    Bold,
}

/// A word in colour, where standard output is a terminal and nobody has asked for none.
pub fn tinted(text: &str, tint: Tint) -> String {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let dumb = set("TERM").is_none_or(|term| term == "dumb");
    if !stdout().is_terminal() || dumb || set("NO_COLOR").is_some() {
        return text.to_owned();
    }
    let code = match tint {
        Tint::Good => 32,
        Tint::Bad => 31,
        Tint::Bold => 1,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// A bar on a terminal, nothing elsewhere.
pub struct Progress {
    bar: ProgressBar,
    begun: Instant,
}

impl Progress {
    /// For so many steps.
    pub fn new(steps: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3} %  {eta} left") {
            bar.set_style(style);
        }
        Self { bar, begun: Instant::now() }
    }

    /// So many more are done.
    pub fn advance(&self, steps: u64) {
        if self.bar.is_hidden() && self.begun.elapsed() > SHOWN_AFTER {
            // Hidden all the same where standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(steps);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A wheel that turns on a terminal while this lives, from the second second on.
pub struct Waiting(#[allow(dead_code)] Sender<()>); // whoever listens hears when it is dropped

impl Waiting {
    /// For work whose steps nobody can count.
    pub fn on(what: String) -> Self {
        let (sender, ended) = channel::<()>();
        std::thread::spawn(move || {
            if ended.recv_timeout(SHOWN_AFTER) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                return;
            }
            let wheel = ProgressBar::new_spinner().with_message(what);
            wheel.enable_steady_tick(Duration::from_millis(100));
            // Nothing is ever sent: this ends with the sender.
            let _ = ended.recv();
            wheel.finish_and_clear();
        });
        Self(sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_shows_nothing() {
        let progress = Progress::new(10);
        progress.advance(5);
        assert!(progress.bar.is_hidden());
        assert_eq!(progress.bar.position(), 5);
    }
}
