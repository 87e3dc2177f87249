//! Signals that end a program by default, from SIGINT to those of timers, batch systems and real time: the first asks
//! the run to end and keep its results, the second ends the program at once and says what recovers them. SIGBUS, for a
//! mapped file that was cut, ends it at once, too.
//!
//! The same signal again within [`ONE_WISH`] is no second wish: `timeout` sends its signal to the command and to
//! its group, a terminal that closes to everybody in it. Nor is SIGXCPU, which comes every second.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use signal_hook::consts::{
    SIGALRM, SIGBUS, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGSYS, SIGTERM, SIGTRAP, SIGTSTP,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};
use signal_hook::low_level::{exit, signal_name};
use taillight_core::exit::Exit;
use taillight_core::units::readable::in_line;
use taillight_core::{Clock, Error, MonoClock, Result, StopFlag};

use super::directory::command_line;
use super::sys::{self, LastWords};
use crate::output;

/// Signals that end a program by default (signal(7)), that can be handled, and whose handler can return; those
/// of real time come beside them. SIGPIPE is ignored from the start of every Rust program, SIGXFSZ and SIGABRT are in
/// `limits`.
const ENDS: [i32; 15] = [
    SIGINT,
    SIGQUIT,
    SIGTERM,
    SIGHUP,
    SIGXCPU,
    SIGUSR1,
    SIGUSR2,
    SIGALRM,
    SIGVTALRM,
    SIGPROF,
    SIGIO,
    SIGTRAP,
    SIGSYS,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];

/// Those of them by which people end a program: they end it even where a library that was loaded before handles them, too.
const ASKED: [i32; 4] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP];

/// Within this time the same signal is the same wish.
const ONE_WISH: Duration = Duration::from_secs(1);

/// Said when the first signal comes.
const ENDING: &str = "ending; again after a second ends at once";

/// Said when a mapping has lost its file.
const CUT: &str = "error: a file that is mapped into memory was cut or cannot be read (SIGBUS), most likely a chunk of \
     the capture in /dev/shm: what it held is lost\n";

/// What the signal handlers share with the run.
#[derive(Default)]
struct EndWish {
    stop: StopFlag,
    /// The first signal in the lowest byte, above it when it came, in us; 0 before any.
    first: AtomicU64,
    /// What the first signal says.
    ending: LastWords,
    /// What a forced end says.
    forced: LastWords,
    /// What the end by a lost mapping says.
    cut: LastWords,
    /// Whether a thread has begun to say `cut`.
    said: AtomicBool,
}

/// What goes on: named by a forced end.
#[derive(Default)]
struct GoingOn {
    /// The outermost series.
    series: Option<PathBuf>,
    run: Option<PathBuf>,
    /// Whether the run measures; before, it is prepared.
    measures: bool,
}

/// The signals that end the program, and what was asked by them.
pub struct Signals {
    wish: Arc<EndWish>,
    going_on: Mutex<GoingOn>,
}

impl Signals {
    /// Installs the handlers; with a `screen`, SIGTSTP gives the terminal back before it stops the program.
    /// Errors: `Unavailable` when the system refuses them.
    pub fn install(screen: bool) -> Result<Signals> {
        let refused = |e| Error::unavailable("cannot handle signals").source(e);
        let signals = Signals { wish: Arc::default(), going_on: Mutex::default() };
        signals.going_on(|_| ());
        if !output::mode().quiet {
            // A terminal has echoed ^C, or shows a bar.
            let begin = if output::redraws() { "\n" } else { "" };
            signals.wish.ending.set(format!("{begin}{ENDING}\n"));
        }
        if screen {
            sys::restore_before(SIGTSTP).map_err(refused)?;
        }
        let (ignored, caught) = (masked("SigIgn:"), masked("SigCgt:"));
        // Under nohup the run outlives its terminal. What a library handles that was loaded before (a profiler's
        // SIGPROF) ends nothing.
        let others = |s: &i32| *s == SIGHUP && ignored(*s) || !ASKED.contains(s) && caught(*s);
        for signal in ends().into_iter().filter(|s| !others(s)) {
            let wish = signals.wish.clone();
            sys::when(signal, move || wish.came(signal)).map_err(refused)?;
        }
        let wish = signals.wish.clone();
        sys::instead_of_default(SIGBUS, move || wish.cut()).map_err(refused)?;
        Ok(signals)
    }

    /// The flag that ends the run.
    pub fn stop(&self) -> &StopFlag {
        &self.wish.stop
    }

    /// The run in `dir` goes on until the guard goes: a forced end names it.
    pub fn in_run(&self, dir: &Path) -> NamedAtEnd<'_> {
        self.going_on(|it| it.run = Some(dir.to_owned()));
        NamedAtEnd { signals: self, series: false }
    }

    /// The run measures from now on: there is something to recover.
    pub fn measuring(&self) {
        self.going_on(|it| it.measures = true);
    }

    /// The series in `dir` goes on until the guard goes: a forced end names it. A series inside another is a part
    /// of it.
    pub fn in_series(&self, dir: &Path) -> Option<NamedAtEnd<'_>> {
        let mut outermost = false;
        self.going_on(|it| {
            outermost = it.series.is_none();
            it.series.get_or_insert_with(|| dir.to_owned());
        });
        outermost.then_some(NamedAtEnd { signals: self, series: true })
    }

    /// Changes what goes on, and what a forced end will say of it.
    fn going_on(&self, change: impl FnOnce(&mut GoingOn)) {
        let mut it = self.going_on.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut it);
        let recovered = it.recovered();
        self.wish.forced.set(format!("ended at once by a second signal\n{recovered}"));
        self.wish.cut.set(format!("{CUT}{recovered}"));
    }

    /// The name of the first signal that came, for SIGXCPU with the limit behind it; SIGINT before any.
    pub fn name(&self) -> String {
        let signal = self.signal().unwrap_or(SIGINT);
        let name = match signal {
            libc::SIGPWR => "SIGPWR".to_owned(),
            libc::SIGSTKFLT => "SIGSTKFLT".to_owned(),
            _ => signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned),
        };
        match signal {
            SIGXCPU => format!("{name}: the limit on CPU time (ulimit -t) was reached"),
            _ => name,
        }
    }

    /// The exit code of the first signal that came, if one did.
    pub fn exit(&self) -> Option<Exit> {
        self.signal().map(exit_of)
    }

    fn signal(&self) -> Option<i32> {
        first_of(self.wish.first.load(Ordering::Relaxed)).map(|(signal, _)| signal)
    }
}

/// While it lives, a forced end names a run or a series.
pub struct NamedAtEnd<'a> {
    signals: &'a Signals,
    series: bool,
}

impl Drop for NamedAtEnd<'_> {
    fn drop(&mut self) {
        self.signals.going_on(|it| match self.series {
            true => it.series = None,
            false => (it.run, it.measures) = (None, false),
        });
    }
}

impl GoingOn {
    /// The commands that recover the run and go on with the series, in lines.
    fn recovered(&self) -> String {
        let line = |what: &str, words: &[&str], dir: &Path| {
            let words = words.iter().map(|word| (*word).to_owned());
            let words = words.chain([dir.to_string_lossy().into_owned()]);
            format!("{what}\n  `{}`\n", command_line(words))
        };
        let run = self.run.as_deref().map(|dir| match self.measures {
            true => line(
                "what was measured is not lost; recover it with",
                &["taillight", "report"],
                dir,
            ),
            false => format!("nothing was measured: {} holds no result\n", in_line(dir.display())),
        });
        let series = self.series.as_deref().map(|dir| {
            line("go on with the series with", &["taillight", "suite", "--resume"], dir)
        });
        run.into_iter().chain(series).collect()
    }
}

/// What happens in signal handlers: atomics and system calls only.
impl EndWish {
    fn came(&self, signal: i32) {
        let now = u64::try_from(MonoClock.now().0 / 1000).unwrap_or(0);
        let mine = now << 8 | u64::try_from(signal).unwrap_or(0);
        let before = self.first.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed);
        let Some((first, at)) = before.err().and_then(first_of) else {
            self.stop.stop();
            return self.ending.say();
        };
        // Whoever ends a whole session sends SIGTERM and SIGHUP at once (systemd.kill(5), SendSIGHUP=).
        let same = first == signal || signal == SIGHUP || (first, signal) == (SIGHUP, SIGTERM);
        // The limit on CPU time warns every second from its first warning on.
        let again = same && u128::from(now.saturating_sub(at)) < ONE_WISH.as_micros();
        if again || signal == SIGXCPU {
            return;
        }
        self.forced.say();
        exit(exit_of(signal).code().into());
    }

    fn cut(&self) {
        // Other threads come back here until the first one has ended the program.
        if !self.said.swap(true, Ordering::Relaxed) {
            self.cut.say();
            exit(Exit::TargetFailed.code().into());
        }
    }
}

/// The signal and when it came, us.
fn first_of(first: u64) -> Option<(i32, u64)> {
    (first != 0).then_some((i32::from(first as u8), first >> 8))
}

fn exit_of(signal: i32) -> Exit {
    if signal == SIGINT { Exit::Interrupted } else { Exit::Terminated }
}

fn ends() -> Vec<i32> {
    ENDS.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()).collect()
}

/// Whether a signal is in a mask of this process, by the mask's name in `/proc/PID/status`.
fn masked(name: &str) -> impl Fn(i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(name));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |signal| mask >> (signal - 1) & 1 == 1
}
