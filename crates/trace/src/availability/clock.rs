//! The clock behind every stamp: its kernel source and what reading it costs.

use taillight_core::{Clock, MonoClock};
use taillight_machine::Sys;

const SOURCES: &str = "/sys/devices/system/clocksource/clocksource0";

/// The kernel's clock source, like `tsc`.
pub fn source(sys: &Sys) -> Option<String> {
    sys.text(&format!("{SOURCES}/current_clocksource"))
}

/// Every source the kernel could use.
pub fn available(sys: &Sys) -> Vec<String> {
    sys.text(&format!("{SOURCES}/available_clocksource"))
        .unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

/// Nanoseconds per reading: the best of a few short rounds, as disturbance only adds.
pub fn cost_ns() -> f64 {
    const ROUNDS: u32 = 5;
    const READS: u32 = 20_000;
    let round = || {
        let start = MonoClock.now();
        for _ in 1..READS {
            std::hint::black_box(MonoClock.now());
        }
        MonoClock.now().since(start) as f64 / f64::from(READS)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_reading_costs_something() {
        let ns = super::cost_ns();
        assert!(ns > 0.0 && ns < 100_000.0, "{ns}");
    }
}
