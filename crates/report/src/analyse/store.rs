//! The target's own statistics over the measure phase: tracks for charts, figures for the summary.
//!
//! Counters (`..._total`) count from the opening of the target: what matters is how much they rose.

use std::collections::BTreeMap;

use taillight_rundir::store::StoreRow;
use taillight_rundir::summary::StoreFigure;

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreTrack {
    /// Its name, with the unit.
    pub series: String,
    /// When (CLOCK_MONOTONIC ns) and what, in order of time.
    pub points: Vec<(i64, f64)>,
}

impl StoreTrack {
    /// Whether it counts from the opening of the target.
    pub fn counts(&self) -> bool {
        self.series.ends_with("_total")
    }
    /// The points on the time axis of the charts.
    pub fn seconds(&self, start_ns: i64) -> Vec<(f64, f64)> {
        let on = |(at, value): &(i64, f64)| (at.saturating_sub(start_ns) as f64 / 1e9, *value);
        self.points.iter().map(on).collect()
    }
}

/// So soon after the start a sample is still the one at the start, ns.
const AT_START_NS: i64 = 20_000_000;

/// The series of the samples that tell of `start..=end`: from the one nearest to the start (at most 20 ms after it),
/// where counters begin, to the first at the end or after.
pub fn tracks(rows: &[StoreRow], start_ns: i64, end_ns: i64) -> Vec<StoreTrack> {
    let mut tracks: Vec<StoreTrack> = Vec::new();
    let times = || rows.iter().map(|r| r.at_ns);
    let early = times().filter(|at| *at <= start_ns.saturating_add(AT_START_NS));
    let first = early.min_by_key(|at| at.abs_diff(start_ns)).or(times().min());
    let first = first.unwrap_or(i64::MIN);
    // The last sample is taken when the workers have ended, a moment after the last completion.
    let after = rows.iter().map(|r| r.at_ns).filter(|at| *at >= end_ns);
    let last = after.min().unwrap_or(i64::MAX);
    for row in rows.iter().filter(|r| (first..=last).contains(&r.at_ns)) {
        let point = (row.at_ns, row.value);
        match tracks.iter_mut().find(|t| *t.series == *row.series) {
            Some(track) => track.points.push(point),
            None => tracks.push(StoreTrack { series: row.series.to_string(), points: vec![point] }),
        }
    }
    tracks
}

/// Figures for `summary.json`.
pub fn summary(tracks: &[StoreTrack]) -> BTreeMap<String, StoreFigure> {
    let all = tracks.iter();
    all.map(|t| (t.series.clone(), figure(t))).collect()
}

fn figure(track: &StoreTrack) -> StoreFigure {
    let values = || track.points.iter().map(|(_, v)| *v);
    let (first, last) = (values().next(), values().next_back());
    if track.counts() {
        return StoreFigure {
            rise: first.zip(last).map(|(a, b)| (b - a).max(0.0)),
            ..StoreFigure::default()
        };
    }
    let count = track.points.len().max(1) as f64;
    StoreFigure {
        rise: None,
        min: values().min_by(f64::total_cmp),
        mean: first.map(|_| values().sum::<f64>() / count),
        max: values().max_by(f64::total_cmp),
        last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: &[(i64, &str, f64)]) -> Vec<StoreRow> {
        let row = |(at_ns, series, value): &(i64, &str, f64)| StoreRow {
            at_ns: *at_ns,
            series: (*series).into(),
            value: *value,
        };
        of.iter().map(row).collect()
    }

    #[test]
    fn counters_rise_from_the_sample_nearest_to_the_start() {
        let rows = rows(&[
            (0, "a_total", 1.0),
            (10, "a_total", 5.0),
            (20, "a_total", 6.0),
            (31, "a_total", 9.0),
            (40, "a_total", 99.0),
        ]);
        let tracks = tracks(&rows, 15, 30);
        assert_eq!(tracks[0].points, [(10, 5.0), (20, 6.0), (31, 9.0)]);
        assert_eq!(summary(&tracks)["a_total"].rise, Some(4.0));
        assert_eq!(tracks[0].seconds(15)[0].0, -5e-9);
        // A later one would leave out what was counted before it.
        assert_eq!(super::tracks(&rows, 19 - AT_START_NS, 30)[0].points[0], (0, 1.0));
        // One that came a moment late says more than the one before it, of the warm-up.
        assert_eq!(super::tracks(&rows, 19, 30)[0].points[0], (20, 6.0));
    }

    #[test]
    fn levels_have_a_range() {
        let rows = rows(&[(0, "files", 2.0), (1, "files", 6.0), (2, "files", 4.0)]);
        let figure = summary(&tracks(&rows, 0, 2))["files"];
        let StoreFigure { min, mean, max, last, rise } = figure;
        assert_eq!((min, mean, max), (Some(2.0), Some(4.0), Some(6.0)));
        assert_eq!((last, rise), (Some(4.0), None));
        assert!(summary(&[]).is_empty());
    }
}
