//! Several targets in tables and charts: figures side by side, and which distributions share a plot.

use taillight_report::RunGroup;
use taillight_report::table::{Cell, Table};
use taillight_rundir::series::PointRole;

use super::matrix_method::MatrixMethod;
use super::matrix_text::{figures, heading, over_rounds};
use super::targets::TARGET;
use crate::method::PointResult;

/// Several targets side by side: each setting of each phase with the figures of all of them.
pub(super) fn table(method: &MatrixMethod, done: &[PointResult]) -> Option<Table> {
    let axis = method.head.axes.iter().find(|a| a.path == TARGET)?;
    let names: Vec<&str> = axis.values.iter().filter_map(|v| v.as_str()).collect();
    let figures = figures(&method.suite);
    let mut rows: Vec<(String, Vec<Vec<&PointResult>>)> = Vec::new();
    for (at, phase) in method.suite.phases.iter().enumerate() {
        let Some(target) = phase.target.as_ref().filter(|_| phase.timed()) else { continue };
        let Some(column) = names.iter().position(|name| *name == target.name) else { continue };
        let results = match method.judged_rounds(at, done) {
            Some((_, results)) => results,
            None => method.results(at, done),
        };
        for result in results {
            let about = match result.point.coordinates.len() {
                0 | 1 => phase.name.clone(),
                _ => format!("{}: {}", phase.name, result.point.about),
            };
            let row = rows.iter().position(|(name, _)| *name == about).unwrap_or_else(|| {
                rows.push((about, vec![Vec::new(); names.len()]));
                rows.len() - 1
            });
            rows[row].1[column].push(result);
        }
    }
    let mut table = Table::new("targets", "Targets side by side", &["setting"]);
    let pairs = || figures.iter().flat_map(|figure| names.iter().map(move |name| (figure, name)));
    table.columns.extend(pairs().map(|(figure, name)| format!("{} {name}", heading(figure))));
    for (about, columns) in rows {
        let mut row = vec![Cell::new(about)];
        for figure in &figures {
            row.extend(columns.iter().map(|of| Cell::new(over_rounds(figure, of))));
        }
        table.rows.push(row);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Runs of several targets whose distributions belong into the same plots: those with role histogram, by
/// phase and chosen point. A suite without such has the last run of each phase without loops.
pub(super) fn groups(method: &MatrixMethod, done: &[PointResult]) -> Vec<RunGroup> {
    let phases = &method.suite.phases;
    let long = phases.iter().any(|p| p.role == PointRole::Histogram);
    let mut groups: Vec<RunGroup> = Vec::new();
    for (at, phase) in phases.iter().enumerate() {
        let Some(target) = &phase.target else { continue };
        let wanted = match long {
            true => phase.role == PointRole::Histogram,
            false => !phase.role.is_state() && phase.loops.is_empty() && phase.purge.is_none(),
        };
        let results = method.results(at, done);
        let all = phase.points.is_some();
        let first = if all { 0 } else { results.len().saturating_sub(1) };
        for result in results[first..].iter().filter(|r| wanted && r.summary.is_some()) {
            let names = phase.points.as_ref().map(|rule| rule.names());
            let point = names.and_then(|names| names.get(method.chosen(result)?).cloned());
            let title = point.map_or(phase.name.clone(), |name| format!("{}, {name}", phase.name));
            let Some(run) = done.iter().position(|r| r.point.id == result.point.id) else {
                continue;
            };
            let at = groups.iter().position(|g| g.title == title).unwrap_or_else(|| {
                groups.push(RunGroup { title, runs: Vec::new(), labels: Vec::new() });
                groups.len() - 1
            });
            groups[at].runs.push(run);
            groups[at].labels.push(target.name.clone());
        }
    }
    groups.retain(|group| group.runs.len() > 1);
    groups
}
