//! What warp (MinIO's benchmark of S3) keeps: with `--full` every request as a table, else aggregates as JSON. Both are
//! packed with zstd, which [`super::unpacked`] undoes: `cli` calls it when it opens the file.
//!
//! Source: warp 1.4, `pkg/bench/ops.go` (`Operations.CSV`), `pkg/bench/csv.go`, `pkg/aggregate/live.go`.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde::Deserialize;
use taillight_core::{OpKind, Record, Result, Stamp, Status};
use taillight_rundir::origin::ImportedOp;

use super::every_io::{BASE_NS, EveryIo};
use super::source::fields;
use super::{
    ForeignResult, ForeignRun, ForeignWorkload, LAST_NS, ResultSource, ResultUnit, name_of,
};

/// How the line of names begins in every version; where the other columns stand differs.
const HEADER: &str = "idx\tthread\top\t";
/// Longest row of several lines, bytes (the text of an error may have line breaks); a longer one counts as damaged.
const LONGEST_ROW: usize = 1 << 20;
/// Longest name of a client or an operation, bytes, and how many operations that are not known here.
const LONGEST_NAME: usize = 1024;
const MOST_UNKNOWN: usize = 1000;

pub fn looks_like_table(head: &str) -> bool {
    head.lines().find(|line| !line.starts_with('#')).is_some_and(|line| line.starts_with(HEADER))
}

pub fn looks_like_aggregates(head: &str) -> bool {
    head.trim_start().starts_with('{')
        && ["\"commandline\"", "\"final\"", "\"total_requests\""].iter().all(|it| head.contains(it))
}

fn operation(name: &str) -> Option<OpKind> {
    Some(match name {
        "GET" => OpKind::Get,
        "PUT" => OpKind::Put,
        "DELETE" => OpKind::Delete,
        "STAT" => OpKind::Stat,
        "LIST" => OpKind::List,
        _ => return None,
    })
}

/// Nanoseconds since the epoch of a time as Go prints it (RFC 3339 with a fraction).
fn moment(text: &str) -> Option<i64> {
    let ns = text.parse::<Timestamp>().ok()?.as_nanosecond();
    i64::try_from(ns).ok().filter(|ns| (0..=LAST_NS).contains(ns))
}

fn foreign(source: &ResultSource<'_>, spans: &str, notes: Vec<String>) -> ForeignResult {
    ForeignResult {
        tool: "warp",
        driver: "s3",
        name: name_of(source.file),
        spans: spans.to_owned(),
        notes,
        ..ForeignResult::default()
    }
}

/// What the first reading of a table finds beside its rows.
#[derive(Default)]
struct TableFacts {
    /// Begin of the first request that is taken, ns since the epoch.
    first_ns: Option<i64>,
    /// Number of requests that are left out, by warp's name of their operation: Taillight does not have it.
    unknown: BTreeMap<String, u64>,
    most_objects: u64,
    workers: RequestOwners,
    /// What warp writes behind the rows is there.
    ended: bool,
}

pub fn read_table(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    source.says_unit(ResultUnit::Ns)?;
    let (mut every, mut facts) = (EveryIo::default(), TableFacts::default());
    facts.ended = rows(source, &mut |row, source| {
        let Some(op) = operation(&row.op) else {
            *facts.unknown.entry(row.op).or_default() += 1;
            return match facts.unknown.len() > MOST_UNKNOWN {
                true => Err(source.damaged("there are too many operations that no warp has")),
                false => Ok(()),
            };
        };
        let first_ns = *facts.first_ns.get_or_insert(row.start_ns);
        facts.most_objects = facts.most_objects.max(row.objects);
        let worker = facts.workers.of(&row, source)?;
        let record = row.record(op, first_ns, source)?;
        every.add((0, worker), &record).map_err(|e| source.placed(e))
    })?;
    let first_ns = facts.first_ns.unwrap_or(0);
    let spans = "from the begin of the request, behind warp's own limiter, to its last byte";
    let mut found = foreign(source, spans, facts.notes());
    found.ended_ns = first_ns.saturating_add(every.span().1 - BASE_NS);
    let workers = u32::from(facts.workers.count);
    found.workloads = ForeignWorkload::only(source.file, workers, 0, every.ops(0));
    found.rows = every.any().then(|| {
        every.rows(Box::new(move |source, sink| {
            let mut workers = RequestOwners::default();
            rows(source, &mut |row, source| match operation(&row.op) {
                None => Ok(()),
                Some(op) => {
                    let worker = workers.of(&row, source)?;
                    sink((0, worker), &row.record(op, first_ns, source)?)
                }
            })
            .map(drop)
        }))
    });
    found.run(source)
}

impl TableFacts {
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        if !self.unknown.is_empty() {
            let all = self.unknown.iter().map(|(name, n)| format!("{n} {name}"));
            let all: Vec<String> = all.collect();
            notes.push(format!("not read, there is no such operation here: {}", all.join(", ")));
        }
        if self.most_objects > 1 {
            let most = self.most_objects;
            notes.push(format!("one request has up to {most} objects and counts as one"));
        }
        if !self.ended {
            notes.push("the command line that warp writes behind its rows is missing: whether rows are, too, is not known".into());
        }
        if self.workers.clients.len() > 1 {
            let clients = self.workers.clients.len();
            notes.push(format!("times are those of {clients} clients, whose clocks may differ"));
        }
        notes
    }
}

/// Threads of clients as workers, numbered as they come, alike in both readings. More than 65,535 are an error.
#[derive(Default)]
struct RequestOwners {
    clients: HashMap<String, HashMap<u32, u16>>,
    count: u16,
}

impl RequestOwners {
    fn of(&mut self, row: &RequestRow, source: &ResultSource<'_>) -> Result<u16> {
        let threads = self.clients.entry(row.client.clone()).or_default();
        if let Some(known) = threads.get(&row.thread) {
            return Ok(*known);
        }
        let next = self.count;
        self.count =
            next.checked_add(1).ok_or_else(|| source.damaged("there are too many threads"))?;
        threads.insert(row.thread, next);
        Ok(next)
    }
}

/// One request.
struct RequestRow {
    client: String,
    thread: u32,
    op: String,
    objects: u64,
    bytes: u64,
    failed: bool,
    /// Since the epoch.
    start_ns: i64,
    duration_ns: i64,
}

impl RequestRow {
    fn record(&self, op: OpKind, first_ns: i64, source: &ResultSource<'_>) -> Result<Record> {
        let since = self.start_ns.saturating_sub(first_ns);
        if since < -BASE_NS {
            return Err(source.damaged("the request begins long before the first of the file"));
        }
        let submit = BASE_NS.saturating_add(since);
        Ok(Record {
            op,
            size: self.bytes,
            moved: self.failed.then_some(0),
            submit: Stamp(submit),
            complete: Stamp(submit.saturating_add(self.duration_ns)),
            status: if self.failed { Status::STORE } else { Status::OK },
            ..Record::default()
        })
    }
}

type RowSink<'a> = dyn FnMut(RequestRow, &ResultSource<'_>) -> Result<()> + 'a;

/// Whether there is a comment behind the rows.
fn rows(source: &mut ResultSource<'_>, each: &mut RowSink<'_>) -> Result<bool> {
    let damaged = "the row of warp's table is damaged";
    let (mut columns, mut next, mut ended) = (None, 0u64, false);
    while let Some(line) = whole_row(source)? {
        if line.is_empty() || line.starts_with('#') {
            ended |= line.starts_with('#');
            continue;
        }
        ended = false;
        let fields = fields(&line, '\t');
        let wrong = |column| source.damaged(damaged).with("column", column);
        match &columns {
            None => columns = Some(TableColumns::of(&fields).map_err(wrong)?),
            Some(columns) => {
                let number = fields.first().and_then(|idx| idx.parse::<u64>().ok());
                // warp numbers its rows from 0.
                if number.is_some_and(|n| n != next) {
                    return Err(
                        source.damaged("rows are missing before this one, or stand there twice")
                    );
                }
                next += 1;
                let row = columns.request(&fields).map_err(wrong)?;
                each(row, source)?;
            }
        }
    }
    Ok(ended)
}

/// A line, with those after it as long as a quoted field goes on.
fn whole_row(source: &mut ResultSource<'_>) -> Result<Option<String>> {
    let Some(mut row) = source.whole_line()? else { return Ok(None) };
    let odd = |text: &str| text.matches('"').count() % 2 == 1;
    let mut open = !row.starts_with('#') && odd(&row);
    while open {
        let Some(more) = source.whole_line()? else {
            return Err(source.cut("a quoted text has no end"));
        };
        open ^= odd(&more);
        row.push('\n');
        row.push_str(&more);
        if row.len() > LONGEST_ROW {
            return Err(source.damaged("the row is too long"));
        }
    }
    Ok(Some(row))
}

/// Places of the columns that are read, by their names: places differ by version. The last three may be missing.
struct TableColumns {
    thread: usize,
    op: usize,
    objects: usize,
    bytes: usize,
    start: usize,
    end: usize,
    error: Option<usize>,
    client: Option<usize>,
    duration: Option<usize>,
}

impl TableColumns {
    /// Errors: the column that is missing; the last three may be.
    fn of(names: &[String]) -> Result<TableColumns, &'static str> {
        let at = |name: &str| names.iter().position(|known| known == name);
        let needs = |name: &'static str| at(name).ok_or(name);
        Ok(TableColumns {
            thread: needs("thread")?,
            op: needs("op")?,
            objects: needs("n_objects")?,
            bytes: needs("bytes")?,
            start: needs("start")?,
            end: needs("end")?,
            error: at("error"),
            client: at("client_id"),
            duration: at("duration_ns"),
        })
    }

    /// Errors: the column that is missing or damaged in this row.
    fn request(&self, fields: &[String]) -> Result<RequestRow, &'static str> {
        let text = |at: usize, name| fields.get(at).map(String::as_str).ok_or(name);
        let other = |at: Option<usize>, name| at.map_or(Ok(""), |at| text(at, name));
        let number = |at, name| text(at, name)?.parse::<u64>().map_err(|_| name);
        let time = |at, name| text(at, name).and_then(|text| moment(text).ok_or(name));
        let (start_ns, end_ns) = (time(self.start, "start")?, time(self.end, "end")?);
        // `duration_ns` is preferred to `end` less `start`: its clock is one that nobody sets, theirs is not.
        let duration_ns = match self.duration {
            Some(at) => text(at, "duration_ns")?.parse().map_err(|_| "duration_ns")?,
            None => end_ns - start_ns,
        };
        if !(0..=LAST_NS).contains(&duration_ns) {
            return Err("duration_ns");
        }
        let name = |text: &str, column| match text.len() <= LONGEST_NAME {
            true => Ok(text.to_owned()),
            false => Err(column),
        };
        Ok(RequestRow {
            client: name(other(self.client, "client_id")?, "client_id")?,
            thread: text(self.thread, "thread")?.parse().map_err(|_| "thread")?,
            op: name(text(self.op, "op")?, "op")?,
            objects: number(self.objects, "n_objects")?,
            bytes: number(self.bytes, "bytes")?,
            failed: !other(self.error, "error")?.is_empty(),
            start_ns,
            duration_ns,
        })
    }
}

/// The aggregates of a run, as far as they are used.
#[derive(Deserialize)]
struct WarpAggregates {
    /// False where the run was not over: a note says so, and the aggregates are read.
    #[serde(rename = "final")]
    is_final: bool,
    warp_version: Option<String>,
    #[serde(default)]
    by_op_type: BTreeMap<String, WarpAggregate>,
}

#[derive(Deserialize)]
struct WarpAggregate {
    total_requests: u64,
    total_errors: u64,
    total_bytes: u64,
    concurrency: u32,
    end_time: String,
    throughput: WarpThroughput,
}

#[derive(Deserialize)]
struct WarpThroughput {
    measure_duration_millis: u64,
    bytes: f64,
    ops: u64,
}

pub fn read_aggregates(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    source.says_unit(ResultUnit::Ms)?;
    let all: WarpAggregates = source.json("the JSON of warp is damaged")?;
    let mut notes = vec![
        "percentiles of warp's JSON are averages over 10 s and clients, and are not read: keep every request with --full"
            .to_owned(),
    ];
    if !all.is_final {
        notes.push("the file was written before the run was over".into());
    }
    let mut ops: BTreeMap<OpKind, ImportedOp> = BTreeMap::new();
    let (mut workers, mut ended_ns) = (0, 0);
    for (name, of) in &all.by_op_type {
        let Some(op) = operation(name) else {
            let n = of.total_requests;
            notes.push(format!("not read, there is no such operation here: {n} {name}"));
            continue;
        };
        // An operation that did not run long enough has no rate in warp's JSON; a time of 0 ms is taken as 1 ms.
        let ms = of.throughput.measure_duration_millis.max(1);
        let seconds = ms as f64 / 1e3;
        let it = ImportedOp {
            count: of.total_requests,
            errors: of.total_errors,
            bytes: of.total_bytes,
            duration_ns: ms.saturating_mul(1_000_000),
            iops: of.throughput.ops as f64 / seconds,
            bytes_per_s: of.throughput.bytes / seconds,
            ..ImportedOp::default()
        };
        workers = workers.max(of.concurrency);
        let end = moment(&of.end_time).ok_or_else(|| source.damaged("end_time is no moment"))?;
        ended_ns = ended_ns.max(end);
        ops.insert(op, it);
    }
    notes.push(
        "rates are those of the time in which all threads ran, counts those of all of it".into(),
    );
    let mut found = foreign(source, "not taken: those of the JSON are averages of averages", notes);
    found.version = all.warp_version;
    found.ended_ns = ended_ns;
    found.workloads = ForeignWorkload::only(source.file, workers, 0, ops);
    found.run(source)
}
