//! Response-time histogram: counts, vertical lines at mean, nines, ceilings and maximum, and the
//! cumulative line on a second axis. One figure per operation; several runs lie over each other.

use plotly::common::{AxisSide, DashType, Fill, Font, Line, LineShape, Mode, Position, TickMode};
use plotly::layout::{Axis, AxisType};
use plotly::{Plot, Scatter};

use super::data::{Overlay, Series, escape};
use super::distribution::legend;
use super::{AxisKind, Figure, style};
use crate::format::{self, Script};
use crate::palette;

/// Drawn for an empty bin: below the axis, which starts at half an I/O.
const NOTHING: f64 = 1e-3;
/// Plot width that label places are reckoned with, pixels.
const WIDTH: f64 = 1000.0;
/// Width of a label's letter, pixels.
const LETTER: f64 = 6.6;
/// Height of a row of labels, per cent of the plot's.
const ROW: f64 = 7.0;

/// One figure per operation.
pub fn draw(overlay: &Overlay) -> Vec<Figure> {
    let mut names: Vec<&str> = Vec::new();
    for series in overlay.runs.iter().flat_map(|r| &r.series) {
        if series.main && !series.bins.is_empty() && !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    let several = names.len() > 1;
    names
        .iter()
        .enumerate()
        .filter_map(|(i, name)| {
            let title = several.then(|| (*name).to_owned());
            one(overlay, name, format!("histogram-{i}"), title)
        })
        .collect()
}

/// A vertical line with its words.
struct Mark {
    ns: u64,
    words: String,
    colour: &'static str,
    dash: DashType,
}

fn one(overlay: &Overlay, name: &str, id: String, title: Option<String>) -> Option<Figure> {
    let chosen: Vec<(usize, &Series)> = overlay
        .runs
        .iter()
        .enumerate()
        .flat_map(|(run, data)| data.series.iter().map(move |s| (run, s)))
        .filter(|(_, s)| s.main && s.name == name && !s.bins.is_empty())
        .collect();
    let alone = chosen.len() == 1;
    let mut marks: Vec<Mark> = Vec::new();
    for (run, series) in &chosen {
        let colour = overlay.look(*run, series.op, name).colour;
        marks.extend(series_marks(series, colour, alone));
    }
    let mut ceilings: Vec<u64> = overlay
        .runs
        .iter()
        .flat_map(|r| r.ceilings.clone())
        .collect();
    ceilings.sort_unstable();
    ceilings.dedup();
    marks.extend(ceilings.iter().map(|ns| Mark {
        ns: *ns,
        words: format!("ceiling {}", format::duration_ns(*ns, Script::Fine)),
        colour: "#D62728",
        dash: DashType::Solid,
    }));
    marks.sort_by_key(|m| m.ns);
    let (lo, hi) = style::latency_range(chosen.iter().filter_map(|(_, s)| {
        let first = s.bins.iter().find(|b| b.count > 0)?;
        Some((first.lo_ns, s.max_ns.max(marks.last().map_or(0, |m| m.ns))))
    }))?;
    let rows = place(&marks, lo, hi);
    let height = 100.0 + ROW * (1.0 + rows.iter().copied().max().unwrap_or(0) as f64);
    let mut plot = Plot::new();
    for (run, series) in &chosen {
        counts(&mut plot, overlay, *run, series);
        cumulative(&mut plot, overlay, *run, series);
    }
    for (mark, row) in marks.iter().zip(&rows) {
        plot.add_trace(mark_line(
            mark,
            *row,
            alone || mark.words.starts_with("ceiling"),
        ));
    }
    let top = chosen
        .iter()
        .flat_map(|(_, s)| &s.bins)
        .map(|b| b.count)
        .max()?;
    let layout = style::layout(2 * chosen.len())
        .x_axis(style::latency_axis("latency", lo, hi))
        .y_axis(count_axis(top as f64, height))
        .y_axis2(share_axis(height));
    Some(Figure {
        id,
        title,
        plot: style::finish(plot, layout),
        height: 470,
        axes: [("xaxis", AxisKind::Time)].into(),
        switches: Vec::new(),
        half: false,
    })
}

fn series_marks(series: &Series, colour: &'static str, alone: bool) -> Vec<Mark> {
    let mark = |ns: u64, what: &str, dash: DashType| Mark {
        ns,
        words: format!("{what} {}", format::duration_ns(ns, Script::Fine)),
        colour,
        dash,
    };
    let mut marks = vec![mark(series.mean_ns.round() as u64, "mean", DashType::Dash)];
    marks.extend(
        series
            .nines
            .iter()
            .filter(|n| (2..=5).contains(&n.k))
            .map(|n| mark(n.ns, &format::nines_label(n.k), DashType::Dot)),
    );
    if alone {
        marks.push(mark(series.max_ns, "max", DashType::DashDot));
    }
    marks
}

/// The lowest row in which each label overlaps no earlier one; marks come sorted.
fn place(marks: &[Mark], lo: f64, hi: f64) -> Vec<usize> {
    let at = |ns: u64| (ns.max(1) as f64 / lo).ln() / (hi / lo).ln() * WIDTH;
    let mut ends: Vec<f64> = Vec::new();
    let mut rows = Vec::with_capacity(marks.len());
    for mark in marks {
        let half = mark.words.chars().count() as f64 * LETTER / 2.0;
        let x = at(mark.ns);
        let row = ends.iter().position(|end| x - half > *end + 8.0);
        let row = row.unwrap_or_else(|| {
            ends.push(f64::NEG_INFINITY);
            ends.len() - 1
        });
        ends[row] = x + half;
        rows.push(row);
    }
    rows
}

fn mark_line(mark: &Mark, row: usize, labelled: bool) -> Box<dyn plotly::Trace> {
    let top = 100.0 + ROW * row as f64;
    let x = mark.ns.max(1);
    let text = if labelled {
        mark.words.clone()
    } else {
        String::new()
    };
    Scatter::new(vec![x, x], vec![0.0, top])
        .mode(Mode::LinesText)
        .line(
            Line::new()
                .color(mark.colour)
                .width(1.3)
                .dash(mark.dash.clone()),
        )
        .text_array(vec![String::new(), text])
        .text_position(Position::TopCenter)
        .text_font(Font::new().size(11))
        .hover_template(format!("{}<extra></extra>", mark.words))
        .show_legend(false)
        .y_axis("y2")
}

fn counts(plot: &mut Plot, overlay: &Overlay, run: usize, series: &Series) {
    let look = overlay.look(run, series.op, &series.name);
    let mut x: Vec<u64> = series.bins.iter().map(|b| b.lo_ns).collect();
    let show = |count: u64| if count == 0 { NOTHING } else { count as f64 };
    let mut y: Vec<f64> = series.bins.iter().map(|b| show(b.count)).collect();
    let mut text: Vec<String> = series
        .bins
        .iter()
        .map(|b| {
            format!(
                "{} I/Os from {} to {}",
                format::count(b.count),
                format::duration_ns(b.lo_ns, Script::Fine),
                format::duration_ns(b.hi_ns, Script::Fine)
            )
        })
        .collect();
    if let (Some(first), Some(last)) = (series.bins.first(), series.bins.last()) {
        x.insert(0, first.lo_ns);
        y.insert(0, NOTHING);
        text.insert(0, String::new());
        x.push(last.hi_ns);
        y.push(NOTHING);
        text.push(String::new());
    }
    let name = legend(series);
    let mut trace = Scatter::new(x, y)
        .name(&name)
        .mode(Mode::Lines)
        .line(
            Line::new()
                .color(look.colour)
                .width(1.2)
                .shape(LineShape::Hv),
        )
        .fill(Fill::ToZeroY)
        .fill_color(palette::with_alpha(look.colour, 0.22))
        .hover_text_array(text)
        .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"))
        .legend_group(&look.group);
    if let Some(heading) = style::heading(&look) {
        trace = trace.legend_group_title(heading);
    }
    plot.add_trace(trace);
}

fn cumulative(plot: &mut Plot, overlay: &Overlay, run: usize, series: &Series) {
    let look = overlay.look(run, series.op, &series.name);
    let mut x: Vec<u64> = series.curve.iter().map(|p| p.ns).collect();
    let mut y: Vec<f64> = series
        .curve
        .iter()
        .map(|p| 100.0 * (1.0 - p.share))
        .collect();
    x.push(series.max_ns);
    y.push(100.0);
    let text = x
        .iter()
        .zip(&y)
        .map(|(ns, pct)| {
            format!(
                "{pct:.4} % within {}",
                format::duration_ns(*ns, Script::Fine)
            )
        })
        .collect();
    let name = format!("{}, share finished", escape(&series.name));
    plot.add_trace(
        Scatter::new(x, y)
            .name(&name)
            .mode(Mode::Lines)
            .line(
                Line::new()
                    .color(look.colour)
                    .width(2.0)
                    .dash(DashType::Dash)
                    .shape(LineShape::Vh),
            )
            .hover_text_array(text)
            .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"))
            .legend_group(&look.group)
            .y_axis("y2"),
    );
}

/// Counts on a logarithmic axis whose upper end leaves room for the labels.
fn count_axis(top: f64, height: f64) -> Axis {
    let lo = 0.5f64.log10();
    let hi = (top * 1.3).log10();
    let decades: Vec<f64> = (0..=hi.floor() as i32).map(|d| 10f64.powi(d)).collect();
    let text = decades
        .iter()
        .map(|v| format::short(*v).replace(".00", "").replace(".0", ""))
        .collect();
    style::axis("I/Os per bin")
        .type_(AxisType::Log)
        .range(vec![lo, lo + (hi - lo) * height / 100.0])
        .tick_mode(TickMode::Array)
        .tick_values(decades)
        .tick_text(text)
}

fn share_axis(height: f64) -> Axis {
    style::axis("I/Os finished")
        .range(vec![0.0, height])
        .tick_mode(TickMode::Array)
        .tick_values(vec![0.0, 20.0, 40.0, 60.0, 80.0, 100.0])
        .tick_suffix(" %")
        .show_grid(false)
        .side(AxisSide::Right)
        .overlaying("y")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_never_share_a_place() {
        let mark = |ns: u64| Mark {
            ns,
            words: "99.99 % 1.20 ms".to_owned(),
            colour: "#000000",
            dash: DashType::Solid,
        };
        let marks = [mark(1_000), mark(1_100), mark(1_200), mark(900_000)];
        assert_eq!(place(&marks, 500.0, 1e6), [0, 1, 2, 0]);
    }
}
