//! The parts of the screen, from the live model into a buffer.

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{LineGauge, Paragraph, Row, Sparkline, Table, Widget, Wrap};
use taillight_core::LatencyKind;
use taillight_report::format::{duration, duration_ns, percent, rate};

use crate::heat::GrowingHeat;
use crate::model::{LiveModel, OpSoFar, progressed};
use crate::state::{self, LiveTile, SHOWN};

/// Most rows of the table; what is beyond them is on the page and in the report.
const TABLE_MOST: usize = 8;
/// The heat strip is drawn where it has more rows than this.
const FEWEST_HEAT: u16 = 5;
/// From this width of the screen on, figures have their notes.
const NOTES: u16 = 110;
/// Width of the labels of the heat strip.
const LABELS: u16 = 9;
/// Shades of the heat strip, from few I/Os to many.
const SHADES: [&str; 4] = ["░", "▒", "▓", "█"];

/// Draws the run into all of `buffer`. Where there is little room, the heat strip goes first, then the rate.
pub fn draw(model: &LiveModel, buffer: &mut Buffer) {
    let table = table_rows(model);
    let tiles = [state::rate_tiles(model), state::load_tiles(model), state::machine_tiles(model)];
    let tiles = tiles.concat();
    let heights = [
        1,
        1,
        1,
        2,
        1 + if buffer.area.width < NOTES { 2 } else { tiles.len().div_ceil(2) as u16 },
        1 + if table.is_empty() { 0 } else { 1 + table.len() as u16 },
    ];
    let left = buffer.area.height.saturating_sub(heights.iter().sum());
    let rate = if left >= 4 { left.min(5) } else { 0 };
    let heat = if left - rate > FEWEST_HEAT { left - rate } else { 0 };
    let parts = heights.into_iter().chain([rate, heat]).map(Constraint::Length);
    let inner = Rect { x: 1, width: buffer.area.width.saturating_sub(2), ..buffer.area };
    let [head, about, bar, verdict, figures, latencies, rates, heats] =
        Layout::vertical(parts).areas(inner);
    draw_head(model, head, buffer);
    let text = model.facts.as_ref().map_or("", |f| f.about.as_str());
    Line::from(text).dim().render(about, buffer);
    draw_bar(model, bar, buffer);
    draw_verdict(model, verdict, buffer);
    draw_tiles(&tiles, figures, buffer);
    draw_table(table, latencies, buffer);
    draw_rates(model, rates, buffer);
    draw_heat(model, heats, buffer);
}

/// The name of the run and its place in a series; nothing before the run is known.
fn draw_head(model: &LiveModel, area: Rect, buffer: &mut Buffer) {
    let Some(facts) = &model.facts else { return };
    let mut name = vec![Span::from(facts.plan.run.name.clone()).bold()];
    if let Some(place) = &facts.series {
        name.push(format!("  point {}, round {}", place.id, place.round).into());
    }
    Line::from(name).render(area, buffer);
    Line::from("taillight").alignment(Alignment::Right).dim().render(area, buffer);
}

/// The bar of the measure phase, which stays empty where the plan has no end; in its label the phase, the time measured
/// so far and the time left.
fn draw_bar(model: &LiveModel, area: Rect, buffer: &mut Buffer) {
    let view = model.last.as_ref();
    let far = view.and_then(progressed);
    let share = far.map_or(0.0, |f| f.done as f64 / f.all.max(1) as f64).min(1.0);
    let mut words = model.phase.clone();
    if let Some(view) = view.filter(|view| view.closed.measured) {
        words = format!("{words} {}", duration_ns(view.elapsed_ns));
    }
    if let Some(far) = far.filter(|_| model.phase == "measure") {
        let left = duration(far.left.as_nanos() as f64);
        words = format!("{words}, {} done, {left} left", percent(share));
    }
    let gauge = LineGauge::default().ratio(share).label(words);
    let gauge = gauge.filled_symbol("━").unfilled_symbol("─");
    gauge.filled_style(Style::new().cyan()).unfilled_style(Style::new().dim()).render(area, buffer);
}

/// The verdict so far: a coloured word and what it says, over as many lines as there is room.
fn draw_verdict(model: &LiveModel, area: Rect, buffer: &mut Buffer) {
    let said = state::verdict(model);
    let word = match said.tone {
        "good" => said.word.green(),
        "warn" => said.word.yellow(),
        "bad" => said.word.red(),
        _ => said.word.into(),
    };
    let line = Line::from(vec![word.bold(), format!(" {}", said.text).into()]);
    Paragraph::new(line).wrap(Wrap { trim: true }).render(area, buffer);
}

/// The figures of now below an empty line: each with its note in two columns, on a narrow screen one after the other
/// without notes.
fn draw_tiles(tiles: &[LiveTile], area: Rect, buffer: &mut Buffer) {
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    if area.width + 2 < NOTES {
        let figures = tiles.iter().flat_map(|tile| {
            let label = format!("{}\u{a0}", tile.label.replace(' ', "\u{a0}"));
            [Span::from(label).dim(), tile.value.replace(' ', "\u{a0}").bold(), "   ".into()]
        });
        let line = Line::from(figures.collect::<Vec<_>>());
        return Paragraph::new(line).wrap(Wrap { trim: true }).render(below, buffer);
    }
    let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2);
    let lines: Vec<Line<'_>> = tiles
        .iter()
        .map(|tile| {
            let label = format!("{}: ", tile.label);
            let note = if tile.note.is_empty() { String::new() } else { format!(" {}", tile.note) };
            Line::from(vec![label.dim(), tile.value.clone().bold(), note.dim()])
        })
        .collect();
    let [left, right] = halves.areas(below);
    let first = lines.len().div_ceil(2);
    Text::from(lines[..first].to_vec()).render(left, buffer);
    Text::from(lines[first..].to_vec()).render(right, buffer);
}

/// Rows of the table, the first [`TABLE_MOST`]: of each operation with latencies its kinds of latency, the main kind
/// first, with percentiles and maximum so far and the 99 % of the last interval. Of the main kind a percentile above a
/// ceiling is yellow, and red where the ceiling is for it or a higher one and so is missed.
fn table_rows(model: &LiveModel) -> Vec<Row<'static>> {
    let mut rows = Vec::new();
    for op in model.whole_ops() {
        let Some(latencies) = &op.latencies else { continue };
        let main = latencies.main_kind();
        let mut kinds: Vec<_> = latencies.iter().filter(|(_, held)| !held.is_empty()).collect();
        kinds.sort_by_key(|(kind, _)| *kind != main);
        for (kind, held) in kinds {
            let ceilings = if kind == main { model.ceilings_of(op) } else { Vec::new() };
            let mut cells =
                vec![Line::from(format!("{} {}", model.op_name(op.workload, op.op), kind.words()))];
            for (pct, ns) in state::percentiles(held, op.count(kind, held)) {
                let over = ceilings.iter().filter(|c| ns.is_some_and(|ns| ns > c.ceiling.0));
                let missed = over.clone().any(|c| pct <= c.at);
                let style = match (missed, over.count()) {
                    (true, _) => Style::new().red().bold(),
                    (false, 0) => Style::new(),
                    (false, _) => Style::new().yellow(),
                };
                cells.push(number(ns).style(style));
            }
            let max = if kind == LatencyKind::Service { op.max_ns } else { held.max() };
            cells.push(number(Some(max)));
            cells.push(number(last_p99(model, op, kind)));
            rows.push(Row::new(cells));
        }
    }
    rows.truncate(TABLE_MOST);
    rows
}

/// A time in a cell; `-` where it is not known.
fn number(ns: Option<u64>) -> Line<'static> {
    let text = ns.map_or("-".to_owned(), duration_ns);
    Line::from(text).alignment(Alignment::Right)
}

/// The 99th percentile of the last interval, ns: of service and response times only, where the operation was done in
/// it.
fn last_p99(model: &LiveModel, op: &OpSoFar, kind: LatencyKind) -> Option<u64> {
    let row = model.rows().find(|row| (row.workload, row.op) == (op.workload, op.op))?;
    match kind {
        LatencyKind::Service => row.p99_ns,
        LatencyKind::Response => row.response_p99_ns,
        _ => None,
    }
}

/// The table with its heading, below an empty line; nothing without rows.
fn draw_table(rows: Vec<Row<'_>>, area: Rect, buffer: &mut Buffer) {
    if rows.is_empty() {
        return;
    }
    let percentiles = SHOWN.iter().map(|p| format!("{p} %"));
    let names = percentiles.chain(["max".to_owned(), "99 % now".to_owned()]);
    let names = names.map(|name| Line::from(name).alignment(Alignment::Right));
    let header = std::iter::once(Line::from("so far")).chain(names);
    let columns = SHOWN.len() + 2;
    let widths = [Constraint::Fill(1)]
        .into_iter()
        .chain(std::iter::repeat_n(Constraint::Length(8), columns));
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let table = Table::new(rows, widths).header(Row::new(header).dim()).column_spacing(1);
    Widget::render(table, below, buffer);
}

/// Successful operations a second of the last intervals, one a column; nothing without intervals or in three rows or
/// less.
fn draw_rates(model: &LiveModel, area: Rect, buffer: &mut Buffer) {
    let per_s = |i: &taillight_engine::collector::ClosedInterval| {
        let whole = i.ops.iter().filter(|op| !op.row.op.is_part());
        let done: u64 = whole.map(|op| op.row.ops - op.row.errors).sum();
        (done as f64 * 1e9 / i.length_ns.max(1) as f64).round() as u64
    };
    let kept = model.kept();
    let shown = &kept[kept.len().saturating_sub(area.width.into())..];
    let rates: Vec<u64> = shown.iter().map(|i| per_s(i)).collect();
    let Some(most) = rates.iter().max().copied().filter(|_| area.height > 3) else { return };
    let lowest = rates.iter().min().copied().unwrap_or(0);
    let (low, high) = (rate(lowest as f64), rate(most as f64));
    let title = format!("operations per second, last {} intervals: {low} to {high}", shown.len());
    let below = Rect { y: area.bottom() - 3, height: 3, ..area };
    Line::from(title).dim().render(Rect { y: below.y - 1, height: 1, ..area }, buffer);
    Sparkline::default().data(rates).style(Style::new().cyan()).render(below, buffer);
}

/// The heat strip of the operation with most I/Os, over the whole run; the page shows all. The row of a ceiling has a
/// red label with the ceiling, and cells above it are yellow. Nothing without I/Os or in [`FEWEST_HEAT`] rows or less.
fn draw_heat(model: &LiveModel, area: Rect, buffer: &mut Buffer) {
    let Some(op) = model.whole_ops().filter(|o| o.latencies.is_some()).max_by_key(|o| o.ops) else {
        return;
    };
    if area.height <= FEWEST_HEAT {
        return;
    }
    let kind = op.latencies.as_ref().map_or(LatencyKind::Service, |l| l.main_kind());
    let (rows, columns) =
        (usize::from(area.height - 2), usize::from(area.width.saturating_sub(LABELS + 1)));
    let strip = HeatStrip::of(&op.heat, rows, columns);
    let title = format!(
        "{} {} over the whole run, {} a column",
        model.op_name(op.workload, op.op),
        kind.words(),
        duration(strip.column_s * 1e9)
    );
    Line::from(title).dim().render(Rect { y: area.y + 1, height: 1, ..area }, buffer);
    let ceilings = model.ceilings_of(op);
    let most = strip.counts.iter().flatten().max().copied().unwrap_or(1).max(2);
    for (y, ((low, high), counts)) in (area.y + 2..).zip(strip.rows().rev()) {
        let held = ceilings.iter().map(|c| c.ceiling.0 as f64);
        let ceiling = held.into_iter().find(|ns| low <= *ns && *ns < high);
        let label = duration(ceiling.unwrap_or(low));
        let color = if ceiling.is_some() { Color::Red } else { Color::Reset };
        let label = Line::from(label).alignment(Alignment::Right).fg(color);
        label.render(Rect { y, width: LABELS, height: 1, ..area }, buffer);
        for (x, count) in (area.x + LABELS + 1..area.right()).zip(counts) {
            if *count > 0 {
                let share = (*count as f64).ln() / (most as f64).ln();
                let shade = SHADES[((share * 4.0) as usize).min(3)];
                let over = ceilings.iter().any(|c| low >= c.ceiling.0 as f64);
                let color = if over { Color::Yellow } else { Color::Cyan };
                buffer.set_string(x, y, shade, Style::new().fg(color));
            }
        }
    }
}

/// A heat map in so many rows and columns at most; neighbours are added.
struct HeatStrip {
    /// Edges between the rows, lowest first: one more than there are rows.
    edges_ns: Vec<f64>,
    /// I/Os by row, lowest first, and column, earliest first.
    counts: Vec<Vec<u64>>,
    /// Seconds a column.
    column_s: f64,
}

impl HeatStrip {
    fn of(heat: &GrowingHeat, rows: usize, columns: usize) -> HeatStrip {
        let (times_s, edges, counts) = heat.picture();
        let (tall, wide) = (counts.len().div_ceil(rows.max(1)), {
            times_s.len().saturating_sub(1).div_ceil(columns.max(1))
        });
        let (tall, wide) = (tall.max(1), wide.max(1));
        let sum = |rows: &[Vec<u64>]| {
            let columns = rows.first().map_or(0, Vec::len);
            let of = |from: usize| {
                let cells = rows.iter().flat_map(|row| row[from..].iter().take(wide));
                cells.sum()
            };
            (0..columns).step_by(wide).map(of).collect()
        };
        let low = edges.iter().take(counts.len()).step_by(tall);
        HeatStrip {
            edges_ns: low.chain(edges.last()).copied().collect(),
            counts: counts.chunks(tall).map(sum).collect(),
            column_s: times_s
                .get(wide.min(times_s.len().saturating_sub(1)))
                .copied()
                .unwrap_or(0.0),
        }
    }

    /// Edges and counts of each row, the lowest first.
    fn rows(&self) -> impl DoubleEndedIterator<Item = ((f64, f64), &Vec<u64>)> + ExactSizeIterator {
        let edges: Vec<(f64, f64)> = self.edges_ns.windows(2).map(|w| (w[0], w[1])).collect();
        edges.into_iter().zip(&self.counts)
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use taillight_rundir::host::HostRow;

    use super::*;
    use crate::feed::{LiveEvent, PlaceInSeries};
    use crate::model::tests::{SECOND, begun, interval};

    fn screen(model: &LiveModel, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(model, frame.buffer_mut())).unwrap();
        terminal.backend().to_string()
    }

    /// Nine seconds of growing load with a slow tail, and a second in which nothing was done.
    fn running() -> LiveModel {
        let mut model = begun();
        model.take(LiveEvent::Phase("measure".to_owned()));
        for second in 0..9 {
            let values = [(400_000, 900 + 50 * second as u64), (20_000_000, 1 + second as u64)];
            model.take(interval(second, &values, 0, (5, 32, 2_000_000)));
        }
        let facts = model.facts.as_mut().unwrap();
        facts.plan.run.name = "known".to_owned();
        facts.about = "read 4 KiB, depth 32".to_owned();
        facts.series = Some(PlaceInSeries { id: "02-depth-32".to_owned(), round: 2 });
        model.last.as_mut().unwrap().planned_ns = Some(30 * SECOND);
        let row = |source: &str, metric: &str, value| HostRow {
            source: source.into(),
            metric: metric.into(),
            item: (source == "disk").then(|| "nvme0n1".into()),
            value,
            ..HostRow::default()
        };
        let psi = row("psi", "io_some", 12.0);
        let cpu = [row("cpu", "%idle", 57.0), row("cpu", "%busiest", 100.0)];
        let sample = cpu.into_iter().chain([row("disk", "%util", 99.5), psi]);
        model.take(LiveEvent::Host(sample.collect()));
        model
    }

    #[test]
    fn a_run_is_seen_whole() {
        let model = running();
        insta::assert_snapshot!("wide", screen(&model, (120, 32)));
        insta::assert_snapshot!("least", screen(&model, (80, 16)));
    }

    #[test]
    fn a_stall_is_said_and_errors_are_counted() {
        let mut model = running();
        model.take(interval(9, &[], 3, (40, 32, 3 * SECOND)));
        let text = screen(&model, (80, 24));
        assert!(!text.contains("Stalled"), "failures are completions");
        assert!(text.contains("Errors\u{a0}3"), "{text}");
        model.take(interval(10, &[], 0, (90, 32, 4 * SECOND)));
        insta::assert_snapshot!("stalled", screen(&model, (80, 24)));
    }

    #[test]
    fn nothing_yet_is_no_figures_and_no_size_is_too_small_to_draw() {
        let mut model = begun();
        model.take(LiveEvent::Phase("warmup".to_owned()));
        let text = screen(&model, (80, 24));
        assert!(text.contains("Warming up"), "{text}");
        for width in [1, 3, 12, 300] {
            for height in [1, 5, 9, 17, 90] {
                let _ = screen(&running(), (width, height));
            }
        }
    }
}
