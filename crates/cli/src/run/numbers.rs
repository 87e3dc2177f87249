//! One interval as one line of numbers.

use taillight_engine::IntervalView;
use taillight_report::format::{Script, bytes_per_s, count, duration_ns, rate};
use taillight_rundir::intervals::IntervalRow;

/// Most operations that get columns of their own.
const OWN_COLUMNS: usize = 2;

/// What the lines of this run show.
#[derive(Debug, Clone)]
pub struct Columns {
    /// Names of the operations with latency columns; empty when there are too many.
    ops: Vec<String>,
    /// Whether intended times exist.
    open_loop: bool,
    /// Length of a whole interval.
    interval_ns: u64,
}

impl Columns {
    /// For a run with these operations (one name for each workload and kind).
    pub fn new(ops: Vec<String>, open_loop: bool, interval_ns: u64) -> Columns {
        let ops = if ops.len() > OWN_COLUMNS { Vec::new() } else { ops };
        Columns { ops, open_loop, interval_ns }
    }

    /// The lines above the numbers.
    pub fn header(&self) -> String {
        let mut text = format!("{:>8}  {:<7} {:>10} {:>12}", "time", "phase", "IOPS", "bytes/s");
        match self.ops.as_slice() {
            [] => text.push_str(&format!(" {:>9} {:>9}", "worst p99", "max")),
            [_] => text.push_str(&format!(" {:>9} {:>9} {:>9}", "p50", "p99", "max")),
            many => {
                for op in many {
                    let p50 = format!("{op} p50");
                    text.push_str(&format!("  {p50:>12} {:>9} {:>9}", "p99", "max"));
                }
            }
        }
        if self.open_loop {
            text.push_str(&format!(" {:>9} {:>9}", "resp p99", "backlog"));
        }
        text + &format!(" {:>7}", "errors")
    }

    pub fn row(&self, view: &IntervalView) -> String {
        let sum = |f: fn(&IntervalRow) -> u64| whole(view).map(f).sum::<u64>();
        let seconds = view.closed.length_ns.max(1) as f64 / 1e9;
        // Warm-up has a count of its own: measured time begins after it.
        let end_ns = match view.phase {
            "measure" => view.elapsed_ns,
            _ => u64::from(view.closed.index) * self.interval_ns + view.closed.length_ns,
        };
        let mut text = format!(
            "{:>8}  {:<7} {:>10} {:>12}",
            clock(end_ns, self.interval_ns),
            view.phase,
            rate(sum(|row| row.ops - row.errors) as f64 / seconds),
            bytes_per_s(sum(|row| row.bytes) as f64 / seconds)
        );
        text.push_str(&self.latencies(view));
        if self.open_loop {
            let response = whole(view).filter_map(|l| l.response_p99_ns).max();
            let backlog = view.closed.backlog.map_or("-".to_owned(), count);
            text.push_str(&format!(" {:>9} {backlog:>9}", time(response)));
        }
        text.push_str(&format!(" {:>7}", count(sum(|row| row.errors))));
        if view.provisional {
            text.push_str("  (a worker still waits for an I/O)");
        }
        text
    }

    fn latencies(&self, view: &IntervalView) -> String {
        let most = |f: fn(&IntervalRow) -> Option<u64>| whole(view).filter_map(f).max();
        if self.ops.is_empty() {
            let (p99, max) = (most(|l| l.p99_ns), most(|l| l.max_ns));
            return format!(" {:>9} {:>9}", time(p99), time(max));
        }
        let mut text = String::new();
        for i in 0..self.ops.len() {
            let line = whole(view).nth(i);
            let of = |f: fn(&IntervalRow) -> Option<u64>| time(line.and_then(f));
            let (p50, p99, max) = (of(|l| l.p50_ns), of(|l| l.p99_ns), of(|l| l.max_ns));
            let cells = match self.ops.len() {
                1 => format!(" {p50:>9} {p99:>9} {max:>9}"),
                _ => format!("  {p50:>12} {p99:>9} {max:>9}"),
            };
            text.push_str(&cells);
        }
        text
    }
}

/// The rows of operations: all but the parts of read-modify-writes.
fn whole(view: &IntervalView) -> impl Iterator<Item = &IntervalRow> {
    view.rows().filter(|row| !row.op.is_part())
}

fn time(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| duration_ns(ns, Script::Plain))
}

/// The end of an interval, as fine as the intervals are; a shorter last one shows its part.
fn clock(ns: u64, interval_ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    let digits: usize = match interval_ns {
        0..10_000_000 => 3,
        10_000_000..100_000_000 => 2,
        100_000_000..900_000_000 => 1,
        _ => 0,
    };
    let whole = ns.is_multiple_of(interval_ns.max(1));
    let digits = if whole { digits } else { digits.max(1) };
    format!("{seconds:.digits$} s")
}

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;
    use taillight_engine::collector::{ClosedInterval, ClosedOp};

    use super::*;

    fn interval_row(op: OpKind) -> IntervalRow {
        IntervalRow {
            op,
            ops: 1001,
            bytes: 4_096_000,
            errors: 1,
            p50_ns: Some(80_000),
            p99_ns: Some(2_500_000),
            max_ns: Some(1_200_000_000),
            response_p99_ns: Some(3_000_000),
            ..IntervalRow::default()
        }
    }

    fn view(rows: Vec<IntervalRow>) -> IntervalView {
        let op = |row| ClosedOp { row, ..ClosedOp::default() };
        let closed = ClosedInterval {
            index: 2,
            length_ns: 1_000_000_000,
            ops: rows.into_iter().map(op).collect(),
            backlog: Some(12),
            ..ClosedInterval::default()
        };
        IntervalView {
            phase: "measure",
            elapsed_ns: 3_000_000_000,
            planned_ns: None,
            operations: (0, None),
            closed: closed.into(),
            provisional: false,
        }
    }

    #[test]
    fn numbers_stand_below_their_names() {
        let ops = [OpKind::Read, OpKind::Write, OpKind::Trim];
        for n in 1..=3 {
            for open_loop in [false, true] {
                let names = ops[..n].iter().map(|o| o.name().to_owned()).collect();
                let columns = Columns::new(names, open_loop, 1_000_000_000);
                let (header, row) = (
                    columns.header(),
                    columns.row(&view(ops[..n].iter().copied().map(interval_row).collect())),
                );
                assert_eq!(header.len(), row.len(), "\n{header}\n{row}");
            }
        }
    }

    #[test]
    fn times_are_as_fine_as_the_intervals() {
        const S: u64 = 1_000_000_000;
        assert_eq!(clock(3 * S, S), "3 s");
        assert_eq!(clock(2_290_000_000, S), "2.3 s");
        assert_eq!(clock(3 * S, S / 10), "3.0 s");
        assert_eq!(clock(3 * S, S / 1000), "3.000 s");
    }

    #[test]
    fn nothing_done_shows_dashes() {
        let empty = IntervalRow { op: OpKind::Read, ops: 1, ..IntervalRow::default() };
        let row = Columns::new(vec!["read".into()], false, 1_000_000_000).row(&view(vec![empty]));
        assert!(row.contains(" - "), "{row}");
    }
}
