//! What the machine did in the measure phase as figures for `summary.json`. Samples are means over an interval
//! and prove no cause.

use taillight_rundir::host::{HostInfo, HostTrack};
use taillight_rundir::summary::{HostMetric, HostSummary};

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
    use taillight_rundir::host::{HostRow, host_tracks, host_writer};
    use taillight_rundir::{RunDir, fixture};

    use super::*;

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
        let tracks = host_tracks(&dir, 10, 100).unwrap();
        assert_eq!(tracks.len(), 1);
        assert_eq!(tracks[0].points, [(10, 20, 30.0), (20, 30, 10.0)]);
        assert!(summary(None, &tracks).is_none());
        let summary = summary(Some(&HostInfo::default()), &tracks).unwrap();
        let one = &summary.metrics[0];
        assert_eq!((one.mean, one.min, one.max), (20.0, 10.0, 30.0));
        assert_eq!((one.unit.as_str(), one.item.as_deref()), ("%", Some("vda")));
    }
}
