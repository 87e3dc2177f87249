//! The machine over time: for each run a figure of its disks and one of CPUs and memory, small pictures below each
//! other on one time axis.

use plotly::common::{Anchor, DashType, Font, Line, Marker, Mode};
use plotly::layout::{Annotation, Axis, Shape, ShapeLine, ShapeType};
use plotly::{Layout, Plot, Scatter};

use super::figure::{AxisKind, Chart, ChartFigure};
use super::look::escape;
use super::style;
use crate::format;
use crate::model::charts::{ChartModel, HostLine, RunCharts};
use crate::render::palette::{self, HUES};

pub const CHART: Chart = Chart {
    id: "host-time",
    title: "The machine over time",
    read: "What disks, CPUs and memory did, on the time axis of the latency above them. Values are \
           means over one sample: they show what happened at the same time, not the cause. Thin \
           vertical lines are the slowest I/Os. Zooming one picture zooms the other.",
    draw,
};

/// Height of one panel and what is around all of them, pixels.
const PANEL: usize = 118;
const AROUND: usize = 70;
/// Room between panels for the heading, share of a panel.
const GAP: f64 = 0.26;
/// Vertical lines for the slowest I/Os, at most.
const MARKS: usize = 12;

/// A line of a panel: metric, words, colour (index into the hues).
type Entry = (&'static str, &'static str, usize);

/// One panel.
struct HostPanel {
    source: &'static str,
    title: &'static str,
    entries: &'static [Entry],
    kind: AxisKind,
    /// Values are multiplied by this.
    scale: f64,
    /// Areas on top of each other.
    stacked: bool,
    /// Left out when everything is zero.
    optional: bool,
    /// Never less than this at the top.
    top: f64,
}

const fn panel(source: &'static str, title: &'static str, entries: &'static [Entry]) -> HostPanel {
    HostPanel {
        source,
        title,
        entries,
        kind: AxisKind::Number,
        scale: 1.0,
        stacked: false,
        optional: false,
        top: 0.0,
    }
}

/// What the disks did.
const DISK: [HostPanel; 4] = [
    HostPanel {
        kind: AxisKind::Percent,
        top: 100.0,
        ..panel("disk", "Disk busy (%util)", &[("%util", "", 6)])
    },
    HostPanel {
        kind: AxisKind::Time,
        scale: 1e6,
        ..panel(
            "disk",
            "Disk time, queue included (await)",
            &[
                ("r_await", "reads", 0),
                ("w_await", "writes", 1),
                ("d_await", "discards", 2),
                ("f_await", "flushes", 3),
            ],
        )
    },
    panel("disk", "Requests in queue and device (aqu-sz)", &[("aqu-sz", "", 7)]),
    panel(
        "disk",
        "Requests per second",
        &[("r/s", "reads", 0), ("w/s", "writes", 1), ("d/s", "discards", 2), ("f/s", "flushes", 3)],
    ),
];

/// What the rest of the machine did.
const MACHINE: [HostPanel; 6] = [
    HostPanel {
        kind: AxisKind::Percent,
        stacked: true,
        top: 100.0,
        ..panel(
            "cpu",
            "CPUs, %",
            &[
                ("%user", "programs", 0),
                ("%system", "kernel", 2),
                ("%irq", "interrupts", 3),
                ("%soft", "soft interrupts", 7),
                ("%steal", "stolen", 1),
                ("%iowait", "idle, I/O pending", 6),
            ],
        )
    },
    HostPanel {
        kind: AxisKind::Percent,
        ..panel(
            "psi",
            "Pressure: % of time some task waited for",
            &[("io_some", "I/O", 0), ("cpu_some", "a CPU", 1), ("memory_some", "memory", 2)],
        )
    },
    panel(
        "tasks",
        "The benchmark's threads, ms per second",
        &[
            ("run", "on a CPU", 0),
            ("wait", "waiting for a CPU", 1),
            ("blkio", "waiting for block I/O", 2),
        ],
    ),
    HostPanel {
        optional: true,
        ..panel("cgroup_cpu", "CPU quota spent, ms without CPU per second", &[("throttled", "", 1)])
    },
    HostPanel {
        kind: AxisKind::Size,
        ..panel("memory", "Page cache", &[("dirty", "dirty", 4), ("writeback", "in writeback", 1)])
    },
    HostPanel {
        optional: true,
        ..panel(
            "memory",
            "Memory reclaim, per second",
            &[
                ("pgscan_direct/s", "pages scanned by tasks", 1),
                ("pgscan_kswapd/s", "pages scanned by the kernel", 6),
                ("allocstall/s", "tasks stalled", 3),
                ("pgmajfault/s", "major faults", 0),
            ],
        )
    },
];

/// Two figures per run: its disks, its machine.
fn draw(overlay: &ChartModel) -> Vec<ChartFigure> {
    let several = overlay.runs.len() > 1;
    let mut figures = Vec::new();
    for (i, run) in overlay.runs.iter().enumerate() {
        let named = |what: &str| match several {
            true => format!("{}: {what}", escape(&run.label)),
            false => what.to_owned(),
        };
        let both: [(&str, &str, &[HostPanel]); 2] =
            [("disk", "Disks", &DISK), ("machine", "Machine", &MACHINE)];
        for (id, title, panels) in both {
            let id = format!("host-{id}-{i}");
            figures.extend(figure(overlay, run, panels, id, named(title)));
        }
    }
    figures
}

/// One line with what it is called and how it looks.
struct Drawn<'a> {
    line: &'a HostLine,
    words: String,
    colour: &'static str,
    dash: usize,
}

/// The lines of a panel that have something to show.
fn lines<'a>(run: &'a RunCharts, panel: &HostPanel) -> Vec<Drawn<'a>> {
    let mut items: Vec<Option<&str>> = Vec::new();
    let mut all = Vec::new();
    for (metric, words, hue) in panel.entries {
        let is = |l: &&HostLine| l.metric.source == panel.source && l.metric.name == *metric;
        for line in run.host.iter().filter(is) {
            let quiet = line.points.iter().all(|p| p.1.is_none_or(|v| v == 0.0));
            let rare = matches!(*metric, "d/s" | "f/s") || panel.optional;
            if line.points.is_empty() || (quiet && rare) {
                continue;
            }
            let item = line.item.as_deref();
            if !items.contains(&item) {
                items.push(item);
            }
            let dash = items.iter().position(|i| *i == item).unwrap_or(0);
            let parts = [item.unwrap_or_default(), words];
            let parts = parts.into_iter().filter(|p| !p.is_empty());
            let words = parts.collect::<Vec<_>>().join(" ");
            all.push(Drawn { line, words: escape(&words), colour: HUES[*hue], dash });
        }
    }
    all
}

fn figure(
    overlay: &ChartModel,
    run: &RunCharts,
    panels: &[HostPanel],
    id: String,
    title: String,
) -> Option<ChartFigure> {
    let shown: Vec<(&HostPanel, Vec<Drawn<'_>>)> =
        panels.iter().map(|p| (p, lines(run, p))).filter(|(_, lines)| !lines.is_empty()).collect();
    if shown.is_empty() {
        return None;
    }
    let count = shown.len();
    let mut plot = Plot::new();
    let mut layout = style::layout(0);
    let mut axes: std::collections::BTreeMap<&'static str, AxisKind> =
        [("xaxis", AxisKind::Elapsed)].into();
    for (nth, (panel, lines)) in shown.iter().enumerate() {
        let axis = AXES[nth.min(AXES.len() - 1)];
        let bottom = (count - 1 - nth) as f64 / count as f64;
        let top = bottom + (1.0 - GAP) / count as f64;
        let mut highest = 0f64;
        for drawn in lines {
            highest = highest.max(peak(panel, drawn));
            plot.add_trace(trace(panel, drawn, axis.0));
        }
        if panel.stacked {
            highest = 100.0;
        }
        let range = vec![0.0, highest.max(panel.top).max(1e-9) * 1.06];
        layout = with_axis(layout, nth, y_axis(range, [bottom, top]));
        layout.add_annotation(heading(panel, lines, top));
        axes.insert(axis.1, panel.kind);
    }
    for at in slowest(run) {
        layout.add_shape(mark(at, 1.0 - GAP / count as f64));
    }
    let last = AXES[(count - 1).min(AXES.len() - 1)].0;
    let layout = layout.x_axis(style::elapsed_axis(overlay).anchor(last));
    let figure = ChartFigure::new(id, count * PANEL + AROUND, [], plot, layout);
    Some(ChartFigure { title: Some(title), axes, ..figure })
}

/// What plotly calls the vertical axes in traces and in the layout.
const AXES: [(&str, &str); 6] = [
    ("y", "yaxis"),
    ("y2", "yaxis2"),
    ("y3", "yaxis3"),
    ("y4", "yaxis4"),
    ("y5", "yaxis5"),
    ("y6", "yaxis6"),
];

fn with_axis(layout: Layout, nth: usize, axis: Axis) -> Layout {
    match nth {
        0 => layout.y_axis(axis),
        1 => layout.y_axis2(axis),
        2 => layout.y_axis3(axis),
        3 => layout.y_axis4(axis),
        4 => layout.y_axis5(axis),
        _ => layout.y_axis6(axis),
    }
}

fn y_axis(range: Vec<f64>, domain: [f64; 2]) -> Axis {
    Axis::new().range(range).domain(&domain).anchor("x").show_line(true).zero_line(false).n_ticks(4)
}

fn peak(panel: &HostPanel, drawn: &Drawn<'_>) -> f64 {
    let points = drawn.line.points.iter();
    let values = points.filter_map(|p| Some(p.1? * panel.scale));
    values.fold(0.0, f64::max)
}

fn trace(panel: &HostPanel, drawn: &Drawn<'_>, axis: &str) -> Box<dyn plotly::Trace> {
    let points = &drawn.line.points;
    let text: Vec<String> = points
        .iter()
        .map(|p| match p.1 {
            Some(v) => format!("{:.1} s: {}", p.0, value(panel, drawn.line, v)),
            None => String::new(),
        })
        .collect();
    // A sample between two gaps is a point, not a line.
    let few = points.len() < 4 || points.iter().any(|p| p.1.is_none());
    let line = Line::new().color(drawn.colour).width(1.6);
    let line = match panel.stacked {
        true => line.width(0.5),
        false => line.dash(match drawn.dash {
            0 => DashType::Solid,
            n => palette::dash(n),
        }),
    };
    let heading = match drawn.words.is_empty() {
        true => panel.title.to_owned(),
        false => drawn.words.clone(),
    };
    let scatter = Scatter::new(
        points.iter().map(|p| style::round(p.0)).collect(),
        points.iter().map(|p| Some(style::round(p.1? * panel.scale))).collect::<Vec<Option<f64>>>(),
    )
    .name(&heading)
    .mode(if few { Mode::LinesMarkers } else { Mode::Lines })
    .line(line)
    .marker(Marker::new().size(3).color(drawn.colour))
    .show_legend(false)
    .hover_text_array(text)
    .hover_template(format!("{heading}<br>%{{hovertext}}<extra></extra>"))
    .y_axis(axis);
    if panel.stacked {
        let fill = palette::with_alpha(drawn.colour, 0.55);
        return scatter.stack_group("all").fill_color(fill);
    }
    scatter
}

/// A value in words, with its unit.
fn value(panel: &HostPanel, line: &HostLine, value: f64) -> String {
    match panel.kind {
        AxisKind::Time => format::duration(value * panel.scale),
        AxisKind::Size => format::bytes(value.max(0.0) as u64),
        AxisKind::Percent => format!("{} %", format::digits3(value)),
        _ => format!("{} {}", format::digits3(value), line.metric.unit),
    }
}

/// The title of a panel and, in their colours, its lines.
fn heading(panel: &HostPanel, lines: &[Drawn<'_>], top: f64) -> Annotation {
    let entry = |d: &Drawn<'_>| {
        let bar = if d.dash == 0 { "━" } else { "┅" };
        format!("<span style=\"color:{}\">{bar}</span> {}", d.colour, d.words)
    };
    let named = lines.iter().filter(|d| !d.words.is_empty());
    let legend: Vec<String> = named.map(entry).collect();
    Annotation::new()
        .text(format!("<b>{}</b>   {}", panel.title, legend.join("   ")))
        .x_ref("paper")
        .y_ref("paper")
        .x(0.0)
        .y(top)
        .x_anchor(Anchor::Left)
        .y_anchor(Anchor::Bottom)
        .show_arrow(false)
        .font(Font::new().size(12))
}

/// When the slowest I/Os were submitted; those close together once.
fn slowest(run: &RunCharts) -> Vec<f64> {
    let mut points: Vec<(u64, f64)> =
        run.outliers.iter().flat_map(|o| &o.points).map(|p| (p.ns, p.at_s)).collect();
    points.sort_by_key(|p| std::cmp::Reverse(p.0));
    let end = points.iter().map(|p| p.1).fold(0.0, f64::max);
    let mut marks: Vec<f64> = Vec::new();
    for (_, at) in points {
        if marks.len() < MARKS && marks.iter().all(|m| (m - at).abs() > end / 200.0) {
            marks.push(at);
        }
    }
    marks
}

fn mark(at: f64, top: f64) -> Shape {
    let colour = palette::with_alpha(palette::CEILING, 0.3);
    Shape::new()
        .shape_type(ShapeType::Line)
        .x_ref("x")
        .y_ref("paper")
        .x0(at)
        .x1(at)
        .y0(0.0)
        .y1(top)
        .line(ShapeLine::new().color(colour).width(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_rundir::host::metric;

    fn line(source: &str, name: &str, item: Option<&str>, values: &[f64]) -> HostLine {
        HostLine {
            metric: metric(source, name).unwrap(),
            item: item.map(str::to_owned),
            points: values.iter().enumerate().map(|(i, v)| (i as f64, Some(*v))).collect(),
        }
    }

    #[test]
    fn every_entry_is_a_published_metric_and_has_an_axis() {
        assert!(DISK.len() <= AXES.len() && MACHINE.len() <= AXES.len());
        for panel in DISK.iter().chain(&MACHINE) {
            for (name, ..) in panel.entries {
                assert!(metric(panel.source, name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn panels_without_values_are_left_out_and_disks_have_their_own_style() {
        let run = RunCharts {
            host: vec![
                line("disk", "r_await", Some("loop0"), &[1.0, 2.0]),
                line("disk", "r_await", Some("vda"), &[3.0, 2.0]),
                line("disk", "f/s", Some("vda"), &[0.0]),
                line("memory", "allocstall/s", None, &[0.0, 0.0]),
            ],
            ..RunCharts::default()
        };
        let overlay = ChartModel { runs: vec![run], ..ChartModel::default() };
        let figures = draw(&overlay);
        assert_eq!(figures.len(), 1, "nothing of the machine to show");
        let plot = serde_json::to_value(&figures[0].plot).unwrap();
        let data = plot["data"].as_array().unwrap();
        assert_eq!(data.len(), 2);
        assert_eq!(data[0]["y"][1], 2e6);
        assert_eq!(data[0]["name"], "loop0 reads");
        assert_ne!(data[0]["line"]["dash"], data[1]["line"]["dash"]);
        assert!(plot["layout"]["yaxis2"].is_null());
    }
}
