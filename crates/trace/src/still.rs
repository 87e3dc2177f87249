//! Whether the whole program stood still: a thread that sleeps for a moment and is late, without
//! having waited for a CPU, was kept from running together with all others.
//!
//! What it is: a sign seen from within, for rungs that see no stacks. What it is not: a proof of
//! who did it; a signal, a freezer and a machine that stood still look the same from here.

use std::time::Duration;

use taillight_core::{Clock, MonoClock};
use taillight_rundir::layers::{Kind, LayerRow};

use crate::Sys;
use crate::perf::{Reading, Schedstat};

/// Less is the usual lateness of a busy machine, ns.
const LATE_NS: u64 = 50_000_000;

/// Watches the thread that made it.
pub struct Still {
    schedstat: Option<Schedstat>,
    before: Option<Reading>,
}

impl Still {
    /// For the calling thread.
    pub fn new(sys: &Sys) -> Still {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let schedstat = Schedstat::open(sys, tid);
        let before = schedstat.as_ref().and_then(Schedstat::read);
        Still { schedstat, before }
    }

    /// Sleeps; an event when it came back much too late and not for want of a CPU.
    pub fn sleep(&mut self, pause: Duration) -> Option<LayerRow> {
        let from = MonoClock.now().0;
        std::thread::sleep(pause);
        let to = MonoClock.now().0;
        let due = from.saturating_add_unsigned(pause.as_nanos() as u64);
        self.judge(due, to)
    }

    fn judge(&mut self, due: i64, to: i64) -> Option<LayerRow> {
        let now = self.schedstat.as_ref()?.read();
        let before = std::mem::replace(&mut self.before, now)?;
        let waited = now?.waited.saturating_sub(before.waited);
        let late = (to - due).max(0) as u64;
        (late >= LATE_NS && waited < late / 4).then(|| LayerRow {
            kind: Kind::Still,
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
        let file = home
            .path()
            .join(format!("proc/self/task/{}", tid.as_raw_nonzero()));
        std::fs::create_dir_all(&file).unwrap();
        let file = file.join("schedstat");
        let set = |waited: u64| std::fs::write(&file, format!("1 {waited:020} 1\n")).unwrap();
        set(0);
        let mut still = Still::new(&Sys::at(home.path()));
        let row = still.judge(1000, 500_001_000).unwrap();
        assert_eq!(
            (row.kind, row.start_ns, row.end_ns),
            (Kind::Still, 1000, 500_001_000)
        );
        set(490_000_000);
        assert!(still.judge(0, 500_000_000).is_none());
        let nothing = Sys::at(home.path().join("nowhere"));
        assert!(Still::new(&nothing).judge(0, 500_000_000).is_none());
    }
}
