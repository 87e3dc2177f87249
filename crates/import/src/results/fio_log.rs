//! fio's logs of latencies, bandwidth and I/Os per second (`write_lat_log`, `write_bw_log`, `write_iops_log`): a row an
//! I/O, or with `log_avg_msec` a row a window.
//!
//! Source: fio, `iolog.c` (`flush_samples`) and HOWTO, "Log File Formats". What a value is stands in fio's file name
//! and not in the file: a file of another name needs `--unit`, and so do latencies of early versions, in us or in ns.

use std::collections::BTreeMap;

use taillight_core::{Error, OpKind, Record, Result, Stamp};
use taillight_rundir::origin::ImportedOp;

use super::every_io::{BASE_NS, EveryIo};
use super::{
    ForeignResult, ForeignRun, ForeignWorkload, LAST_NS, ResultSource, ResultUnit, block_of,
    name_of, unpacked_name,
};

/// Lines at the beginning of which one must be a row.
const FIRST_LINES: usize = 10;

/// What the values of a log are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogValue {
    /// Latencies, and what they span.
    Latency(&'static str),
    /// KiB/s.
    Bandwidth,
    Iops,
}

/// The end of the name of a log that has a part of each latency.
const SUBMISSION: &str = "_slat";
const KINDS: [(&str, LogValue); 4] = [
    ("_clat", LogValue::Latency("from issue to completion (clat), submission left out")),
    ("_lat", LogValue::Latency("from the start of submission to completion (lat)")),
    ("_bw", LogValue::Bandwidth),
    ("_iops", LogValue::Iops),
];

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogRow {
    /// ms since the job began: the completion, or the end of a window.
    time_ms: i64,
    value: i64,
    op: OpKind,
    /// 0 of a window.
    size: u64,
    offset: Option<u64>,
    /// The only column after the size, where it may be a priority as well as an offset.
    either: Option<u64>,
    /// ns since the job began: the begin of what the value spans.
    issue_ns: Option<i64>,
    /// Whether the row has no priority, as rows of fio 2 and of early versions of fio 3.
    old: bool,
}

impl LogRow {
    /// With its value in ns, or why that is none.
    fn times(self, unit_ns: i64) -> std::result::Result<LogRow, &'static str> {
        let value = self.value.checked_mul(unit_ns).filter(|ns| *ns <= LAST_NS);
        Ok(LogRow { value: value.ok_or("the value is beyond any latency")?, ..self })
    }
}

pub fn looks_like(head: &str) -> bool {
    head.lines().take(FIRST_LINES).any(has_columns)
}

/// Whether a line has as many numbers as a row, good ones or not, with the direction at its place.
fn has_columns(line: &str) -> bool {
    let number = |text: &str| {
        let digits = text.trim().trim_start_matches('-');
        digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    };
    let fields: Vec<&str> = line.split(',').collect();
    (4..=8).contains(&fields.len())
        && fields[..4].iter().all(|field| number(field))
        && [2, 3].iter().any(|at| fields[*at].trim().len() == 1)
}

pub fn read(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    let (value, unit_ns) = kind(source)?;
    let latency = matches!(value, LogValue::Latency(_));
    let mut layouts = LogLayouts::default();
    rows(source, &mut |parsed, place| {
        let in_ns = parsed.map(|row| row.and_then(|row| row.times(unit_ns)));
        layouts.row(in_ns, latency, place)
    })?;
    let found = layouts.found(source)?;
    if latency && found.old && source.unit.is_none() {
        let what = "whether these latencies are in us (fio 2) or in ns (fio 3) is not in the log";
        return Err(Error::usage(what)
            .with("path", source.file)
            .hint("say it with --unit us or --unit ns; logs of later versions have a priority in each row"));
    }
    if latency && !found.old && source.unit == Some(ResultUnit::Us) {
        return Err(Error::usage("the log of fio is in another unit")
            .with("path", source.file)
            .with("--unit", ResultUnit::Us.name())
            .hint("its rows have a priority, as fio 3 writes them: in ns, without --unit"));
    }
    let mut notes = Vec::new();
    let ops = match (value, found.windows) {
        (LogValue::Latency(_), Some(false)) => found.every.ops(0),
        (_, windows) => found.averages(value, windows == Some(true), &mut notes),
    };
    let spans = match value {
        LogValue::Latency(spans) => spans,
        _ => "not in it",
    };
    let block = block_of(&ops);
    let offsets = found.offsets;
    let rows = found.every.any().then(|| {
        found.every.rows(Box::new(move |source, sink| {
            rows(source, &mut |[row, _], place| match row.and_then(|row| row.times(unit_ns)) {
                Ok(row) => sink((0, 0), &record(&row, offsets)),
                Err(why) => Err(place.damaged(why)),
            })
        }))
    });
    ForeignResult {
        tool: "fio",
        driver: "file",
        name: name_of(source.file),
        spans: spans.to_owned(),
        ended_ns: found.span.ended_ns(),
        workloads: ForeignWorkload::only(source.file, 1, block, ops),
        notes,
        rows,
        ..ForeignResult::default()
    }
    .run(source)
}

/// What the values are: what the user says, else fio's name of the file; and ns of one, for latencies. Errors: `Usage`
/// where neither tells, and for submissions, which are no latency of an I/O.
fn kind(source: &ResultSource<'_>) -> Result<(LogValue, i64)> {
    let name = std::path::Path::new(source.file).file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let stem = unpacked_name(&name).strip_suffix(".log").unwrap_or_default();
    let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('.');
    if stem.ends_with(SUBMISSION) {
        let what = "this log of fio has the times of submission alone (slat), which are a part of each latency";
        return Err(Error::usage(what)
            .with("path", source.file)
            .hint("give the log that fio writes beside it, _lat or _clat: it has the latencies"));
    }
    let named = KINDS.iter().find(|(end, _)| stem.ends_with(end)).map(|(_, value)| *value);
    match (source.unit, named) {
        (None, Some(value)) => Ok((value, 1)),
        (Some(ResultUnit::Kib), None | Some(LogValue::Bandwidth)) => Ok((LogValue::Bandwidth, 1)),
        (Some(ResultUnit::Iops), None | Some(LogValue::Iops)) => Ok((LogValue::Iops, 1)),
        (Some(unit @ (ResultUnit::Ns | ResultUnit::Us)), None | Some(LogValue::Latency(_))) => {
            let untold = "of a kind that the file does not tell (slat, clat or lat)";
            let unit_ns = if unit == ResultUnit::Us { 1_000 } else { 1 };
            Ok((named.unwrap_or(LogValue::Latency(untold)), unit_ns))
        }
        (None, None) => Err(Error::usage("what the values of this log of fio are is not in it")
            .with("path", source.file)
            .hint("say it with --unit: ns for latencies (us of fio 2), kib/s or iops; fio's own file names tell it, too")),
        (Some(said), _) => Err(Error::usage("the log of fio is in another unit")
            .with("path", source.file)
            .with("--unit", said.name())
            .hint("latencies are in ns, of fio 2 in us, bandwidth in kib/s; a file name of fio's tells which it is")),
    }
}

/// A row by each layout, or why it is none: a value a row, and two of them.
type ParsedRow = [std::result::Result<LogRow, &'static str>; 2];

/// What a log holds by each layout that all of its rows have. A row alone does not tell which it is.
struct LogLayouts([std::result::Result<FoundRows, &'static str>; 2]);

impl Default for LogLayouts {
    fn default() -> LogLayouts {
        LogLayouts([Ok(FoundRows::default()), Ok(FoundRows::default())])
    }
}

impl LogLayouts {
    /// Errors: `Corrupt` for a row with which no layout is left.
    fn row(&mut self, parsed: ParsedRow, latency: bool, place: &ResultSource<'_>) -> Result<()> {
        let mut last = None;
        for (layout, row) in self.0.iter_mut().zip(parsed) {
            let Ok(found) = layout else { continue };
            match row.and_then(|row| found.fits(&row).map(|()| row)) {
                Ok(row) => found.add(&row, latency).map_err(|e| place.placed(e))?,
                Err(why) => {
                    last = last.or(Some(why));
                    *layout = Err(why);
                }
            }
        }
        match (last, self.0.iter().any(|layout| layout.is_ok())) {
            (Some(why), false) => Err(place.damaged(format!("no row of a log of fio: {why}"))),
            _ => Ok(()),
        }
    }

    /// Where both are left, I/Os of a byte or two are none, and rows of zeros say the same by both. Errors: `Usage`
    /// where it cannot be told.
    fn found(self, source: &ResultSource<'_>) -> Result<FoundRows> {
        let [one, two] = self.0;
        match (one, two) {
            (Ok(one), Err(_)) => Ok(one),
            (Err(_), Ok(two)) => Ok(two),
            (Ok(one), Ok(_))
                if one.sums.keys().all(|op| *op == OpKind::Read) && one.windows != Some(false) =>
            {
                Ok(one)
            }
            (Ok(one), Ok(two)) if one.windows == Some(false) => Ok(two),
            (Ok(_), Ok(_)) => {
                Err(Error::usage("whether a row of this log has one value or two cannot be told")
                    .with("path", source.file)
                    .hint("log one value: log_window_value=avg"))
            }
            (Err(why), Err(_)) => Err(source.damaged(why)),
        }
    }
}

/// What all rows gave.
#[derive(Default)]
struct FoundRows {
    every: EveryIo,
    /// Whether rows are windows.
    windows: Option<bool>,
    /// Some row has an offset.
    offsets: bool,
    /// Some row is one of an early version.
    old: bool,
    sums: BTreeMap<OpKind, RowSum>,
    span: LogSpan,
}

/// What the rows of an operation gave.
#[derive(Default)]
struct RowSum {
    rows: u64,
    bytes: u64,
    values: f64,
    /// Of the last row: its time, the time since the row before it, and its value.
    last_ms: i64,
    last_window_ms: i64,
    last_value: f64,
}

impl RowSum {
    fn add(&mut self, row: &LogRow) {
        let value = row.value as f64;
        self.rows += 1;
        self.bytes = self.bytes.saturating_add(row.size);
        self.values += value;
        (self.last_window_ms, self.last_ms) = (row.time_ms - self.last_ms, row.time_ms);
        self.last_value = value;
    }

    /// The mean of windows of `step_ms`, each counted once: a last one that is shorter, by its share of a step.
    fn mean(&self, step_ms: Option<i64>) -> f64 {
        // The ends of whole windows are not exact.
        let is_short = |step: &i64| (1..step - step / 10).contains(&self.last_window_ms);
        let short = step_ms.filter(is_short).filter(|_| self.rows > 1);
        let share = short.map_or(1.0, |step| self.last_window_ms as f64 / step as f64);
        (self.values - self.last_value * (1.0 - share)) / (self.rows as f64 - 1.0 + share)
    }
}

/// From which moment to which a log of fio is, ms. It counts from the job's begin, or by a clock (`log_unix_epoch`,
/// `log_alternate_epoch`).
#[derive(Default)]
pub(super) struct LogSpan {
    /// The least.
    first: i64,
    last: i64,
    /// Operation and moment of the first row.
    begun: Option<(OpKind, i64)>,
    /// Between the first two moments of that operation: fio writes the rows of each by themselves.
    step: Option<i64>,
}

impl LogSpan {
    /// Later than any job is long, ms: a moment since 1970.
    const EPOCH_MS: i64 = 100_000_000_000;

    pub fn add(&mut self, ms: i64, op: OpKind) {
        if self.begun.is_none() {
            self.first = ms;
        }
        let (of, from) = *self.begun.get_or_insert((op, ms));
        if self.step.is_none() && op == of && ms != from {
            self.step = Some((ms - from).abs());
        }
        self.first = self.first.min(ms);
        self.last = self.last.max(ms);
    }

    /// Rows with `windows` are the end of one each, so that the first began a window before.
    pub fn duration_ns(&self, windows: bool) -> u64 {
        let since = self.last.saturating_sub(self.first);
        let alone = if self.first < Self::EPOCH_MS { self.first } else { 0 };
        let window = if windows { self.step.unwrap_or(alone).min(self.first) } else { 0 };
        u64::try_from(since.saturating_add(window)).unwrap_or(0).max(1).saturating_mul(1_000_000)
    }

    /// The end, ns since 1970; 0 where it is not told.
    pub fn ended_ns(&self) -> i64 {
        if self.first < Self::EPOCH_MS { 0 } else { self.last.saturating_mul(1_000_000) }
    }
}

impl FoundRows {
    /// Errors: where a row is no window and others are, or the other way round.
    fn fits(&self, row: &LogRow) -> std::result::Result<(), &'static str> {
        match self.windows.is_none_or(|windows| windows == (row.size == 0)) {
            true => Ok(()),
            false => Err("a row of averages among those of single I/Os"),
        }
    }

    /// Errors: as [`EveryIo::add`].
    fn add(&mut self, row: &LogRow, latency: bool) -> Result<()> {
        self.windows = Some(row.size == 0);
        self.offsets |= row.offset.is_some();
        self.old |= row.old;
        self.sums.entry(row.op).or_default().add(row);
        self.span.add(row.time_ms, row.op);
        match latency && row.size > 0 {
            true => self.every.add((0, 0), &record(row, false)),
            false => Ok(()),
        }
    }

    /// Operations of logs without single latencies: of windows the mean of the values ([`RowSum::mean`]); of single I/Os
    /// of a log of rates their count and bytes.
    fn averages(
        &self,
        value: LogValue,
        windows: bool,
        notes: &mut Vec<String>,
    ) -> BTreeMap<OpKind, ImportedOp> {
        if windows {
            notes.push(
                "the log holds averages of windows (log_avg_msec; with log_max_value the most of each), each counted once \
                 here, a shorter last one by its share: how many I/Os a window had is not in it, and there is no percentile \
                 of I/Os"
                    .to_owned(),
            );
        }
        let duration_ns = self.span.duration_ns(windows);
        let seconds = duration_ns as f64 / 1e9;
        let op = |(op, sum): (&OpKind, &RowSum)| {
            let mean = sum.mean(self.span.step);
            let mut it = ImportedOp { duration_ns, ..ImportedOp::default() };
            match (windows, value) {
                (true, LogValue::Latency(_)) => it.latency.mean_ns = Some(mean),
                (true, LogValue::Bandwidth) => it.bytes_per_s = mean * 1024.0,
                (true, LogValue::Iops) => it.iops = mean,
                (false, _) => {
                    (it.count, it.bytes) = (sum.rows, sum.bytes);
                    it.iops = sum.rows as f64 / seconds;
                    it.bytes_per_s = sum.bytes as f64 / seconds;
                }
            }
            (*op, it)
        };
        self.sums.iter().map(op).collect()
    }
}

/// A row of a log of latencies: fio stamps the completion, in ms, and with `log_issue_time` the issue in ns.
/// `offsets`: the column after the size is one.
fn record(row: &LogRow, offsets: bool) -> Record {
    let completed = row.time_ms.saturating_mul(1_000_000).saturating_sub(row.value);
    let submit = BASE_NS.saturating_add(row.issue_ns.unwrap_or(completed));
    Record {
        op: row.op,
        offset: row.offset.or(row.either.filter(|_| offsets)),
        size: row.size,
        submit: Stamp(submit),
        complete: Stamp(submit.saturating_add(row.value)),
        ..Record::default()
    }
}

fn rows(
    source: &mut ResultSource<'_>,
    each: &mut dyn FnMut(ParsedRow, &ResultSource<'_>) -> Result<()>,
) -> Result<()> {
    while let Some(line) = source.next_line()? {
        if line.is_empty() {
            continue;
        }
        let parsed = parse(line);
        if !source.ended() {
            return Err(source.cut("the last row has no end"));
        }
        each(parsed, source)?;
    }
    Ok(())
}

/// `time, value, direction, size[, offset][, priority[, issue]]`; with `log_window_value=both` a second value.
fn parse(line: &str) -> ParsedRow {
    let mut fields = [""; 8];
    let mut n = 0;
    for field in line.split(',') {
        let Some(place) = fields.get_mut(n) else { return [Err("too many columns"); 2] };
        *place = field.trim();
        n += 1;
    }
    [false, true].map(|both| row(&fields, n, both))
}

/// `both`: with two values, the mean of a window and the most of it.
fn row(fields: &[&str; 8], n: usize, both: bool) -> std::result::Result<LogRow, &'static str> {
    const FEWEST: usize = 4;
    if n < FEWEST || both && n < FEWEST + 2 {
        return Err("too few columns");
    }
    let number = |i: usize| fields[i].parse::<i64>().ok().filter(|v| (0..=LAST_NS).contains(v));
    let value = number(1).ok_or("the value is no whole number, or beyond any latency")?;
    let is_priority = |i: usize| i < n && (fields[i].starts_with("0x") || fields[i].len() == 1);
    if both
        && (number(2) < Some(value)
            || number(4) != Some(0)
            || !(is_priority(n - 1) || is_priority(n - 2)))
    {
        return Err("the second value is none");
    }
    let at = if both { 3 } else { 2 };
    let op = match fields[at] {
        "0" => OpKind::Read,
        "1" => OpKind::Write,
        "2" => OpKind::Trim,
        _ => return Err("the direction is not 0, 1 or 2"),
    };
    let rest = at + 2;
    let (offset, issue) = match n - rest {
        0 => (None, None),
        1 if is_priority(rest) => (None, None),
        1 => (Some(rest), None),
        2 if is_priority(rest + 1) => (Some(rest), None),
        2 => (None, Some(rest + 1)),
        _ => (Some(rest), Some(rest + 2)),
    };
    let either = (n - rest == 1 && is_priority(rest)).then(|| number(rest)).flatten();
    let given = |i: Option<usize>, why| i.map(|i| number(i).ok_or(why)).transpose();
    Ok(LogRow {
        time_ms: number(0)
            .filter(|ms| *ms <= LAST_NS / 1_000_000)
            .ok_or("the time is no whole number, or beyond any run")?,
        value,
        op,
        size: number(at + 1).ok_or("the size is no number")? as u64,
        offset: given(offset, "the offset is no number")?.map(|v| v as u64),
        either: either.map(|v| v as u64),
        old: n == rest || (n - rest == 1 && !is_priority(rest)),
        issue_ns: given(issue, "the time of issue is no number")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once a run with a log by the clock (`log_unix_epoch`) took 56 years.
    #[test]
    fn a_log_is_as_long_as_its_rows_whatever_they_count_from() {
        let (r, w) = (OpKind::Read, OpKind::Write);
        for from in [0, 1_700_000_000_000] {
            let mut span = LogSpan::default();
            [500, 500, 1000, 1500, 2000].iter().for_each(|ms| span.add(from + ms, r));
            assert_eq!(span.duration_ns(true), 2_000_000_000, "{from}");
            assert_eq!(span.duration_ns(false), 1_500_000_000, "{from}");
            assert_eq!(span.ended_ns() > 0, from > 0);
        }
        let mut one = LogSpan::default();
        one.add(700, r);
        assert_eq!((one.duration_ns(true), one.duration_ns(false)), (700_000_000, 1_000_000));
        // Each direction has windows of its own, a little apart.
        let mut mixed = LogSpan::default();
        [(1000, r), (1001, w), (2000, r), (2001, w)]
            .iter()
            .for_each(|(ms, op)| mixed.add(*ms, *op));
        assert_eq!(mixed.duration_ns(true), 2_001_000_000);
        let mut late = LogSpan::default();
        [(1001, w), (1000, r)].iter().for_each(|(ms, op)| late.add(*ms, *op));
        assert_eq!((late.duration_ns(true), late.duration_ns(false)), (1_001_000_000, 1_000_000));
    }

    #[test]
    fn columns_are_told_apart() {
        let row = |line: &str| {
            let row = parse(line)[0].unwrap();
            (row.value, row.op, row.size, row.offset, row.issue_ns)
        };
        let (r, w) = (OpKind::Read, OpKind::Write);
        assert_eq!(row("2, 90, 0, 4096"), (90, r, 4096, None, None));
        assert_eq!(row("2, 90, 1, 4096, 0"), (90, w, 4096, None, None));
        assert_eq!(row("2, 90, 0, 4096, 0x2004"), (90, r, 4096, None, None));
        assert_eq!(row("2, 90, 0, 4096, 8192"), (90, r, 4096, Some(8192), None));
        assert_eq!(row("2, 90, 0, 4096, 8192, 0"), (90, r, 4096, Some(8192), None));
        assert_eq!(row("2, 90, 0, 4096, 1, 2000000"), (90, r, 4096, None, Some(2_000_000)));
        assert_eq!(row("2, 90, 0, 4096, 8, 0x0, 77"), (90, r, 4096, Some(8), Some(77)));
        let issued = parse("500, 90, 900, 0, 0, 0, 123456")[1].unwrap();
        assert_eq!((issued.value, issued.op, issued.issue_ns), (90, r, Some(123_456)));
        let two = parse("100, 90, 400, 1, 0, 0, 0")[1].unwrap();
        assert_eq!((two.value, two.op, two.size, two.offset), (90, w, 0, Some(0)));
        for bad in ["", "1, 2, 3", "a, 2, 0, 1", "1, -2, 0, 1", "1, 2, 3, 4", "1,2,0,4,5,6,7,8,9"] {
            assert!(parse(bad).iter().all(|row| row.is_err()), "{bad}");
        }
    }

    /// Logs of versions without priorities; once the offset of an I/O on the first bytes was lost.
    #[test]
    fn a_column_that_has_offsets_has_them_in_every_row() {
        let rows =
            ["2, 90, 0, 4096, 0", "3, 90, 0, 4096, 8192"].map(|line| parse(line)[0].unwrap());
        let mut found = FoundRows::default();
        rows.iter().for_each(|row| found.add(row, true).unwrap());
        let places = rows.map(|row| record(&row, found.offsets).offset);
        assert_eq!(places, [Some(0), Some(8192)]);
        let mut priorities = FoundRows::default();
        priorities.add(&rows[0], true).unwrap();
        assert_eq!(record(&rows[0], priorities.offsets).offset, None);
        assert_eq!(record(&parse("2, 90, 0, 4096, 0x2004")[0].unwrap(), true).offset, None);
    }

    fn read(text: &str, file: &str) -> Result<ForeignRun> {
        super::read(&mut ResultSource::new(file, String::new(), Box::new(text.as_bytes())))
    }

    /// Once 99 % of the submissions of a log stood as 99 % of its I/Os.
    #[test]
    fn submissions_are_no_latencies() {
        for rows in ["2, 90, 0, 4096, 0\n", "1000, 90, 0, 0\n"] {
            let error = read(rows, "x/a_slat.1.log").err().expect("refused").to_string();
            assert!(error.contains("submission alone (slat)"), "{error}");
        }
        let row = parse("2, 90, 0, 4096, 8, 0x0, 777")[0].unwrap();
        assert_eq!(record(&row, true).submit.0 - BASE_NS, 777);
    }

    /// Logs of fio 2 are in us and look like those of early versions of fio 3, which are in ns.
    #[test]
    fn the_unit_of_an_early_log_is_asked_for() {
        let in_unit = |text: &str, unit| {
            let source =
                ResultSource::new("a_clat.1.log", String::new(), Box::new(text.as_bytes()));
            let run = super::read(&mut source.in_unit(unit)).map_err(|e| e.to_string())?;
            let (begin, end) = run.rows.map(|rows| rows.span).unwrap_or_default();
            Ok::<_, String>(end - begin)
        };
        for early in ["7, 90, 0, 4096\n", "7, 90, 0, 4096, 0\n7, 90, 0, 4096, 8192\n"] {
            let error = in_unit(early, None).unwrap_err();
            assert!(error.contains("in us (fio 2) or in ns"), "{early}: {error}");
            assert_eq!(in_unit(early, Some(ResultUnit::Us)), Ok(90_000), "{early}");
            assert_eq!(in_unit(early, Some(ResultUnit::Ns)), Ok(90), "{early}");
        }
        assert_eq!(in_unit("7, 90, 0, 4096, 0\n", None), Ok(90));
        let other = in_unit("7, 90, 0, 4096, 0\n", Some(ResultUnit::Us)).unwrap_err();
        assert!(other.contains("another unit"), "{other}");
        let far = in_unit("7, 4611686018427388, 0, 4096\n", Some(ResultUnit::Us)).unwrap_err();
        assert!(far.contains("beyond any latency") && far.contains("line: 1"), "{far}");
        let rates = read("500, 7, 0, 0\n", "a_bw.1.log");
        assert!(rates.is_ok(), "bandwidth was always in KiB/s");
    }

    /// With `log_window_value=both` a row has two values; a row of small ones looks like one with one value.
    #[test]
    fn the_layout_is_that_of_all_rows() {
        let ops = |text: &str| {
            let run = read(text, "a_iops.1.log").map_err(|e| e.to_string())?;
            Ok(run.figures.workloads[0]
                .ops
                .iter()
                .map(|(op, it)| (*op, it.iops))
                .collect::<Vec<_>>())
        };
        let (r, w) = (OpKind::Read, OpKind::Write);
        for (text, found) in [
            ("500, 1, 1, 0, 0, 0\n1000, 3, 9, 0, 0, 0\n", vec![(r, 2.0)]),
            ("500, 0, 0, 0, 0, 0\n500, 9, 9, 1, 0, 0\n", vec![(r, 0.0), (w, 9.0)]),
            ("500, 1, 1, 1, 0, 0\n1000, 1, 2, 1, 0, 0\n", vec![(w, 1.0)]),
            ("500, 7, 1, 0, 0, 0\n1000, 1, 1, 0, 0, 0\n", vec![(w, 4.0)]),
        ] {
            assert_eq!(ops(text).as_ref(), Ok(&found), "{text}");
        }
        let unknown: Result<Vec<(OpKind, f64)>, String> = ops("500, 1, 1, 0, 0, 0\n");
        assert!(unknown.unwrap_err().contains("cannot be told"));
        let mixed = ops("500, 7, 0, 0\n1000, 7, 0, 4096\n").unwrap_err();
        assert!(mixed.contains("a row of averages") && mixed.contains("line: 2"), "{mixed}");
    }

    /// A last window of 0.1 s in which the load ended once weighed as much as one of 1 s.
    #[test]
    fn a_shorter_last_window_counts_by_its_share() {
        let rate = |text: &str| {
            read(text, "a_iops.1.log").expect("read").figures.workloads[0].ops[&OpKind::Read].iops
        };
        let whole = "1000, 100, 0, 0\n2000, 100, 0, 0\n";
        let short = rate(&format!("{whole}2100, 40, 0, 0\n"));
        assert!((short - 204.0 / 2.1).abs() < 1e-9, "{short}");
        // Whole windows end a few ms early or late.
        assert_eq!(rate(&format!("{whole}2997, 40, 0, 0\n")), 80.0);
        assert_eq!(rate("100, 40, 0, 0\n"), 40.0);
    }

    #[test]
    fn a_bad_first_row_and_a_sum_beyond_any_run_are_told_with_the_line() {
        for (text, words) in [
            ("100.5, 9, 0, 4096\n", "the time is no whole number"),
            ("100, 9, 3, 4096\n", "the direction is not"),
            (
                "1, 500, 0, 4096, 0\n2, 4611686018427387903, 0, 4096, 0\n",
                "no run has (path: a_clat.1.log.gz, line: 2",
            ),
        ] {
            assert!(looks_like(text), "{text}");
            let e = read(text, "a_clat.1.log.gz").err().expect("refused").to_string();
            assert!(e.contains(words) && e.contains("line: "), "{text}: {e}");
        }
    }
}
