//! `--live` and `--tui`: the run that goes on as a page and metrics, or as a screen on the terminal. Turns [`LiveArgs`]
//! into views of `taillight-live`, and begins and ends them around a command. Nothing is started unless it is
//! asked for.

use std::time::Duration;

use taillight_core::units::Span;
use taillight_core::{Error, Result};
use taillight_live::{LiveFeed, LiveOptions, LiveServer, screen};

use super::signals::Signals;
use crate::args::LiveArgs;
use crate::output;

/// The views that show the runs of a command while they go on.
#[derive(Default)]
pub struct LiveViews {
    pub server: Option<LiveServer>,
    /// A screen in place of lines.
    pub screen: bool,
}

impl LiveViews {
    /// Begins what was asked for. Errors: `Usage` for a value that cannot be read, and among ranks;
    /// `Unavailable` for an address that cannot be had.
    pub fn start(asked: &LiveArgs) -> Result<LiveViews> {
        let ranks = crate::ranks::several();
        if ranks && asked.live.is_some() {
            return Err(Error::usage(
                "a live view shows one process, and a run over ranks has several",
            )
            .with("at", "--live")
            .hint("leave it out: the report shows every host"));
        }
        let server = serve(asked)?;
        let tui = asked.tui && !ranks;
        if asked.tui && ranks {
            output::note("no screen here: it shows one process; lines instead");
        }
        let fits = if tui { screen::fits() } else { Ok(()) };
        if let Err(why) = fits {
            output::note(&format!("no screen here: {why}; lines instead"));
        }
        Ok(LiveViews { server, screen: tui && fits.is_ok() })
    }

    /// By which a run tells its views of itself; None without views.
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

fn serve(asked: &LiveArgs) -> Result<Option<LiveServer>> {
    let Some(address) = &asked.live else { return Ok(None) };
    let linger = asked.live_linger.as_deref().map(str::parse::<Span>).transpose();
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
