//! The target's own statistics over time: small pictures on the time axis of the latency.

use plotly::common::{Line, Marker, Mode};
use plotly::{Plot, Scatter};

use super::data::{Overlay, RunData, escape};
use super::{AxisKind, Figure, style};
use crate::palette;
use crate::store::HITS;

/// How the samples of a series become a line.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// As they are, times a factor.
    Level(f64),
    /// How fast a counter rises a second, times a factor.
    Rate(f64),
}

/// One line: series, words, how.
type Entry = (&'static str, &'static str, How);

/// One picture.
struct Panel {
    title: &'static str,
    axis: &'static str,
    kind: AxisKind,
    entries: &'static [Entry],
}

use How::{Level, Rate};

const PANELS: [Panel; 6] = [
    Panel {
        title: "Writes held back",
        axis: "% of the time",
        kind: AxisKind::Percent,
        entries: &[
            // Nanoseconds a second, in per cent.
            ("stall_ns_total", "slowed down or stopped", Rate(1e-7)),
            ("writes_stopped", "stopped when sampled", Level(100.0)),
        ],
    },
    Panel {
        title: "Compaction and flush",
        axis: "bytes/s",
        kind: AxisKind::Bytes,
        entries: &[
            (
                "compaction_written_bytes_total",
                "compaction writes",
                Rate(1.0),
            ),
            ("compaction_read_bytes_total", "compaction reads", Rate(1.0)),
            ("flush_written_bytes_total", "flush writes", Rate(1.0)),
            ("wal_bytes_total", "log", Rate(1.0)),
        ],
    },
    Panel {
        title: "Work put off",
        axis: "count",
        kind: AxisKind::Number,
        entries: &[
            ("level0_files", "level-0 files", Level(1.0)),
            ("immutable_memtables", "memtables to flush", Level(1.0)),
            ("running_compactions", "running compactions", Level(1.0)),
            ("running_flushes", "running flushes", Level(1.0)),
        ],
    },
    Panel {
        title: "Pending compaction and memory",
        axis: "bytes",
        kind: AxisKind::Size,
        entries: &[
            ("pending_compaction_bytes", "pending compaction", Level(1.0)),
            ("memtable_bytes", "memtables", Level(1.0)),
            ("block_cache_bytes", "block cache", Level(1.0)),
            ("memory_bytes", "memory", Level(1.0)),
        ],
    },
    Panel {
        title: "Amplification since the store was opened",
        axis: "times",
        kind: AxisKind::Number,
        entries: &[
            ("write_amplification", "write", Level(1.0)),
            ("space_amplification", "space", Level(1.0)),
        ],
    },
    Panel {
        title: "Events",
        axis: "per second",
        kind: AxisKind::Number,
        entries: &[
            ("wal_syncs_total", "log syncs", Rate(1.0)),
            ("evicted_keys_total", "evicted keys", Rate(1.0)),
            ("expired_keys_total", "expired keys", Rate(1.0)),
            ("s3_connections_total", "connections made", Rate(1.0)),
            ("s3_timeouts_total", "time-outs", Rate(1.0)),
            ("s3_broken_total", "broken connections", Rate(1.0)),
            ("background_errors_total", "background errors", Rate(1.0)),
        ],
    },
];

/// A picture per panel that has something to show, and one of the shares of hits.
pub fn draw(overlay: &Overlay) -> Vec<Figure> {
    let mut figures: Vec<Figure> = PANELS
        .iter()
        .enumerate()
        .filter_map(|(nth, panel)| panel_figure(overlay, nth, panel))
        .collect();
    figures.extend(hits(overlay));
    figures
}

fn panel_figure(overlay: &Overlay, nth: usize, panel: &Panel) -> Option<Figure> {
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
    figure(
        overlay,
        &format!("store-{nth}"),
        (panel.title, panel.axis),
        panel.kind,
        &lines,
    )
}

/// Shares of lookups that the store answered from its cache.
fn hits(overlay: &Overlay) -> Option<Figure> {
    let mut lines = Vec::new();
    for (run, data) in overlay.runs.iter().enumerate() {
        for (place, (words, hits, misses)) in HITS.iter().enumerate() {
            let (hits, misses) = (
                points(data, hits, Rate(1.0)),
                points(data, misses, Rate(1.0)),
            );
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
    let words = ("Lookups answered from the cache", "%");
    figure(overlay, "store-hits", words, AxisKind::Percent, &lines)
}

/// A line: run, place among the entries, words, points.
type Drawn = (usize, usize, &'static str, Vec<(f64, f64)>);

fn figure(
    overlay: &Overlay,
    id: &str,
    (title, axis): (&str, &str),
    kind: AxisKind,
    lines: &[Drawn],
) -> Option<Figure> {
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
    Some(Figure {
        id: id.to_owned(),
        title: Some(format!("{title}, {axis}")),
        plot: style::finish(plot, layout),
        height: 210,
        axes: [("xaxis", AxisKind::Elapsed), ("yaxis", kind)].into(),
        switches: Vec::new(),
        half: false,
    })
}

fn line(
    overlay: &Overlay,
    run: usize,
    (place, words): (usize, &str),
    points: &[(f64, f64)],
) -> Box<Scatter<f64, f64>> {
    let several = overlay.runs.len() > 1;
    let (colour, dash) = match several {
        true => (palette::of_run(run), place),
        false => (palette::HUES[place % palette::HUES.len()], 0),
    };
    let label = overlay.runs.get(run).map_or("", |r| r.label.as_str());
    let name = match several {
        true => format!("{}, {words}", escape(label)),
        false => words.to_owned(),
    };
    let round = |of: fn(&(f64, f64)) -> f64| points.iter().map(|p| style::round(of(p))).collect();
    let few = points.len() < 40;
    Scatter::new(round(|p| p.0), round(|p| p.1))
        .name(&name)
        .mode(if few { Mode::LinesMarkers } else { Mode::Lines })
        .marker(Marker::new().size(4).color(colour))
        .line(
            Line::new()
                .color(colour)
                .width(2.0)
                .dash(palette::dash(dash)),
        )
        .meta(format!("{run}|store {words}"))
}

/// The samples of a series as points of a line. A rate stands in the middle of its two samples, and
/// a level from before measuring is left out.
fn points(data: &RunData, series: &str, how: How) -> Vec<(f64, f64)> {
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
            let pairs = steady
                .windows(2)
                .filter(|w| w[1].0 > w[0].0 && w[1].0 > 0.0);
            pairs
                .map(|w| {
                    let per_s = (w[1].1 - w[0].1).max(0.0) / (w[1].0 - w[0].0);
                    ((w[0].0.max(0.0) + w[1].0) / 2.0, per_s * factor)
                })
                .collect()
        }
    }
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

    fn overlay(of: &[(&str, &[(f64, f64)])]) -> Overlay {
        let store = of.iter().map(|(name, p)| ((*name).to_owned(), p.to_vec()));
        Overlay {
            runs: vec![RunData {
                store: store.collect(),
                ..RunData::default()
            }],
            ..Overlay::default()
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
