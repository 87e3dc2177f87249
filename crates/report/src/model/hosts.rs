//! Hosts and ranks of a run side by side, with a strip of the rate over time.

use taillight_rundir::Summary;
use taillight_rundir::scale::HostFigures;

use crate::format;
use crate::table::{Cell, Table, Tone};

/// Id of the table.
pub const HOSTS: &str = "hosts";
/// Heights in a strip, up to the largest rate of all hosts, or of all ranks.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of a strip at most.
const WIDTH: usize = 20;

/// One row a host, and one a rank where hosts have several; none of a run of one process.
pub fn table(summary: &Summary) -> Option<Table> {
    let all = summary.hosts.as_ref()?;
    let mut table = Table::new(
        HOSTS,
        "Hosts",
        &["", "ranks", "rate", "p50", "p99", "99.9 %", "max", "CPU", "rate over time"],
    );
    let single = all.hosts.iter().all(|host| host.ranks.len() == 1);
    let ranks = all.ranks.iter().filter(|_| !single);
    let most = |of: &[HostFigures]| of.iter().flat_map(|h| &h.strip).copied().fold(0.0, f64::max);
    for host in &all.hosts {
        table.rows.push(row(host.host.clone(), host, most(&all.hosts)));
    }
    for rank in ranks {
        let number = rank.ranks.first().copied().unwrap_or(0);
        table.rows.push(row(format!("rank {number}, {}", rank.host), rank, most(&all.ranks)));
    }
    table.note = Some(note(summary));
    Some(table)
}

fn row(name: String, of: &HostFigures, most: f64) -> Vec<Cell> {
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), format::duration_ns);
    let slower = of.against_others.is_some_and(|it| it.slower);
    let tone = if slower { Tone::Warn } else { Tone::Plain };
    let cpu = of.cpu.map_or("-".to_owned(), format::percent);
    let ranks: Vec<String> = of.ranks.iter().map(u32::to_string).collect();
    vec![
        Cell { tone, ..Cell::new(name) },
        Cell::new(ranks.join(" ")),
        Cell::new(format!("{}/s", format::rate(of.iops))),
        Cell::new(time(of.p50_ns)),
        Cell { tone, ..Cell::new(time(of.p99_ns)) },
        Cell::new(time(of.p999_ns)),
        Cell::new(time(of.max_ns)),
        Cell::new(cpu),
        Cell::new(strip(&of.strip, most)),
    ]
}

/// Rates as blocks of their height, and 0 as a dot; several intervals are one block, of their mean,
/// where there are too many.
fn strip(rates: &[f64], most: f64) -> String {
    let per = rates.len().div_ceil(WIDTH).max(1);
    let means = rates.chunks(per).map(|part| part.iter().sum::<f64>() / part.len() as f64);
    let block = |rate: f64| match rate {
        rate if rate <= 0.0 || most <= 0.0 => '·',
        rate => LEVELS[((rate / most * 8.0) as usize).min(7)],
    };
    means.map(block).collect()
}

/// Clocks, start and end, in a line.
fn note(summary: &Summary) -> String {
    let Some(all) = &summary.hosts else { return String::new() };
    let mut parts = Vec::new();
    parts.push(match all.clock_bound_ns {
        Some(ns) => {
            let drift =
                all.clock_drift_ppm.map(|ppm| format!(", drift {} ppm", format::digits3(ppm)));
            format!("clocks known to {}{}", format::duration_ns(ns), drift.unwrap_or_default())
        }
        None => "all ranks on one clock".to_owned(),
    });
    if let Some(ns) = all.start_spread_ns {
        parts.push(format!("first submits within {}", format::duration_ns(ns)));
    }
    if let Some(ns) = all.done_spread_ns {
        parts.push(format!("done within {}", format::duration_ns(ns)));
    }
    if let Some(share) = all.imbalance {
        parts.push(format!("most work over the mean: {}", format::percent(share)));
    }
    let mut text = parts.join("; ");
    text[..1].make_ascii_uppercase();
    text.push('.');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_has_a_dot_for_no_rate_and_twenty_columns_at_most() {
        assert_eq!(strip(&[100.0, 0.0, 50.0, 100.0], 100.0), "█·▅█");
        assert_eq!(strip(&[1.0; 100], 1.0).chars().count(), 20);
        assert_eq!(strip(&[], 0.0), "");
    }
}
