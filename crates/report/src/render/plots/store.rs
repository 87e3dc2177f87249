//! The target's own statistics over time: small pictures on the time axis of the latency.

use plotly::layout::{Shape, ShapeLayer, ShapeLine, ShapeType};
use plotly::{Plot, Scatter};

use super::figure::{AxisKind, Chart, ChartFigure};
use super::look::escape;
use super::style;
use crate::model::charts::{ChartModel, RunCharts};
use crate::model::store::HITS;
use crate::render::palette;

/// How the samples of a series become a line.
#[derive(Clone, Copy, PartialEq)]
enum SampleUse {
    /// As they are, times a factor.
    Level(f64),
    /// How fast a counter rises a second, times a factor.
    Rate(f64),
}

/// One line: series, words, how.
type Entry = (&'static str, &'static str, SampleUse);

/// One picture.
struct StorePanel {
    title: &'static str,
    axis: &'static str,
    kind: AxisKind,
    entries: &'static [Entry],
}

use SampleUse::{Level, Rate};

pub const CHART: Chart = Chart {
    id: "store-time",
    title: "The store over time",
    read: "What the store says of itself, sampled once an interval, on the time axis of the \
           latency above: writes held back (of a single run also as the shaded ground of its \
           latency), compaction, caches. It shows what happened at the same time; the store's \
           words, not a cause.",
    draw,
};

const PANELS: [StorePanel; 8] = [
    StorePanel {
        title: "Writes held back",
        axis: "% of the time",
        kind: AxisKind::Percent,
        entries: &[
            // Nanoseconds a second, in per cent.
            ("stall_ns_total", "slowed down or stopped", Rate(1e-7)),
            ("writes_stopped", "stopped when sampled", Level(100.0)),
            ("lock_wait_ns_total", "waiting for a lock, all workers together", Rate(1e-7)),
        ],
    },
    StorePanel {
        title: "Compaction and flush",
        axis: "bytes/s",
        kind: AxisKind::Bytes,
        entries: &[
            ("compaction_written_bytes_total", "compaction writes", Rate(1.0)),
            ("compaction_read_bytes_total", "compaction reads", Rate(1.0)),
            ("flush_written_bytes_total", "flush writes", Rate(1.0)),
            ("wal_bytes_total", "log", Rate(1.0)),
        ],
    },
    StorePanel {
        title: "Work put off",
        axis: "count",
        kind: AxisKind::Number,
        entries: &[
            ("level0_files", "level-0 files", Level(1.0)),
            ("immutable_memtables", "memtables to flush", Level(1.0)),
            ("snapshots", "snapshots held", Level(1.0)),
            ("running_compactions", "running compactions", Level(1.0)),
            ("running_flushes", "running flushes", Level(1.0)),
        ],
    },
    StorePanel {
        title: "Pending compaction and memory",
        axis: "bytes",
        kind: AxisKind::Size,
        entries: &[
            ("pending_compaction_bytes", "pending compaction", Level(1.0)),
            ("memtable_bytes", "memtables", Level(1.0)),
            ("block_cache_bytes", "block cache", Level(1.0)),
            ("memory_bytes", "memory", Level(1.0)),
            ("log_bytes", "log to check in", Level(1.0)),
        ],
    },
    StorePanel {
        title: "Amplification since the store was opened",
        axis: "times",
        kind: AxisKind::Number,
        entries: &[
            ("write_amplification", "write", Level(1.0)),
            ("space_amplification", "space, as RocksDB estimates", Level(1.0)),
        ],
    },
    StorePanel {
        title: "Events",
        axis: "per second",
        kind: AxisKind::Number,
        entries: &[
            ("wal_syncs_total", "log syncs", Rate(1.0)),
            ("deadlocks_total", "deadlocks", Rate(1.0)),
            ("busy_total", "locks that were busy", Rate(1.0)),
            ("evicted_keys_total", "evicted keys", Rate(1.0)),
            ("expired_keys_total", "expired keys", Rate(1.0)),
            ("s3_connections_total", "connections made", Rate(1.0)),
            ("s3_timeouts_total", "time-outs", Rate(1.0)),
            ("s3_broken_total", "broken connections", Rate(1.0)),
            ("background_errors_total", "background errors", Rate(1.0)),
        ],
    },
    StorePanel {
        title: "Checkpoints",
        axis: "% of the time",
        kind: AxisKind::Percent,
        entries: &[
            // Nanoseconds a second, in per cent.
            ("checkpoint_write_ns_total", "writing", Rate(1e-7)),
            ("checkpoint_sync_ns_total", "syncing", Rate(1e-7)),
        ],
    },
    StorePanel {
        title: "Vacuum and checkpoints",
        axis: "count",
        kind: AxisKind::Number,
        entries: &[
            ("running_vacuums", "running vacuums", Level(1.0)),
            ("checkpoints_total", "checkpoints a second", Rate(1.0)),
        ],
    },
];

/// A picture per panel that has something to show, and one of the shares of hits.
fn draw(overlay: &ChartModel) -> Vec<ChartFigure> {
    let mut figures: Vec<ChartFigure> = PANELS
        .iter()
        .enumerate()
        .filter_map(|(nth, panel)| panel_figure(overlay, nth, panel))
        .collect();
    figures.extend(hits(overlay));
    figures
}

fn panel_figure(overlay: &ChartModel, nth: usize, panel: &StorePanel) -> Option<ChartFigure> {
    let mut lines = Vec::new();
    for (run, data) in overlay.runs.iter().enumerate() {
        for (place, (series, words, how)) in panel.entries.iter().enumerate() {
            let points = points(data, series, *how);
            // A counter that never moved says nothing here.
            let idle = *how != Level(1.0) && points.iter().all(|(_, v)| *v == 0.0);
            let shown = !idle || panel.kind != AxisKind::Number;
            if shown && !points.is_empty() {
                lines.push((run, place, *words, points));
            }
        }
    }
    figure(overlay, &format!("store-{nth}"), (panel.title, panel.axis), panel.kind, &lines)
}

/// Shares of lookups that the store answered from its cache.
fn hits(overlay: &ChartModel) -> Option<ChartFigure> {
    let mut lines = Vec::new();
    for (run, data) in overlay.runs.iter().enumerate() {
        for (place, (words, hits, misses)) in HITS.iter().enumerate() {
            let (hits, misses) = (points(data, hits, Rate(1.0)), points(data, misses, Rate(1.0)));
            let shares: Vec<(f64, f64)> = hits
                .iter()
                .zip(&misses)
                .filter(|(hit, miss)| hit.1 + miss.1 > 0.0)
                .map(|(hit, miss)| (hit.0, 100.0 * hit.1 / (hit.1 + miss.1)))
                .collect();
            if !shares.is_empty() {
                lines.push((run, place, *words, shares));
            }
        }
    }
    let words = ("Lookups that hit", "%");
    figure(overlay, "store-hits", words, AxisKind::Percent, &lines)
}

/// A line: run, place among the entries, words, points.
type StoreLine = (usize, usize, &'static str, Vec<(f64, f64)>);

fn figure(
    overlay: &ChartModel,
    id: &str,
    (title, axis): (&str, &str),
    kind: AxisKind,
    lines: &[StoreLine],
) -> Option<ChartFigure> {
    let top = lines.iter().flat_map(|l| &l.3).map(|p| p.1);
    let top = top.fold(0.0, f64::max);
    if lines.is_empty() {
        return None;
    }
    let mut plot = Plot::new();
    for (run, place, words, points) in lines {
        plot.add_trace(line(overlay, *run, (*place, words), points));
    }
    let top = match kind {
        // The time of a stall is counted when it is over: an interval may hold more than its length.
        AxisKind::Percent => top.max(100.0),
        _ if top > 0.0 => top,
        _ => 1.0,
    };
    let layout = style::layout(lines.len())
        .x_axis(style::elapsed_axis(overlay))
        // The unit stands in the heading: a title beside the ticks would push the time axis out of
        // line with that of the latency.
        .y_axis(
            style::axis("")
                // The same margin for all, whatever their ticks: their time axes stand in one line.
                .auto_margin(false)
                .range(vec![0.0, top * 1.08]),
        );
    Some(ChartFigure {
        title: Some(format!("{title}, {axis}")),
        ..ChartFigure::new(id, 210, [("xaxis", AxisKind::Elapsed), ("yaxis", kind)], plot, layout)
    })
}

fn line(
    overlay: &ChartModel,
    run: usize,
    (place, words): (usize, &str),
    points: &[(f64, f64)],
) -> Box<Scatter<f64, f64>> {
    let several = overlay.runs.len() > 1;
    let (colour, dash) = match several {
        true => (overlay.hue(run), place),
        false => (palette::HUES[place % palette::HUES.len()], 0),
    };
    let label = overlay.runs.get(run).map_or("", |r| r.label.as_str());
    let name = match several {
        true => format!("{}, {words}", escape(label)),
        false => words.to_owned(),
    };
    style::line_over_time(&name, points.iter().copied(), (colour, palette::dash(dash)))
        .meta(format!("{run}|store {words}"))
}

/// The samples of a series as points of a line. A rate stands in the middle of its two samples, and
/// a level from before measuring is left out.
fn points(data: &RunCharts, series: &str, how: SampleUse) -> Vec<(f64, f64)> {
    let Some((_, samples)) = data.store.iter().find(|(name, _)| name == series) else {
        return Vec::new();
    };
    match how {
        Level(factor) => {
            let inside = samples.iter().filter(|p| p.0 >= 0.0);
            inside.map(|(at, value)| (*at, value * factor)).collect()
        }
        Rate(factor) => {
            let steady = without_stub(samples);
            let pairs = steady.windows(2).filter(|w| w[1].0 > w[0].0 && w[1].0 > 0.0);
            pairs
                .map(|w| {
                    let per_s = (w[1].1 - w[0].1).max(0.0) / (w[1].0 - w[0].0);
                    ((w[0].0.max(0.0) + w[1].0) / 2.0, per_s * factor)
                })
                .collect()
        }
    }
}

/// The ground of a picture of latency over time: darker the longer the store held writes back. Of one
/// run only: the grounds of several would cover each other.
pub fn stalls(overlay: &ChartModel) -> Vec<Shape> {
    let [data] = overlay.runs.as_slice() else {
        return Vec::new();
    };
    let fine = joined(shares(data).into_iter());
    if fine.len() <= MOST_BANDS {
        return fine.iter().map(band).collect();
    }
    gridded(&shares(data)).iter().map(band).collect()
}

/// A page with more shapes is slow to move about in.
const MOST_BANDS: usize = 300;

/// From, to, and the share of the time that was stalled, per interval of the samples.
fn shares(data: &RunCharts) -> Vec<(f64, f64, f64)> {
    let stalls = data.store.iter().find(|(name, _)| name == "stall_ns_total");
    let samples = stalls.map_or(Vec::new(), |(_, samples)| without_stub(samples));
    let pairs = samples.windows(2).filter(|w| w[1].0 > w[0].0.max(0.0));
    pairs
        .map(|w| {
            let share = (w[1].1 - w[0].1) * 1e-9 / (w[1].0 - w[0].0);
            (w[0].0.max(0.0), w[1].0, share)
        })
        .collect()
}

/// From 1 to 4; whatever is more than nothing is seen.
fn darkness(share: f64) -> u8 {
    (share * 4.0).ceil().clamp(1.0, 4.0) as u8
}

/// From, to, and how dark; neighbours of one darkness are one.
fn joined(shares: impl Iterator<Item = (f64, f64, f64)>) -> Vec<(f64, f64, u8)> {
    let mut bands: Vec<(f64, f64, u8)> = Vec::new();
    for (from, to, share) in shares.filter(|s| s.2 > 0.0) {
        let dark = darkness(share);
        match bands.last_mut() {
            Some(last) if last.1 == from && last.2 == dark => last.1 = to,
            _ => bands.push((from, to, dark)),
        }
    }
    bands
}

/// The shares as means over cells of one length: at most [`MOST_BANDS`] over the whole run, so that
/// no part of it looks calm only because the others had the shapes.
fn gridded(shares: &[(f64, f64, f64)]) -> Vec<(f64, f64, u8)> {
    let (Some(first), Some(last)) = (shares.first(), shares.last()) else {
        return Vec::new();
    };
    let (begin, cell) = (first.0, (last.1 - first.0) / MOST_BANDS as f64);
    let edge = |n: usize| begin + n as f64 * cell;
    let mut stalled = vec![0.0; MOST_BANDS];
    for (from, to, share) in shares.iter().filter(|s| s.2 > 0.0) {
        let at = |t: f64| (((t - begin) / cell) as usize).min(MOST_BANDS - 1);
        let (first, last) = (at(*from), at(*to));
        for (n, sum) in (first..).zip(&mut stalled[first..=last]) {
            *sum += (to.min(edge(n + 1)) - from.max(edge(n))).max(0.0) * share;
        }
    }
    let cells = stalled.iter().enumerate();
    joined(cells.map(|(n, s)| (edge(n), edge(n + 1), s / cell)))
}

fn band((from, to, dark): &(f64, f64, u8)) -> Shape {
    let colour = palette::with_alpha(palette::CEILING, 0.03 * f64::from(*dark));
    Shape::new()
        .shape_type(ShapeType::Rect)
        .layer(ShapeLayer::Below)
        .x_ref("x")
        .y_ref("paper")
        .x0(*from)
        .x1(*to)
        .y0(0.0)
        .y1(1.0)
        .fill_color(colour)
        .line(ShapeLine::new().width(0.0))
}

/// The samples without the last but one where the last follows it at once, as it does when a run ends:
/// what is counted when it is over, such as a stall, would be a huge rate over that moment.
fn without_stub(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept = samples.to_vec();
    if let [.., a, b, c] = samples
        && c.0 - b.0 < (b.0 - a.0) / 2.0
    {
        kept.remove(samples.len() - 2);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(of: &[(&str, &[(f64, f64)])]) -> ChartModel {
        let store = of.iter().map(|(name, p)| ((*name).to_owned(), p.to_vec()));
        ChartModel {
            runs: vec![RunCharts { store: store.collect(), ..RunCharts::default() }],
            ..ChartModel::default()
        }
    }

    #[test]
    fn a_stall_that_ends_with_the_run_is_no_spike() {
        let stalls = [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.1, 1.1e9)];
        let all = overlay(&[("stall_ns_total", &stalls)]);
        let drawn = points(&all.runs[0], "stall_ns_total", PANELS[0].entries[0].2);
        assert_eq!(drawn.len(), 2);
        assert!((drawn[1].1 - 100.0).abs() < 1e-9, "{drawn:?}");
        // What is beyond the whole time stands in the picture all the same.
        let long = [(0.0, 0.0), (1.0, 3e9), (2.0, 3e9)];
        let figures = draw(&overlay(&[("stall_ns_total", &long)]));
        let plot = serde_json::to_value(&figures[0].plot).unwrap();
        assert_eq!(plot["layout"]["yaxis"]["range"][1], 324.0);
        assert_eq!(plot["layout"]["yaxis"]["automargin"], false);
    }

    #[test]
    fn a_stall_shades_the_latency_where_it_was() {
        // Half a second of stalls, a whole one twice, none, a little one.
        let stalls = [(-0.5, 0.0), (0.5, 5e8), (1.5, 15e8), (2.5, 25e8), (3.5, 25e8), (4.5, 26e8)];
        let all = overlay(&[("stall_ns_total", &stalls)]);
        let found = joined(shares(&all.runs[0]).into_iter());
        assert_eq!(found, [(0.0, 0.5, 2), (0.5, 2.5, 4), (3.5, 4.5, 1)]);
        assert_eq!(super::stalls(&all).len(), 3);
        let none = overlay(&[("stall_ns_total", &[(0.0, 7.0), (1.0, 7.0)])]);
        assert!(super::stalls(&none).is_empty());
        let mut two = all.clone();
        two.runs.push(two.runs[0].clone());
        assert!(super::stalls(&two).is_empty(), "whose ground would it be?");
    }

    #[test]
    fn stalls_that_come_and_go_shade_the_whole_run_with_few_shapes() {
        // Every other second 0.4 s of stalls; none in the third quarter.
        let calm = |n: u32| (2000..3000).contains(&n);
        let mut total = 0.0;
        let many: Vec<(f64, f64)> = (0..=4000)
            .map(|n| {
                total += if n % 2 == 1 && !calm(n) { 4e8 } else { 0.0 };
                (f64::from(n), total)
            })
            .collect();
        let busy = overlay(&[("stall_ns_total", &many)]);
        let shapes = super::stalls(&busy);
        assert!((1..=MOST_BANDS).contains(&shapes.len()), "{}", shapes.len());
        let found = gridded(&shares(&busy.runs[0]));
        let shaded = |from: f64, to: f64| -> f64 {
            let cut = |b: &(f64, f64, u8)| (b.1.min(to) - b.0.max(from)).max(0.0);
            found.iter().map(cut).sum()
        };
        let cell = 4000.0 / MOST_BANDS as f64;
        assert!((shaded(0.0, 2000.0) - 2000.0).abs() <= cell, "{found:?}");
        assert!(shaded(2000.0, 3000.0) <= 2.0 * cell, "{found:?}");
        assert!((shaded(3000.0, 4000.0) - 1000.0).abs() <= cell, "{found:?}");
        assert!(gridded(&[]).is_empty());
    }

    #[test]
    fn counters_become_rates_and_shares() {
        let hits = [(-0.5, 10.0), (0.5, 19.0), (1.5, 19.0)];
        let misses = [(-0.5, 0.0), (0.5, 1.0), (1.5, 1.0)];
        let all = overlay(&[
            ("block_cache_hits_total", &hits),
            ("block_cache_misses_total", &misses),
            ("stall_ns_total", &[(0.0, 0.0), (1.0, 5e8)]),
        ]);
        let stalls = points(&all.runs[0], "stall_ns_total", PANELS[0].entries[0].2);
        assert_eq!(stalls, [(0.5, 50.0)]);
        let figures = draw(&all);
        let ids: Vec<&str> = figures.iter().map(|f| f.id.as_str()).collect();
        assert_eq!(ids, ["store-0", "store-hits"]);
        let hits = serde_json::to_value(&figures[1].plot).unwrap();
        assert_eq!(hits["data"][0]["y"], serde_json::json!([90.0]));
    }
}
