//! `--live`: the run that goes on as a page, as metrics, or as a screen on the terminal.
//!
//! What it is: flags into views, and their beginning and end around a command. What it is not: the
//! views (`taillight-live`). Nothing is started unless it is asked for.

use std::time::Duration;

use clap::{ArgAction, Args};
use taillight_core::units::Span;
use taillight_core::{Error, Result};
use taillight_live::{LiveFeed, LiveOptions, LiveServer, screen};

use super::signals::Signals;
use crate::output;

/// Flags of commands that run something.
#[derive(Debug, Clone, Default, Args)]
pub struct LiveArgs {
    /// Show the run while it goes on: a page for browsers and /metrics for Prometheus, on loopback
    /// unless an address is given; `--live=tui`: a screen on this terminal. May be given twice.
    #[arg(long, value_name = "ADDR:PORT|tui", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "", action = ArgAction::Append)]
    pub live: Vec<String>,
    /// Keep the last figures up for a scrape after the end, at most this long.
    #[arg(long, value_name = "TIME", requires = "live")]
    pub live_linger: Option<String>,
}

/// The value of `--live` that is no address.
const TUI: &str = "tui";

/// Who shows the runs of a command while they go on.
#[derive(Default)]
pub struct LiveViews {
    pub server: Option<LiveServer>,
    /// A screen in place of lines.
    pub screen: bool,
}

impl LiveViews {
    /// What a run tells its views, if there are any.
    pub fn feed(&self) -> Option<LiveFeed> {
        let served = self.server.as_ref().map(LiveServer::feed);
        served.or_else(|| self.screen.then(LiveFeed::unserved))
    }

    /// Ends the service, after waiting for the last scrape if that was asked for.
    pub fn finish(self, signals: &Signals) {
        let Some(server) = self.server else { return };
        if server.lingers() && !signals.stop().stopped() {
            output::note("the last figures stay up for a scrape (--live-linger); Ctrl-C ends it");
        }
        server.finish(|| signals.stop().stopped());
    }
}

impl LiveArgs {
    /// Whether a screen was asked for.
    pub fn screen(&self) -> bool {
        self.live.iter().any(|value| value == TUI)
    }

    /// Begins what was asked for. Errors: `Usage` for a value that cannot be read; `Unavailable` for
    /// an address that cannot be had.
    pub fn start(&self) -> Result<LiveViews> {
        let server = self.serve()?;
        let fits = if self.screen() { screen::fits() } else { Ok(()) };
        if let Err(why) = fits {
            output::note(&format!("no screen here: {why}; lines instead"));
        }
        Ok(LiveViews { server, screen: self.screen() && fits.is_ok() })
    }

    fn serve(&self) -> Result<Option<LiveServer>> {
        let mut addresses = self.live.iter().filter(|value| *value != TUI);
        let Some(address) = addresses.next() else {
            let Some(linger) = &self.live_linger else { return Ok(None) };
            return Err(Error::usage("--live-linger keeps what is served, and nothing is")
                .with("--live-linger", linger)
                .hint("give --live, or --live=ADDR:PORT, as well"));
        };
        if addresses.next().is_some() {
            return Err(Error::usage("--live was given two addresses").hint("give one"));
        }
        let linger = self.live_linger.as_deref().map(str::parse::<Span>).transpose();
        let linger = linger.map_err(|e| {
            Error::usage("--live-linger is no time").with("why", e).hint("give a time such as 30s")
        })?;
        let server = LiveServer::start(&LiveOptions {
            address: Some(address.clone()).filter(|a| !a.is_empty()),
            linger: linger.map_or(Duration::ZERO, |span| Duration::from_nanos(span.0)),
        })?;
        let at = server.address();
        output::line(&format!("live: http://{at}/  metrics: http://{at}/metrics"));
        if !at.ip().is_loopback() {
            output::note(
                "warning: the live view can be read by everybody who reaches that address; it has no \
                 password",
            );
        }
        Ok(Some(server))
    }
}
