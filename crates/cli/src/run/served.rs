//! `--live`: the run that goes on as a page, as metrics, or as a screen on the terminal. Turns flags into
//! views of `taillight-live`, and begins and ends them around a command. Nothing is started unless it is
//! asked for.

use std::time::Duration;

use clap::Args;
use taillight_core::units::Span;
use taillight_core::{Error, Result};
use taillight_live::{LiveFeed, LiveOptions, LiveServer, screen};

use super::signals::Signals;
use crate::args::FURTHER;
use crate::output;

/// Flags of commands that run something.
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
    /// These, or the others where nothing is asked for.
    pub fn or(self, other: &LiveArgs) -> LiveArgs {
        if self.live.is_some() || self.tui { self } else { other.clone() }
    }

    /// Begins what was asked for. Errors: `Usage` for a value that cannot be read; `Unavailable` for
    /// an address that cannot be had.
    pub fn start(&self) -> Result<LiveViews> {
        let server = self.serve()?;
        let fits = if self.tui { screen::fits() } else { Ok(()) };
        if let Err(why) = fits {
            output::note(&format!("no screen here: {why}; lines instead"));
        }
        Ok(LiveViews { server, screen: self.tui && fits.is_ok() })
    }

    fn serve(&self) -> Result<Option<LiveServer>> {
        let Some(address) = &self.live else { return Ok(None) };
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
