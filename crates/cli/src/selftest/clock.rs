//! The monotonic clock of this machine: that it never goes back, also from one processor to another, and what it costs.

use taillight_core::{Clock, MonoClock};
use taillight_machine::Sys;
use taillight_trace::availability::clock;

use super::{SelfCost, SelftestCheck};

/// Readings on each of two threads, every one compared with the one before it, whichever thread took that.
const READINGS: u32 = 500_000;

/// One check, that no reading of a million was below the one before it, and the costs: source of the clock and time of
/// a reading; other costs stay unset.
pub fn check() -> (Vec<SelftestCheck>, SelfCost) {
    // The threads hand a stamp to each other, so that processors are compared, too.
    let last = std::sync::Mutex::new(MonoClock.now());
    let back = || {
        let one = |_| {
            let Ok(mut last) = last.lock() else { return false };
            let now = MonoClock.now();
            let back = now < *last;
            *last = now;
            back
        };
        (0..READINGS).map(one).map(u64::from).sum::<u64>()
    };
    let back: u64 = std::thread::scope(|s| {
        let threads = [s.spawn(back), s.spawn(back)];
        threads.into_iter().map(|t| t.join().unwrap_or(1)).sum()
    });
    let check = SelftestCheck::equal("steps back in a million readings", 0, back);
    let cost = SelfCost {
        clock: clock::source(&Sys::default()),
        clock_ns: clock::cost_ns(),
        ..SelfCost::default()
    };
    (vec![SelftestCheck { run: "clock".to_owned(), ..check }], cost)
}
