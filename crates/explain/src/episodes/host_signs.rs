//! What the samples of the machine say around an episode (stolen CPU, reclaim, spent quotas), as one line
//! of circumstances for the reader. No verdict rests on it: a sample is a mean over an interval that is
//! mostly longer than the episode.

use taillight_core::units::readable;
use taillight_rundir::host::HostTrack;

/// A metric that is worth a word when it stands out.
#[derive(Debug)]
struct Sign {
    source: &'static str,
    metric: &'static str,
    words: &'static str,
    /// Less than this is never said.
    floor: f64,
    /// So many times its usual value (the median of the run's samples) at least.
    times: f64,
}

const fn sign(source: &'static str, metric: &'static str, words: &'static str) -> Sign {
    Sign { source, metric, words, floor: 5.0, times: 2.0 }
}

/// Most telling first. What takes CPUs away is said also when it does so all the time.
static SIGNS: [Sign; 8] = [
    Sign { times: 0.0, ..sign("cpu", "%steal", "CPU time stolen by the hypervisor") },
    Sign { floor: 10.0, times: 0.0, ..sign("cgroup_cpu", "throttled", "without CPU quota") },
    sign("cpu", "%soft", "CPU time in soft interrupts"),
    sign("cpu", "%irq", "CPU time in interrupts"),
    Sign { floor: 20.0, ..sign("psi", "cpu_some", "some task waiting for a CPU") },
    sign("psi", "memory_some", "some task waiting for memory"),
    Sign { floor: 1.0, ..sign("memory", "allocstall/s", "tasks making room in memory themselves") },
    Sign { floor: 1.0, ..sign("memory", "pgmajfault/s", "page faults read from storage") },
];

/// Samples of a run that may be worth a word, in the order of [`SIGNS`].
#[derive(Debug, Default)]
pub struct HostSigns<'a>(Vec<Watched<'a>>);

/// One metric of one thing.
#[derive(Debug)]
struct Watched<'a> {
    sign: &'static Sign,
    track: &'a HostTrack,
    /// The median over the run.
    usual: f64,
}

impl<'a> HostSigns<'a> {
    /// Those of the run's samples that can be a sign.
    pub fn watching(tracks: &'a [HostTrack]) -> HostSigns<'a> {
        let place = |t: &HostTrack| {
            let same = |s: &Sign| s.source == t.metric.source && s.metric == t.metric.name;
            SIGNS.iter().position(same)
        };
        let known = tracks.iter().filter_map(|t| Some((place(t)?, t)));
        let mut known: Vec<(usize, &HostTrack)> = known.collect();
        known.sort_by_key(|(place, _)| *place);
        let watched = known.into_iter().map(|(place, track)| Watched {
            sign: &SIGNS[place],
            usual: median(track),
            track,
        });
        HostSigns(watched.collect())
    }

    /// What stands out in the samples that touch a window of time, CLOCK_MONOTONIC ns.
    pub fn words(&self, from: i64, to: i64) -> Option<String> {
        let mut length = 0;
        let mut said = Vec::new();
        for Watched { sign, track, usual } in &self.0 {
            let first = track.points.partition_point(|p| p.1 <= from);
            let touching = track.points[first..].iter().take_while(|p| p.0 < to);
            let Some(most) = touching.max_by(|a, b| a.2.total_cmp(&b.2)) else {
                continue;
            };
            if most.2 >= sign.floor && most.2 >= usual * sign.times {
                length = length.max(most.1 - most.0);
                said.push(format!(
                    "{} {} (usually {})",
                    sign.words,
                    value(most.2, track.metric.unit),
                    value(*usual, track.metric.unit)
                ));
            }
        }
        let span = readable::duration_ns(length.max(0) as u64);
        let text = || format!("samples of {span} around it: {}", said.join(", "));
        (!said.is_empty()).then(text)
    }
}

fn median(track: &HostTrack) -> f64 {
    let mut values: Vec<f64> = track.points.iter().map(|p| p.2).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A rough number is enough: the words around it say how much it stands out.
fn value(value: f64, unit: &str) -> String {
    let number = match value {
        v if v < 10.0 => readable::trimmed(&format!("{v:.1}")),
        v => readable::count(v.round() as u64),
    };
    match unit {
        "1/s" => format!("{number}/s"),
        unit => format!("{number} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use taillight_rundir::host::metric;

    use super::*;

    const S: i64 = 1_000_000_000;

    fn track(source: &str, name: &str, values: &[f64]) -> HostTrack {
        let point = |(i, v): (usize, &f64)| (i as i64 * S, (i as i64 + 1) * S, *v);
        HostTrack {
            metric: metric(source, name).unwrap(),
            item: None,
            points: values.iter().enumerate().map(point).collect(),
        }
    }

    #[test]
    fn only_what_stands_out_in_the_window_is_said() {
        let tracks = [
            track("cpu", "%steal", &[1.0, 2.0, 40.0, 2.0, 1.0]),
            track("psi", "cpu_some", &[80.0, 80.0, 85.0, 80.0, 80.0]),
            track("memory", "allocstall/s", &[0.0, 0.0, 12.0, 0.0, 0.0]),
        ];
        let around = HostSigns::watching(&tracks);
        let said = around.words(2 * S + 100, 2 * S + 200).unwrap();
        assert_eq!(
            said,
            "samples of 1.00 s around it: CPU time stolen by the hypervisor 40 % (usually 2 %), \
             tasks making room in memory themselves 12/s (usually 0/s)"
        );
        assert_eq!(around.words(3 * S + 1, 4 * S - 1), None, "a calm second");
        assert!(around.words(3 * S - 1, 3 * S + 1).is_some(), "both touched");
        assert_eq!(HostSigns::default().words(0, S), None);
    }

    #[test]
    fn stolen_time_is_said_also_when_it_is_usual() {
        let tracks = [track("cpu", "%steal", &[30.0, 31.0, 29.0])];
        let around = HostSigns::watching(&tracks);
        assert!(around.words(0, 10).unwrap().contains("30 % (usually 30 %)"));
    }
}
