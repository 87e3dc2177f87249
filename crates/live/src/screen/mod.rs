//! The run on a terminal that somebody watches: the live model as one screen of text, written when `cli` has news (an
//! interval closed, a phase began, a worker is stuck) and by no clock of its own; no keys are read.

#[cfg(feature = "tui")]
mod sections;
#[cfg_attr(not(feature = "tui"), path = "no_terminal.rs")]
mod terminal;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::feed::LiveFeed;

pub use terminal::{fits, restore};

/// Least time between two pictures.
const PAUSE: Duration = Duration::from_millis(450);

/// The screen of one run. It is on from the first picture until it is hidden, or goes.
#[derive(Debug)]
pub struct Screen {
    feed: LiveFeed,
    shown: Option<Instant>,
}

impl Screen {
    /// A screen for what `feed` is told. Installs a panic hook that gives the terminal back.
    pub fn new(feed: LiveFeed) -> Screen {
        terminal::restore_on_panic();
        Screen { feed, shown: None }
    }

    /// Draws the run as it is now, unless that was done a moment ago.
    pub fn show(&mut self) {
        if self.shown.is_some_and(|shown| shown.elapsed() < PAUSE) {
            return;
        }
        let used = crate::server::thread_cpu_ns();
        // The first figures are not kept waiting for the picture that had none.
        self.shown = terminal::picture(self.feed.state()).then(Instant::now);
        let used = crate::server::thread_cpu_ns() - used;
        self.feed.state().cost.screen_ns.fetch_add(used, Ordering::Relaxed);
    }

    /// Gives the terminal back as it was.
    pub fn hide(&mut self) {
        self.shown = None;
        restore();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}
