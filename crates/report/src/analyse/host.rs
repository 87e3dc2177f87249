//! What the machine did in the measure phase: `host.parquet` as lines over time by source, thing and metric,
//! and as figures for `summary.json`. Samples are means over an interval and prove no cause.

use std::collections::BTreeMap;

use taillight_core::Result;
use taillight_rundir::host::{HostInfo, METRICS, Metric, read_host};
use taillight_rundir::summary::{HostMetric, HostSummary};
use taillight_rundir::{RunDir, names};

/// One metric of one thing over time.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTrack {
    pub metric: &'static Metric,
    /// Of what; none for the whole machine or process.
    pub item: Option<String>,
    /// Begin and end of each window, CLOCK_MONOTONIC ns, and the value; in order of time.
    pub points: Vec<(i64, i64, f64)>,
}

/// Lines of one run. Metrics this build does not know are left out. Errors: `Corrupt` when the file
/// is damaged.
pub fn tracks(dir: &RunDir, from_ns: i64, to_ns: i64) -> Result<Vec<HostTrack>> {
    let Some(path) = dir.existing(names::HOST) else {
        return Ok(Vec::new());
    };
    let mut all: BTreeMap<(usize, Option<String>), HostTrack> = BTreeMap::new();
    read_host(&path, &mut |rows| {
        for row in rows {
            // A window that only touches the measure phase is mostly something else.
            let middle = row.start_ns + (row.end_ns - row.start_ns) / 2;
            let same = |m: &Metric| m.source == &*row.source && m.name == &*row.metric;
            let Some(place) = METRICS.iter().position(same) else {
                continue;
            };
            if middle < from_ns || middle > to_ns {
                continue;
            }
            let item = row.item.map(String::from);
            let track = all.entry((place, item.clone())).or_insert_with(|| HostTrack {
                metric: &METRICS[place],
                item,
                points: Vec::new(),
            });
            track.points.push((row.start_ns, row.end_ns, row.value));
        }
        Ok(())
    })?;
    let mut tracks: Vec<HostTrack> = all.into_values().collect();
    for track in &mut tracks {
        track.points.sort_by_key(|p| p.0);
    }
    Ok(tracks)
}

/// For `summary.json`; none when the machine was not sampled.
pub fn summary(info: Option<&HostInfo>, tracks: &[HostTrack]) -> Option<HostSummary> {
    let info = info?.clone();
    let one = |t: &HostTrack| {
        let mut values = t.points.iter().map(|p| p.2);
        let first = values.next()?;
        let (min, max) = values.fold((first, first), |(lo, hi), v| (lo.min(v), hi.max(v)));
        // By length: a short last window counts for little.
        let weight = |p: &(i64, i64, f64)| (p.1 - p.0).max(1) as f64;
        let whole: f64 = t.points.iter().map(weight).sum();
        let sum: f64 = t.points.iter().map(|p| p.2 * weight(p)).sum();
        Some(HostMetric {
            source: t.metric.source.to_owned(),
            item: t.item.clone(),
            metric: t.metric.name.to_owned(),
            unit: t.metric.unit.to_owned(),
            mean: sum / whole,
            min,
            max,
        })
    };
    Some(HostSummary { info, metrics: tracks.iter().filter_map(one).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_rundir::fixture;
    use taillight_rundir::host::{HostRow, host_writer};

    fn row(start_ns: i64, metric: &str, value: f64) -> HostRow {
        HostRow {
            start_ns,
            end_ns: start_ns + 10,
            source: "disk".into(),
            item: Some("vda".into()),
            metric: metric.into(),
            value,
        }
    }

    #[test]
    fn lines_are_of_the_measure_phase_and_of_known_metrics() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("run"), &fixture::manifest("r")).unwrap();
        let rows = [
            row(0, "%util", 99.0),
            row(20, "%util", 10.0),
            row(10, "%util", 30.0),
            row(10, "of the future", 1.0),
        ];
        host_writer(&dir).write(rows).unwrap();
        let tracks = tracks(&dir, 10, 100).unwrap();
        assert_eq!(tracks.len(), 1);
        assert_eq!(tracks[0].points, [(10, 20, 30.0), (20, 30, 10.0)]);
        assert!(summary(None, &tracks).is_none());
        let summary = summary(Some(&HostInfo::default()), &tracks).unwrap();
        let one = &summary.metrics[0];
        assert_eq!((one.mean, one.min, one.max), (20.0, 10.0, 30.0));
        assert_eq!((one.unit.as_str(), one.item.as_deref()), ("%", Some("vda")));
    }
}
