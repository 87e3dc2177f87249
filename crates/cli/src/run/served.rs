//! `--live`: the run that goes on as a page and as metrics.
//!
//! What it is: flags into a server, and its beginning and end around a command. What it is not: the
//! views (`taillight-live`). Nothing is started unless it is asked for.

use std::time::Duration;

use clap::Args;
use taillight_core::units::Span;
use taillight_core::{Error, Result};
use taillight_live::{LiveOptions, LiveServer};

use super::signals::Signals;
use crate::output;

/// Flags of commands that run something.
#[derive(Debug, Clone, Default, Args)]
pub struct LiveArgs {
    /// Show the run while it goes on: a page for browsers, and /metrics for Prometheus; on loopback
    /// unless an address is given.
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, require_equals = true)]
    pub live: Option<Option<String>>,
    /// Keep the last figures up for a scrape after the end, at most this long.
    #[arg(long, value_name = "TIME", requires = "live")]
    pub live_linger: Option<String>,
}

impl LiveArgs {
    /// Begins to serve, if that was asked for. Errors: `Usage` for a value that cannot be read;
    /// `Unavailable` for an address that cannot be had.
    pub fn start(&self) -> Result<Option<LiveServer>> {
        let Some(address) = &self.live else { return Ok(None) };
        let linger = self.live_linger.as_deref().map(str::parse::<Span>).transpose();
        let linger = linger.map_err(|e| {
            Error::usage("--live-linger is no time").with("why", e).hint("give a time such as 30s")
        })?;
        let server = LiveServer::start(&LiveOptions {
            address: address.clone(),
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

/// Ends the service, after waiting for the last scrape if that was asked for.
pub fn finish(server: Option<LiveServer>, signals: &Signals) {
    let Some(server) = server else { return };
    if server.lingers() && !signals.stop().stopped() {
        output::note("the last figures stay up for a scrape (--live-linger); Ctrl-C ends it");
    }
    server.finish(|| signals.stop().stopped());
}
