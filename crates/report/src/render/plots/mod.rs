//! Charts: one function each, from runs to a plotly figure, in one visible list.
//!
//! What it is: layout and traces. What it is not: numbers (they come from [`crate::model::charts`]) or pages (see
//! `html`). To add a chart, write one function and add one line to [`CHARTS`].

mod curve;
mod distribution;
mod figure;
mod heat;
mod histogram;
mod host;
mod knee;
mod look;
mod outliers;
mod slc;
mod store;
mod style;
mod time;

pub use figure::{AxisKind, Choice, Figure, Switch};

use crate::model::charts::ChartModel;

/// A chart: a question, how to read the answer, and the function that draws it.
pub struct Chart {
    /// Stable id, used in page anchors.
    pub id: &'static str,
    pub title: &'static str,
    /// One line: how to read it.
    pub read: &'static str,
    /// Draws it; no figure when the runs hold nothing to show.
    pub draw: fn(&ChartModel) -> Vec<Figure>,
}

/// Every chart, in page order.
pub const CHARTS: &[Chart] = &[
    Chart {
        id: "knee",
        title: "Response time against demand",
        read: "Each point is a probe of the search with its 95 % interval. The knee is where the \
               points leave the floor; the answer lies where they cross the ceiling.",
        draw: knee::draw,
    },
    Chart {
        id: "distribution",
        title: "Latency distribution",
        read: "How many I/Os per second took how long, in 50 bins per decade. The area under a \
               line is its IOPS. Small bumps far to the right are the tail: switch to the \
               logarithmic scale to see them.",
        draw: distribution::draw,
    },
    Chart {
        id: "percentile",
        title: "Latency percentile",
        read: "The share of I/Os that finished within the time below. Steep and far to the left is \
               good. The lines say nothing about throughput, so the legend does.",
        draw: curve::percentile,
    },
    Chart {
        id: "tail",
        title: "Latency percentile, zoomed to the tail",
        read: "The same lines with every nine given equal room. Points are the nines with their \
               95 % interval; where a line is dotted there were too few I/Os to call it measured.",
        draw: curve::tail,
    },
    Chart {
        id: "slc",
        title: "Latency against percentile, as the SLC factors see it",
        read: "The 21 percentiles of the SLC factors at equal distances. SLC1 is the mean rise from \
               the 10th percentile up to the median, SLC2 from the median on, each as a multiple of \
               where it starts: ratios, so that a system with a tiny median can have a huge SLC2 and \
               still be the faster one.",
        draw: slc::draw,
    },
    Chart {
        id: "histogram",
        title: "Response-time histogram",
        read: "Number of I/Os per bin on the left, on a logarithmic scale; the rising line is the \
               share finished so far, on the right. Vertical lines: mean, nines, ceilings and the \
               slowest I/O.",
        draw: histogram::draw,
    },
    Chart {
        id: "latency-time",
        title: "Latency over time",
        read: "Service time in each reporting interval. A flat line is a steady device; a \
               percentile of a run whose lines drift is not a property of the device.",
        draw: time::latency,
    },
    Chart {
        id: "store-time",
        title: "The store over time",
        read: "What the store says of itself, sampled once an interval, on the time axis of the \
               latency above: writes held back (of a single run also as the shaded ground of its \
               latency), compaction, caches. It shows what happened at the same time; the store's \
               words, not a cause.",
        draw: store::draw,
    },
    Chart {
        id: "host-time",
        title: "The machine over time",
        read: "What disks, CPUs and memory did, on the time axis of the latency above them. Values are \
               means over one sample: they show what happened at the same time, not the cause. Thin \
               vertical lines are the slowest I/Os. Zooming one picture zooms the other.",
        draw: host::draw,
    },
    Chart {
        id: "throughput-time",
        title: "Throughput over time",
        read: "Operations and bytes completed per second in each reporting interval.",
        draw: time::throughput,
    },
    Chart {
        id: "heat",
        title: "Latency heat map",
        read: "Time runs to the right, latency upward, colour is the number of I/Os (logarithmic). \
               Bands are the modes of the device; a column of colour going up is a stall.",
        draw: heat::draw,
    },
    Chart {
        id: "outliers",
        title: "Slowest I/Os",
        read: "The slowest I/Os of each kind, up to 1,000, at the moment they were submitted. \
               Points in a column belong to one event, points in a row to a time-out or retry.",
        draw: outliers::draw,
    },
    Chart {
        id: "split",
        title: "Where the time was spent",
        read: "Latency taken apart: waiting for a free slot, before issue (this tool's batch and the \
               kernel's part of the call that submits it), after issue, in the sync call inside a \
               write, and until the first byte of an object.",
        draw: curve::split,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_every_chart_explains_itself() {
        let mut ids: Vec<_> = CHARTS.iter().map(|c| c.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), CHARTS.len());
        assert!(CHARTS.iter().all(|c| c.read.len() > 20));
    }

    #[test]
    fn nothing_to_show_draws_nothing() {
        for chart in CHARTS {
            assert!(
                (chart.draw)(&ChartModel::default()).is_empty(),
                "{}",
                chart.id
            );
        }
    }
}
