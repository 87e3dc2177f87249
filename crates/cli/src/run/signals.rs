//! SIGINT, SIGTERM and SIGHUP (the terminal was closed): the first asks the run to end and keep its
//! results, the second ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::flag;
use taillight_core::exit::Exit;
use taillight_core::{Error, Result};
use taillight_engine::StopFlag;

use super::sys;

/// What the signal handlers share with the run.
pub struct Signals {
    stop: StopFlag,
    first: Arc<AtomicUsize>,
}

impl Signals {
    /// Installs the handlers; with a `screen`, signals that end or stop the program give the terminal
    /// back first. Errors: `Unavailable` when the system refuses them.
    pub fn install(screen: bool) -> Result<Signals> {
        let refused = |e| Error::unavailable("cannot handle signals").source(e);
        let signals = Signals { stop: StopFlag::default(), first: Arc::new(AtomicUsize::new(0)) };
        let handled =
            [(SIGINT, Exit::Interrupted), (SIGTERM, Exit::Terminated), (SIGHUP, Exit::Terminated)];
        if screen {
            [SIGQUIT, SIGTSTP].into_iter().try_for_each(sys::restore_before).map_err(refused)?;
        }
        for (signal, exit) in handled {
            if screen {
                sys::restore_when(signal, signals.stop.raw()).map_err(refused)?;
            }
            // Registered first, so it sees the flag only when an earlier signal set it.
            flag::register_conditional_shutdown(signal, exit.code().into(), signals.stop.raw())
                .and_then(|_| flag::register_usize(signal, signals.first.clone(), number(signal)))
                .and_then(|_| flag::register(signal, signals.stop.raw()))
                .map_err(refused)?;
        }
        Ok(signals)
    }

    /// The flag that ends the run.
    pub fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// The name of the signal that came; SIGINT before any.
    pub fn name(&self) -> &'static str {
        match self.first.load(Ordering::Relaxed) {
            signal if signal == number(SIGTERM) => "SIGTERM",
            signal if signal == number(SIGHUP) => "SIGHUP",
            _ => "SIGINT",
        }
    }

    /// The exit code of the signal that came, if one did.
    pub fn exit(&self) -> Option<Exit> {
        let signal = self.first.load(Ordering::Relaxed);
        if signal == 0 {
            None
        } else if signal == number(SIGINT) {
            Some(Exit::Interrupted)
        } else {
            Some(Exit::Terminated)
        }
    }
}

fn number(signal: i32) -> usize {
    usize::try_from(signal).unwrap_or(0)
}
