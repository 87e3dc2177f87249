//! Limits of the process (`ulimit`) that would otherwise end it without a word: runs the command on a thread with a
//! stack of its own, after a file that is too large was made an error of its write, an abort was given words, and the
//! limit on CPU time got an early warning. Signals that ask a run to end, SIGXCPU among them: `run::signals`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGABRT, SIGXFSZ};
use taillight_core::{Error, Result};

use crate::run::sys;

/// Stack of the thread that does the work, bytes, whatever `ulimit -s` leaves to the first thread.
const STACK: usize = 8 << 20;

/// Said when the program is aborted, which is what happens where memory ends.
const ABORTED: &str = "error: the program was aborted, as it is where memory ends: raise the limit on it \
     (ulimit -v, -d), if there is one\nhint: what a run measured until now is kept: \
     `taillight report` with its directory recovers it\n";

/// Does `work` on a thread with a stack of its own, after what the module says of limits was set. None: `work`
/// panicked. Errors: `Unavailable` when no thread can be started.
pub fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<Option<T>> {
    // A file that becomes too large is an error of its write then, with a path and a hint.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let _ = sys::say_when(SIGABRT, ABORTED);
    warn_before_the_last_second();
    let thread = std::thread::Builder::new().name("main".into()).stack_size(STACK).spawn(work);
    let thread = thread.map_err(|e| {
        Error::unavailable("cannot start a thread")
            .source(e)
            .hint("raise the limits on processes and memory (ulimit -u, -v)")
    })?;
    Ok(thread.join().ok())
}

/// `ulimit -t` sets both limits on CPU time to the same: the kernel then kills without the warning,
/// SIGXCPU, which ends a run in order. The warning is set to a quarter of the time before the end, at least a second
/// and at most a minute: time to write what was measured. Limits of 1 s or less stay as they are.
fn warn_before_the_last_second() {
    let Rlimit { current, maximum } = getrlimit(Resource::Cpu);
    if let (Some(soft), Some(hard)) = (current, maximum)
        && soft >= hard
        && hard > 1
    {
        let current = Some(hard - (hard / 4).clamp(1, 60));
        let _ = setrlimit(Resource::Cpu, Rlimit { current, maximum });
    }
}
