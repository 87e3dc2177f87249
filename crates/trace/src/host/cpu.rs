//! `/proc/stat`: where CPU time went, interrupts, context switches.

use super::{Out, Source, numbers, window};
use crate::Sys;

const NAME: &str = "cpu";

/// One reading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    /// user nice system idle iowait irq softirq steal, clock ticks of all CPUs.
    all: Vec<u64>,
    /// Busy and whole time of each CPU, by its line.
    each: Vec<(u64, u64)>,
    interrupts: Option<u64>,
    switches: Option<u64>,
    blocked: Option<u64>,
}

/// Reads the text of `/proc/stat`.
pub(crate) fn parse(text: &str) -> Option<Stat> {
    let all: Vec<u64> = numbers(text, "cpu")?.into_iter().take(8).collect();
    let one = |line: &str| {
        let rest = line.strip_prefix("cpu")?;
        rest.starts_with(|c: char| c.is_ascii_digit())
            .then_some(())?;
        let words = rest.split_whitespace().skip(1).take(8);
        let n: Vec<u64> = words.map_while(|w| w.parse().ok()).collect();
        let whole: u64 = n.iter().sum();
        let idle = n.get(3)? + n.get(4).unwrap_or(&0);
        Some((whole - idle, whole))
    };
    let first = |key| numbers(text, key)?.first().copied();
    (all.len() >= 4).then(|| Stat {
        all,
        each: text.lines().filter_map(one).collect(),
        interrupts: first("intr"),
        switches: first("ctxt"),
        blocked: first("procs_blocked"),
    })
}

fn values(before: &Stat, now: &Stat, out: &mut Out) {
    let pairs = || now.all.iter().zip(&before.all);
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

/// The CPUs of the machine.
#[derive(Debug, Default)]
pub(crate) struct Cpu {
    before: Option<Stat>,
}

impl Source for Cpu {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, sys: &Sys, out: Option<&mut Out>) {
        let now = sys.text("/proc/stat").and_then(|t| parse(&t));
        window(&mut self.before, now, out, values);
    }

    fn missing(&self) -> Option<String> {
        let known = self.before.is_some();
        (!known).then(|| "/proc/stat cannot be read".to_owned())
    }
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
        let values = two(&mut Cpu::default(), root, || put(root, "proc/stat", AFTER));
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

    #[test]
    fn nonsense_is_no_reading() {
        assert_eq!(parse("cpu 1 2\n"), None);
        assert_eq!(parse(""), None);
    }
}
