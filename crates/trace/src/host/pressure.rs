//! Pressure stall information: the share of time in which tasks waited for a resource.

use taillight_machine::Sys;
use taillight_machine::pressure::Pressure;

use super::{CounterSource, SampleOutput};

const NAME: &str = "psi";

const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];

/// Metrics of each resource: of some tasks, of all.
const METRICS: [&str; 6] =
    ["cpu_some", "cpu_full", "io_some", "io_full", "memory_some", "memory_full"];

/// Total stall times of the resources, microseconds, in the order of [`METRICS`].
type StallTimes = [Option<u64>; 6];

fn read(sys: &Sys) -> Option<StallTimes> {
    let mut times = [None; 6];
    for (resource, pair) in RESOURCES.iter().zip(times.chunks_exact_mut(2)) {
        if let Some(Pressure { some, full }) = Pressure::read(sys, resource) {
            pair.copy_from_slice(&[some, full].map(|line| Some(line?.total_us)));
        }
    }
    times.iter().any(Option::is_some).then_some(times)
}

fn values(before: &StallTimes, now: &StallTimes, out: &mut SampleOutput) {
    for (name, (now, before)) in METRICS.iter().zip(now.iter().zip(before)) {
        if let Some(us) = now.zip(*before).and_then(|(n, b)| n.checked_sub(b)) {
            let share = us as f64 / 1e4 / out.seconds;
            out.put(NAME, name, None, share.min(100.0));
        }
    }
}

/// Pressure of the whole machine.
pub(crate) fn source() -> CounterSource<StallTimes> {
    let missing = "the kernel keeps no pressure information: boot it with psi=1, or build it with \
                   CONFIG_PSI";
    CounterSource::new(NAME, read, values, missing)
}

#[cfg(test)]
mod tests {
    use super::super::HostSource;
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
        let mut pressure = source();
        let values = two(&mut pressure, root, || {
            put(root, "proc/pressure/io", &text(2_500_000, 600_000));
        });
        assert_eq!(of(&values, "io_some"), Some(75.0));
        assert_eq!(of(&values, "io_full"), Some(5.0));
        assert_eq!(of(&values, "cpu_some"), Some(0.0));
        assert_eq!(of(&values, "cpu_full"), None, "older kernels lack it");
        assert_eq!(of(&values, "memory_some"), None);
        assert_eq!(pressure.missing(), None);
    }

    #[test]
    fn a_kernel_without_it_is_named() {
        let home = tempfile::tempdir().unwrap();
        let mut pressure = source();
        assert!(two(&mut pressure, home.path(), || ()).is_empty());
        assert!(pressure.missing().unwrap().contains("psi=1"));
    }
}
