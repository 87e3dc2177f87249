//! SIGINT, SIGTERM, SIGQUIT, SIGHUP (the terminal was closed), SIGXCPU (`ulimit -t`) and others that end a program:
//! the first asks the run to end and keep its results, the second ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU,
};
use signal_hook::flag;
use signal_hook::low_level::signal_name;
use taillight_core::exit::Exit;
use taillight_core::{Error, Result};
use taillight_engine::StopFlag;

use super::sys;

/// Signals that end a program by default, and that terminals, timers, limits and batch systems send.
const ENDS: [i32; 10] =
    [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGXCPU, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF];

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
        if screen {
            sys::restore_before(SIGTSTP).map_err(refused)?;
        }
        let ignored = ignored();
        // Under nohup the run outlives its terminal.
        for signal in ENDS.into_iter().filter(|s| *s != SIGHUP || !ignored.contains(s)) {
            if screen {
                sys::restore_when(signal, signals.stop.raw()).map_err(refused)?;
            }
            let shutdown = || {
                let exit = exit_of(signal).code().into();
                flag::register_conditional_shutdown(signal, exit, signals.stop.raw()).map(drop)
            };
            // Registered first, so it sees the flag only when an earlier signal set it. The limit on
            // CPU time warns every second from its first warning on.
            let ends = if signal == SIGXCPU { Ok(()) } else { shutdown() };
            ends.and_then(|()| flag::register_usize(signal, signals.first.clone(), number(signal)))
                .and_then(|_| flag::register(signal, signals.stop.raw()))
                .map_err(refused)?;
        }
        Ok(signals)
    }

    /// The flag that ends the run.
    pub fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// The name of the signal that came, and the limit behind it; SIGINT before any.
    pub fn name(&self) -> String {
        let signal = self.signal().unwrap_or(SIGINT);
        let name = signal_name(signal).unwrap_or("a signal");
        match signal {
            SIGXCPU => format!("{name}: the limit on CPU time (ulimit -t) was reached"),
            _ => name.to_owned(),
        }
    }

    /// The exit code of the signal that came, if one did.
    pub fn exit(&self) -> Option<Exit> {
        self.signal().map(exit_of)
    }

    fn signal(&self) -> Option<i32> {
        let signal = i32::try_from(self.first.load(Ordering::Relaxed)).ok();
        signal.filter(|signal| *signal != 0)
    }
}

fn exit_of(signal: i32) -> Exit {
    if signal == SIGINT { Exit::Interrupted } else { Exit::Terminated }
}

/// Signals that whoever started the program wants ignored, as the kernel says.
fn ignored() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ENDS.into_iter().filter(|signal| mask >> (signal - 1) & 1 == 1).collect()
}

fn number(signal: i32) -> usize {
    usize::try_from(signal).unwrap_or(0)
}
