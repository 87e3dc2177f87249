//! One interval of a run as one line of numbers for the console, and the header above; columns are chosen to fit a
//! width.

use taillight_engine::IntervalView;
use taillight_report::format::{bytes_per_s, count, duration_ns, rate};
use taillight_rundir::intervals::IntervalRow;

/// One column of a line of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberColumn {
    Time,
    Phase,
    Iops,
    Bytes,
    /// Service times of an operation, by its place in `ops`; None: the longest of all operations.
    P50(usize),
    P99(Option<usize>),
    Max(Option<usize>),
    /// The longest p99 of all operations from their due times.
    Response,
    Backlog,
    Errors,
}
use NumberColumn::{Backlog, Bytes, Errors, Iops, Max, P50, P99, Phase, Response, Time};

/// What the lines of this run show.
#[derive(Debug, Clone)]
pub struct Columns {
    /// Names of the operations.
    ops: Vec<String>,
    columns: Vec<NumberColumn>,
    /// Length of a whole interval.
    interval_ns: u64,
    /// Whether each workload is measured; empty where all are.
    measured: Vec<bool>,
}

impl Columns {
    /// For a run with these operations (one name for each workload and kind), in lines of `width` columns: what
    /// does not fit is left out, the most telling last.
    pub fn new(ops: Vec<String>, open_loop: bool, interval_ns: u64, width: usize) -> Columns {
        let each = |columns: &dyn Fn(usize) -> Vec<NumberColumn>| {
            (0..ops.len()).flat_map(columns).collect::<Vec<_>>()
        };
        let with_p50 = each(&|op| vec![P50(op), P99(Some(op)), Max(Some(op))]);
        let own = each(&|op| vec![P99(Some(op)), Max(Some(op))]);
        let worst = vec![P99(None), Max(None)];
        let forms = [
            (vec![Time, Phase, Iops, Bytes], with_p50),
            (vec![Time, Phase, Iops, Bytes], own.clone()),
            (vec![Time, Phase, Iops], own),
            (vec![Time, Phase, Iops, Bytes], worst.clone()),
            (vec![Time, Phase, Iops], worst),
            (vec![Time, Iops], vec![P99(None)]),
        ];
        let responses = if open_loop { vec![Response, Backlog] } else { Vec::new() };
        let lines = forms.into_iter().map(|(head, latencies)| Columns {
            ops: ops.clone(),
            columns: [head, latencies, responses.clone(), vec![Errors]].concat(),
            interval_ns,
            measured: Vec::new(),
        });
        // Columns of their own for many operations would hide what belongs together.
        let few = |line: &Columns| ops.len() <= 3 || line.columns.contains(&P99(None));
        let mut lines: Vec<Columns> = lines.filter(few).collect();
        if open_loop {
            let columns = vec![Time, Iops, Response, Errors];
            lines.push(Columns { ops: ops.clone(), columns, interval_ns, measured: Vec::new() });
        }
        let fits = lines.iter().position(|line| line.header().chars().count() <= width);
        lines.swap_remove(fits.unwrap_or(lines.len() - 1))
    }

    /// The same where workloads are `measured` or load alone: load is in no sum (rate, bytes, errors).
    pub fn of(self, measured: impl Iterator<Item = bool>) -> Columns {
        Columns { measured: measured.collect(), ..self }
    }

    /// The line above the numbers.
    pub fn header(&self) -> String {
        self.line(|column| self.heading(column))
    }

    fn heading(&self, column: NumberColumn) -> String {
        let of = |op: usize, what: &str| match self.ops.as_slice() {
            [_] => what.to_owned(),
            ops => format!("{} {what}", ops[op]),
        };
        match column {
            Time => "time".to_owned(),
            Phase => "phase".to_owned(),
            Iops => "IOPS".to_owned(),
            Bytes => "bytes/s".to_owned(),
            P50(op) => of(op, "p50"),
            P99(Some(op)) if self.columns.contains(&P50(op)) => "p99".to_owned(),
            P99(Some(op)) => of(op, "p99"),
            P99(None) => "worst p99".to_owned(),
            Max(_) => "max".to_owned(),
            Response => "resp p99".to_owned(),
            Backlog => "backlog".to_owned(),
            Errors => "errors".to_owned(),
        }
    }

    /// Cells in their columns, each as wide as its heading and as most of its figures.
    fn line(&self, cell: impl Fn(NumberColumn) -> String) -> String {
        let cells = self.columns.iter().map(|column| {
            let least = match column {
                Phase | Time => 7,
                Iops => 9,
                Bytes => 10,
                Errors => 6,
                _ => 8,
            };
            let width = least.max(self.heading(*column).chars().count());
            match column {
                Phase => format!("{:<width$}", cell(*column)),
                _ => format!("{:>width$}", cell(*column)),
            }
        });
        cells.collect::<Vec<_>>().join(" ")
    }

    pub fn row(&self, view: &IntervalView) -> String {
        let mut text = self.line(|column| self.cell(column, view));
        if view.provisional {
            text.push_str("  (a worker still waits for an I/O)");
        }
        text
    }

    fn cell(&self, column: NumberColumn, view: &IntervalView) -> String {
        let counts =
            |row: &&IntervalRow| self.measured.get(usize::from(row.workload)) != Some(&false);
        let sum = |f: fn(&IntervalRow) -> u64| whole(view).filter(counts).map(f).sum::<u64>();
        let seconds = view.closed.length_ns.max(1) as f64 / 1e9;
        let most = |f: fn(&IntervalRow) -> Option<u64>| time(whole(view).filter_map(f).max());
        let of = |op: Option<usize>, f: fn(&IntervalRow) -> Option<u64>| match op {
            Some(op) => time(whole(view).nth(op).and_then(f)),
            None => most(f),
        };
        // What completes in the moment of a short last interval is no rate.
        let is_moment = view.closed.index > 0 && view.closed.length_ns < self.interval_ns / 10;
        match column {
            Iops | Bytes if is_moment => "-".to_owned(),
            // Warm-up has a count of its own: measured time begins after it.
            Time if view.phase == "measure" => clock(view.elapsed_ns, self.interval_ns),
            Time => {
                let begun_ns = u64::from(view.closed.index) * self.interval_ns;
                clock(begun_ns + view.closed.length_ns, self.interval_ns)
            }
            Phase => view.phase.to_owned(),
            Iops => rate(sum(|row| row.ops - row.errors) as f64 / seconds),
            Bytes => bytes_per_s(sum(|row| row.bytes) as f64 / seconds),
            P50(op) => of(Some(op), |l| l.p50_ns),
            P99(op) => of(op, |l| l.p99_ns),
            Max(op) => of(op, |l| l.max_ns),
            Response => most(|l| l.response_p99_ns),
            Backlog => view.closed.backlog.map_or("-".to_owned(), count),
            Errors => count(sum(|row| row.errors)),
        }
    }
}

/// The rows of operations: all but the parts of read-modify-writes.
fn whole(view: &IntervalView) -> impl Iterator<Item = &IntervalRow> {
    view.rows().filter(|row| !row.op.is_part())
}

fn time(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), duration_ns)
}

/// The end of an interval, as fine as the intervals are; a shorter last one shows its part.
fn clock(ns: u64, interval_ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    let digits: usize = match interval_ns {
        0..10_000_000 => 3,
        10_000_000..100_000_000 => 2,
        900_000_000.. if interval_ns.is_multiple_of(1_000_000_000) => 0,
        _ => 1,
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
                let columns = Columns::new(names, open_loop, 1_000_000_000, 80);
                let (header, row) = (
                    columns.header(),
                    columns.row(&view(ops[..n].iter().copied().map(interval_row).collect())),
                );
                assert_eq!(header.len(), row.len(), "\n{header}\n{row}");
                assert!(header.len() <= 80, "{header}");
            }
        }
    }

    #[test]
    fn two_operations_fit_80_columns_with_their_own_tails() {
        let names = || vec!["read".to_owned(), "write".to_owned()];
        let closed = Columns::new(names(), false, 1_000_000_000, 80).header();
        assert!(closed.contains("read p99") && closed.contains("write p99"), "{closed}");
        let narrow = Columns::new(names(), false, 1_000_000_000, 50).header();
        assert!(narrow.contains("worst p99") && narrow.len() <= 50, "{narrow}");
    }

    #[test]
    fn times_are_as_fine_as_the_intervals() {
        const S: u64 = 1_000_000_000;
        assert_eq!(clock(3 * S, S), "3 s");
        assert_eq!(clock(3 * S / 2, 3 * S / 2), "1.5 s");
        assert_eq!(clock(2_290_000_000, S), "2.3 s");
        assert_eq!(clock(3 * S, S / 10), "3.0 s");
        assert_eq!(clock(3 * S, S / 1000), "3.000 s");
    }

    #[test]
    fn load_that_is_not_measured_is_in_no_sum() {
        let load = IntervalRow { workload: 1, ..interval_row(OpKind::Write) };
        let names = || vec!["a read".to_owned(), "b write".to_owned()];
        let columns = Columns::new(names(), false, 1_000_000_000, 120);
        let both = view(vec![interval_row(OpKind::Read), load]);
        assert!(columns.row(&both).contains(" 2,000 "));
        let row = columns.of([true, false].into_iter()).row(&both);
        assert!(row.contains(" 1,000 ") && row.ends_with(" 1"), "{row}");
    }

    /// Eight operations that ended in the last ns were 8 G a second.
    #[test]
    fn a_moment_has_no_rate() {
        let columns = Columns::new(vec!["read".into()], false, 1_000_000_000, 80);
        let rate = |length_ns, index| {
            let whole = view(vec![interval_row(OpKind::Read)]);
            let closed = ClosedInterval { length_ns, index, ..(*whole.closed).clone() };
            let row = columns.row(&IntervalView { closed: closed.into(), ..whole });
            row.split_whitespace().nth(3).map(str::to_owned)
        };
        assert_eq!(rate(1, 2).as_deref(), Some("-"));
        assert_eq!(rate(500_000_000, 2).as_deref(), Some("2,000"));
        assert!(rate(1, 0).is_some_and(|rate| rate != "-"), "a run that was no longer");
    }

    #[test]
    fn nothing_done_shows_dashes() {
        let empty = IntervalRow { op: OpKind::Read, ops: 1, ..IntervalRow::default() };
        let row =
            Columns::new(vec!["read".into()], false, 1_000_000_000, 80).row(&view(vec![empty]));
        assert!(row.contains(" - "), "{row}");
    }
}
