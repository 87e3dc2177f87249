//! Pressure stall information: the share of time in which tasks waited for a resource.

use super::{Out, Source, window};
use crate::Sys;

const NAME: &str = "psi";

/// File, line, metric.
const LINES: [(&str, &str, &str); 6] = [
    ("cpu", "some", "cpu_some"),
    ("cpu", "full", "cpu_full"),
    ("io", "some", "io_some"),
    ("io", "full", "io_full"),
    ("memory", "some", "memory_some"),
    ("memory", "full", "memory_full"),
];

/// `total=` of a line, microseconds.
pub(crate) fn total(text: &str, line: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|l| l.split_once(' '));
    let rest = lines.find(|(name, _)| *name == line)?.1;
    let mut words = rest.split_whitespace();
    words.find_map(|w| w.strip_prefix("total="))?.parse().ok()
}

/// Pressure of the whole machine.
#[derive(Debug, Default)]
pub(crate) struct Psi {
    before: Option<[Option<u64>; 6]>,
    missing: Option<String>,
}

impl Source for Psi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, sys: &Sys, out: Option<&mut Out>) {
        let texts = ["cpu", "io", "memory"].map(|f| sys.text(&format!("/proc/pressure/{f}")));
        let now = LINES.map(|(file, line, _)| {
            let i = ["cpu", "io", "memory"].iter().position(|f| *f == file)?;
            total(texts[i].as_ref()?, line)
        });
        if now.iter().all(Option::is_none) {
            self.missing = Some(
                "the kernel keeps no pressure information: boot it with psi=1, or build it with \
                 CONFIG_PSI"
                    .to_owned(),
            );
        }
        window(&mut self.before, Some(now), out, |before, now, out| {
            for ((_, _, name), (now, before)) in LINES.iter().zip(now.iter().zip(before)) {
                if let Some(us) = now.zip(*before).and_then(|(n, b)| n.checked_sub(b)) {
                    let share = us as f64 / 1e4 / out.seconds;
                    out.put(NAME, name, None, share.min(100.0));
                }
            }
        });
    }

    fn missing(&self) -> Option<String> {
        self.missing.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{of, put, two};
    use super::*;

    fn text(some: u64, full: u64) -> String {
        format!(
            "some avg10=0.00 avg60=1.00 avg300=0.50 total={some}\nfull avg10=0.00 total={full}\n"
        )
    }

    #[test]
    fn totals_become_shares_of_the_window() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        put(root, "proc/pressure/io", &text(1_000_000, 500_000));
        put(root, "proc/pressure/cpu", "some avg10=0.00 total=5\n");
        let mut psi = Psi::default();
        let values = two(&mut psi, root, || {
            put(root, "proc/pressure/io", &text(2_500_000, 600_000));
        });
        assert_eq!(of(&values, "io_some"), Some(75.0));
        assert_eq!(of(&values, "io_full"), Some(5.0));
        assert_eq!(of(&values, "cpu_some"), Some(0.0));
        assert_eq!(of(&values, "cpu_full"), None, "older kernels lack it");
        assert_eq!(of(&values, "memory_some"), None);
        assert_eq!(psi.missing(), None);
    }

    #[test]
    fn a_kernel_without_it_is_named() {
        let home = tempfile::tempdir().unwrap();
        let mut psi = Psi::default();
        assert!(two(&mut psi, home.path(), || ()).is_empty());
        assert!(psi.missing().unwrap().contains("psi=1"));
    }
}
