//! Whether the whole program stood still: a thread that sleeps for a moment and is late, without
//! having waited for a CPU, was kept from running together with all others. A sign seen from within, for
//! backends that see no stacks: a signal, a freezer and a machine that stood still look the same from here.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use taillight_core::{Clock, Error, MonoClock, Result};
use taillight_machine::Sys;
use taillight_rundir::layers::{LayerKind, LayerRow};

use crate::perf::{Schedstat, SchedstatReading};

/// How long the thread sleeps at a time.
const PAUSE: Duration = Duration::from_millis(20);
/// Readings of the counters before one is given up.
const READINGS: u32 = 16;
/// Less is the usual lateness of a busy machine, ns.
const LATE_NS: u64 = 50_000_000;

/// A thread that does nothing but sleep. One with work to do would be blind to whatever stops it in
/// the midst of that.
pub struct StandstillWatch {
    seen: Receiver<LayerRow>,
    over: Sender<()>,
    thread: JoinHandle<()>,
}

impl StandstillWatch {
    /// Begins to watch. Errors: `Unavailable` when there can be no thread.
    pub fn start(sys: &Sys) -> Result<StandstillWatch> {
        let sys = sys.clone();
        let (events, seen) = channel();
        let (over, ended) = channel::<()>();
        let thread = std::thread::Builder::new()
            .name("still".to_owned())
            .spawn(move || {
                let mut still = StandstillCheck::new(&sys);
                let mut last = MonoClock.now().0;
                loop {
                    let ended = ended.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout);
                    let now = MonoClock.now().0;
                    // From one look at the clock to the next: nothing falls between two sleeps.
                    let due = last + PAUSE.as_nanos() as i64;
                    last = now;
                    if let Some(row) = still.judge(due, now) {
                        // Nobody listens any more: the run is over.
                        let _ = events.send(row);
                    }
                    if ended {
                        return;
                    }
                }
            })
            .map_err(|e| Error::unavailable("cannot start a thread").source(e))?;
        Ok(StandstillWatch { seen, over, thread })
    }

    /// What was seen since the last time.
    pub fn seen(&self) -> impl Iterator<Item = LayerRow> + '_ {
        self.seen.try_iter()
    }

    /// Ends it; what was seen since the last time.
    pub fn end(self) -> Vec<LayerRow> {
        drop(self.over);
        // It cannot panic; if it did, what it had seen is still to be had.
        let _ = self.thread.join();
        self.seen.try_iter().collect()
    }
}

/// Watches the thread that made it.
struct StandstillCheck {
    schedstat: Option<Schedstat>,
    before: Option<SchedstatReading>,
}

impl StandstillCheck {
    /// For the calling thread.
    fn new(sys: &Sys) -> StandstillCheck {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let schedstat = Schedstat::open(sys, tid);
        // Nothing is late yet: this takes the first reading.
        let mut still = StandstillCheck { schedstat, before: None };
        still.judge(0, 0);
        still
    }

    /// After a sleep that was due to end and has ended: an event when that was much too late and not
    /// for want of a CPU.
    fn judge(&mut self, due: i64, to: i64) -> Option<LayerRow> {
        // One that changed while it was read is read again: a thread that has just got its CPU is
        // easily put off it.
        let schedstat = self.schedstat.as_ref()?;
        let now = (0..READINGS).find_map(|_| schedstat.read())?;
        let before = self.before.replace(now)?;
        let waited = now.waited.saturating_sub(before.waited);
        let late = (to - due).max(0) as u64;
        (late >= LATE_NS && waited < late / 4).then(|| LayerRow {
            kind: LayerKind::Still,
            start_ns: due,
            end_ns: to,
            blocked_ns: Some(late - waited),
            waited_ns: Some(waited),
            ..LayerRow::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_for_want_of_a_cpu_is_no_standstill() {
        let home = tempfile::tempdir().unwrap();
        let tid = rustix::thread::gettid();
        let file = home.path().join(format!("proc/self/task/{}", tid.as_raw_nonzero()));
        std::fs::create_dir_all(&file).unwrap();
        let file = file.join("schedstat");
        let set = |waited: u64| std::fs::write(&file, format!("1 {waited:020} 1\n")).unwrap();
        set(0);
        let mut still = StandstillCheck::new(&Sys::at(home.path()));
        let row = still.judge(1000, 500_001_000).unwrap();
        assert_eq!((row.kind, row.start_ns, row.end_ns), (LayerKind::Still, 1000, 500_001_000));
        set(490_000_000);
        assert!(still.judge(0, 500_000_000).is_none());
        // A reading that cannot be had does not hide what comes after it.
        std::fs::write(&file, "half a li").unwrap();
        assert!(still.judge(0, 0).is_none());
        set(490_000_000);
        assert!(still.judge(0, 500_000_000).is_some());
        let nothing = Sys::at(home.path().join("nowhere"));
        assert!(StandstillCheck::new(&nothing).judge(0, 500_000_000).is_none());
    }
}
