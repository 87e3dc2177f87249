//! `/proc/stat`: where the time of all CPUs went, how busy the busiest one was, interrupts, context switches, and tasks
//! that wait for I/O.

use taillight_machine::cpu::KernelStat;

use super::{CounterSource, SampleOutput};

const NAME: &str = "cpu";

/// Puts shares of the time of all CPUs in per cent (`%user` with nice), the busy share of the busiest CPU, rates of
/// interrupts and context switches, and how many tasks wait for I/O now. Without a tick between the readings there are
/// no shares; where a CPU came or went, no `%busiest`.
fn values(before: &KernelStat, now: &KernelStat, out: &mut SampleOutput) {
    let pairs = || now.ticks.iter().zip(&before.ticks);
    // iowait may go back a little.
    let part: Vec<f64> = pairs().map(|(n, b)| n.saturating_sub(*b) as f64).collect();
    let whole: f64 = part.iter().sum();
    if whole > 0.0 {
        let share = |i: usize| part.get(i).map(|v| 100.0 * v / whole);
        let user = share(0).zip(share(1)).map(|(a, b)| a + b);
        let named = [
            ("%user", user),
            ("%system", share(2)),
            ("%iowait", share(4)),
            ("%irq", share(5)),
            ("%soft", share(6)),
            ("%steal", share(7)),
            ("%idle", share(3)),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                out.put(NAME, name, None, value);
            }
        }
    }
    // A CPU that came or went would shift the lines.
    if now.each.len() == before.each.len() {
        let busy = now.each.iter().zip(&before.each).filter_map(|(n, b)| {
            let whole = n.1.checked_sub(b.1).filter(|w| *w > 0)?;
            Some(100.0 * n.0.saturating_sub(b.0) as f64 / whole as f64)
        });
        if let Some(busiest) = busy.reduce(f64::max) {
            out.put(NAME, "%busiest", None, busiest.min(100.0));
        }
    }
    let count = |n: Option<u64>, b: Option<u64>| Some(n?.checked_sub(b?)? as f64);
    if let Some(n) = count(now.interrupts, before.interrupts) {
        out.rate(NAME, "intr/s", None, n);
    }
    if let Some(n) = count(now.switches, before.switches) {
        out.rate(NAME, "cswch/s", None, n);
    }
    if let Some(n) = now.blocked {
        out.put(NAME, "blocked", None, n as f64);
    }
}

/// The source `cpu`: the CPUs of the machine.
pub(crate) fn source() -> CounterSource<KernelStat> {
    CounterSource::new(NAME, KernelStat::read, values, "/proc/stat cannot be read")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{of, put, two};
    use super::*;

    const BEFORE: &str = "cpu  100 10 50 800 20 3 7 10 5 0\ncpu0 50 5 25 400 10 1 4 5 0 0\n\
        cpu1 50 5 25 400 10 2 3 5 0 0\nintr 1000 1 2 3\nctxt 5000\nprocs_running 2\nprocs_blocked 1\n";
    const AFTER: &str = "cpu  150 20 80 850 40 8 17 35 9 0\ncpu0 130 15 55 400 10 6 14 20 0 0\n\
        cpu1 20 5 25 450 30 2 3 15 0 0\nintr 3000 1 2 3\nctxt 9000\nprocs_running 2\nprocs_blocked 4\n";

    #[test]
    fn shares_are_of_all_time_and_the_busiest_cpu_is_seen() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        put(root, "proc/stat", BEFORE);
        let values = two(&mut source(), root, || put(root, "proc/stat", AFTER));
        let v = |name| of(&values, name);
        assert_eq!(v("%user"), Some(30.0));
        assert_eq!(v("%system"), Some(15.0));
        assert_eq!(v("%idle"), Some(25.0));
        assert_eq!(v("%iowait"), Some(10.0));
        assert_eq!((v("%irq"), v("%soft")), (Some(2.5), Some(5.0)));
        assert_eq!(v("%steal"), Some(12.5));
        assert_eq!(v("%busiest"), Some(100.0));
        assert_eq!((v("intr/s"), v("cswch/s")), (Some(1000.0), Some(2000.0)));
        assert_eq!(v("blocked"), Some(4.0));
    }
}
