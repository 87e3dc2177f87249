//! Flags of the live view, of `run`, `search`, `suite` and `ab`; `watch` has a `--live` of its own.

use clap::Args;

use super::FURTHER;

/// Flags of the live view.
#[derive(Debug, Clone, Default, Args)]
pub struct LiveArgs {
    /// Show the run while it goes on: a page for browsers and /metrics for Prometheus, on loopback
    /// unless an address is given.
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "", help_heading = FURTHER)]
    pub live: Option<String>,
    /// A screen on this terminal in place of lines.
    #[arg(long, help_heading = FURTHER)]
    pub tui: bool,
    /// Keep the last figures up for a scrape after the end, at most this long.
    #[arg(long, value_name = "TIME", requires = "live", help_heading = FURTHER)]
    pub live_linger: Option<String>,
}

impl LiveArgs {
    /// These, or the `other` ones where these ask for no view.
    pub fn or(self, other: &LiveArgs) -> LiveArgs {
        if self.live.is_some() || self.tui { self } else { other.clone() }
    }
}
