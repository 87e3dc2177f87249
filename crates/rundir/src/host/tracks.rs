//! Gives `host.parquet` as lines over time by source, thing and metric.

use std::collections::BTreeMap;

use taillight_core::Result;

use super::{METRICS, Metric, read_host};
use crate::{RunDir, names};

/// One metric of one thing over time.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTrack {
    pub metric: &'static Metric,
    /// Of what; none for the whole machine or process.
    pub item: Option<String>,
    /// Begin and end of each window, CLOCK_MONOTONIC ns, and the value; in order of time.
    pub points: Vec<(i64, i64, f64)>,
}

/// Lines of one run: the windows whose middle lies in `from_ns..=to_ns`; empty without `host.parquet`. Metrics this
/// build does not know are left out. Errors: `Corrupt` when the file is damaged.
pub fn host_tracks(dir: &RunDir, from_ns: i64, to_ns: i64) -> Result<Vec<HostTrack>> {
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
