//! What is kept of the rows of a trace: those of one disk and of a part of the time, in the order of their
//! times. Called by the readers of the formats.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use taillight_core::plan::{NO_LATENCY, RecordedLatency, ReplayOps, ReplayPlan, TraceOp};
use taillight_core::units::Span;
use taillight_core::units::readable::{count, counted};
use taillight_core::{ErrorKind, OpKind};

use super::{MOST_OPS, StreamPair, TraceFormat, TraceRow, own};

/// A row may come so much later in the file than one that follows it in time, ns.
const WINDOW_NS: u64 = 60_000_000_000;
/// The farthest offset, bytes: what is added to it is no overflow.
const FARTHEST: u64 = 1 << 62;
/// Stamps this coarse or coarser are spread over their tick, ns.
const COARSE_NS: u64 = 1_000_000;

/// Disks of a trace that are named at most, where it has several.
const MOST_NAMES: usize = 16;
/// Rows of such a trace that are counted at most, and disks.
const MOST_COUNTED: u64 = 10_000_000;
const MOST_DISKS: usize = 100_000;

/// Words before a name in a job, and whether they mean the first of two parts.
const WORDS: &[(&str, bool)] = &[
    ("host", true),
    ("workload", true),
    ("disk", false),
    ("device", false),
    ("volume", false),
    ("lun", false),
    ("file", false),
    ("target", false),
];
/// The disk, volume or file that a job names.
#[derive(Debug, Clone)]
pub(super) struct SelectedStream {
    /// The text of the job.
    text: String,
    /// Whether the word before it means the first of two parts.
    first: Option<bool>,
    name: String,
}

impl SelectedStream {
    fn of(text: &str) -> SelectedStream {
        let word = text.split_once('=').and_then(|(word, name)| {
            let (_, first) = WORDS.iter().find(|(known, _)| *known == word)?;
            Some((Some(*first), name))
        });
        let (first, name) = word.unwrap_or((None, text));
        SelectedStream { text: text.to_owned(), first, name: name.to_owned() }
    }

    fn is(&self, stream: (&str, &str), pair: Option<StreamPair>) -> bool {
        // Files of a program that was watched have one part, whatever the format's others have.
        let Some(pair) = pair.filter(|_| !stream.0.is_empty()) else {
            return self.name == stream.1 || self.text == stream.1;
        };
        match (self.name.split_once(','), self.first.unwrap_or(pair.first)) {
            (Some(both), _) => both == stream,
            (None, true) => stream.0 == self.name,
            (None, false) => stream.1 == self.name,
        }
    }
}

/// The name of a disk as jobs write it.
fn name(stream: (&str, &str)) -> String {
    match stream {
        ("", name) => name.to_owned(),
        (of, name) => format!("{of},{name}"),
    }
}

/// Which rows of a trace are wanted.
#[derive(Debug, Clone)]
pub struct TraceSelection {
    /// The only disk, volume or file; `None`: there must be one alone.
    stream: Option<SelectedStream>,
    /// Rows of several disks may be taken for one.
    pub mixed: bool,
    from_ns: u64,
    length_ns: u64,
    /// Rows at most.
    most: u64,
}

impl TraceSelection {
    /// Every row.
    pub fn all() -> TraceSelection {
        TraceSelection {
            stream: None,
            mixed: true,
            from_ns: 0,
            length_ns: u64::MAX,
            most: MOST_OPS,
        }
    }

    /// What a job selects, `most` rows at most.
    pub fn of(replay: &ReplayPlan, most: u64) -> TraceSelection {
        TraceSelection {
            stream: replay.select.as_deref().map(SelectedStream::of),
            mixed: false,
            from_ns: replay.from.map_or(0, |s| s.0),
            length_ns: replay.length.map_or(u64::MAX, |s| s.0),
            most: most.min(MOST_OPS),
        }
    }
}

/// What is wrong with a trace, and of what kind that is.
#[derive(Debug)]
pub struct TraceFault {
    pub kind: ErrorKind,
    pub what: String,
    pub hint: Option<String>,
}

impl From<String> for TraceFault {
    fn from(what: String) -> TraceFault {
        TraceFault { kind: ErrorKind::Usage, what, hint: None }
    }
}

impl TraceFault {
    pub fn hinted(what: impl Into<String>, hint: impl Into<String>) -> TraceFault {
        TraceFault { hint: Some(hint.into()), ..TraceFault::from(what.into()) }
    }
}

/// What there is of a disk.
#[derive(Debug, Clone, Copy)]
struct StreamCount {
    /// How many disks come before it.
    nth: usize,
    operations: u64,
}

/// Rows that are wanted.
pub(super) struct TraceRows<'a> {
    selection: &'a TraceSelection,
    /// The disk that the job names.
    only: Option<SelectedStream>,
    pair: Option<StreamPair>,
    tick_ns: u64,
    ordered: bool,
    rows: Vec<(i64, TraceOp)>,
    /// Stamp and latency, ns, of as many rows, or of none where none has one.
    latencies: Vec<(i64, u64)>,
    missing: u64,
    /// The run that the file is of is not there.
    alone: bool,
    /// Ends may be known to the ms alone, and stamps are those less the latency.
    coarse_ends: bool,
    /// Operations whose stamps were moved because of that.
    spread: u64,
    /// Names of the workloads, where rows have their numbers.
    names: Vec<String>,
    /// Rows, and how many there are as they say.
    read: u64,
    of: Option<u64>,
    untimed: bool,
    /// Stamp of the first row of the disk.
    first: Option<i64>,
    newest: i64,
    sorted: u64,
    skipped: u64,
    /// The disks of the rows that are selected, by the parts of their names. Of several no rows are kept.
    streams: BTreeMap<String, BTreeMap<String, StreamCount>>,
    /// How many these are.
    disks: usize,
    /// The reading ended before the end.
    ended_early: bool,
    /// The line that is read, and the first of another disk; where the format has lines.
    line: Option<u64>,
    line_of_another: Option<u64>,
    over: bool,
}

impl<'a> TraceRows<'a> {
    pub fn new(format: &TraceFormat, selection: &'a TraceSelection) -> TraceRows<'a> {
        TraceRows {
            selection,
            only: selection.stream.clone(),
            pair: format.pair,
            tick_ns: format.tick_ns,
            ordered: format.ordered,
            rows: Vec::new(),
            latencies: Vec::new(),
            missing: 0,
            alone: false,
            coarse_ends: false,
            spread: 0,
            names: Vec::new(),
            read: 0,
            of: None,
            untimed: false,
            first: None,
            newest: i64::MIN,
            sorted: 0,
            skipped: 0,
            streams: BTreeMap::new(),
            disks: 0,
            ended_early: false,
            line: None,
            line_of_another: None,
            over: false,
        }
    }

    /// Whether nothing that follows is wanted.
    pub fn over(&self) -> bool {
        let counted = self.read >= MOST_COUNTED || self.disks >= MOST_DISKS;
        self.over || (self.are_several() && counted)
    }

    /// Whether there are rows of several disks, of which one has to be named: what else is wrong does not count then.
    pub fn are_several(&self) -> bool {
        self.disks > 1
    }

    /// Notes that something is wrong with the rows that follow.
    pub fn end_early(&mut self) {
        self.ended_early = true;
    }

    /// Rows come from this line from now on.
    pub fn at_line(&mut self, number: u64) {
        self.line = Some(number);
    }

    /// The line of the first row of another disk, else the one that was read last.
    pub fn line_number(&self) -> Option<u64> {
        self.line_of_another.or(self.line)
    }

    /// A row that is no operation on a file's bytes is left out.
    pub fn leave_out(&mut self) {
        self.skipped += 1;
    }

    /// The source has lost so many operations.
    pub fn miss(&mut self, operations: u64) {
        self.missing = operations;
    }

    /// Notes that nothing says whether the rows are all that there were.
    pub fn without_run(&mut self) {
        self.alone = true;
    }

    /// Notes that the ends of operations may be known to the ms alone: they are, where all are whole ms.
    pub fn with_coarse_ends(&mut self) {
        self.coarse_ends = true;
    }

    /// Spreads the ends in one ms over it, in the order of the file, and the stamps with them.
    fn spread_ends(&mut self) {
        const MS: i64 = COARSE_NS as i64;
        let end = |row: &(i64, TraceOp), it: &(i64, u64)| row.0.saturating_add_unsigned(it.1);
        let mut pairs = self.rows.iter().zip(&self.latencies);
        let known = self.rows.len() == self.latencies.len();
        if !known || !pairs.all(|(row, it)| it.1 != NO_LATENCY && end(row, it) % MS == 0) {
            return;
        }
        let mut shared: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for (row, it) in self.rows.iter().zip(&self.latencies) {
            shared.entry(end(row, it)).or_default().0 += 1;
        }
        for (row, it) in self.rows.iter_mut().zip(&mut self.latencies) {
            let (all, before) = shared.entry(end(row, it)).or_default();
            let shift = MS * *before / (*all).max(1);
            *before += 1;
            self.spread += u64::from(shift > 0);
            row.0 = row.0.saturating_add(shift);
            it.0 = row.0;
        }
    }

    /// The stamps say nothing.
    pub fn without_times(&mut self) {
        self.untimed = true;
    }

    /// Takes a name that the job selects for the number that the rows have. Errors: it is the name of one and the
    /// number of another, and `workload=` does not say that it is a name.
    pub fn name_streams<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<(), TraceFault> {
        self.names = names.map(str::to_owned).collect();
        let Some(only) = self.only.as_mut().filter(|only| only.first != Some(false)) else {
            return Ok(());
        };
        let (of, file) = only.name.split_at(only.name.find(',').unwrap_or(only.name.len()));
        let Some(number) = self.names.iter().position(|name| name == of) else { return Ok(()) };
        let other = of.parse().ok().filter(|other| *other != number);
        let other = other.and_then(|other: usize| self.names.get(other));
        if let Some(other) = other.filter(|_| only.first.is_none()) {
            return Err(TraceFault::hinted(
                format!("`{of}` is the name of one workload and the number of another, `{other}`"),
                format!("trace.select = \"workload={of}{file}\", or \"{other}{file}\""),
            ));
        }
        only.name = format!("{number}{file}");
        Ok(())
    }

    /// The name of a disk as jobs write it: with the name of its workload, where that is known.
    fn name(&self, stream: (&str, &str)) -> String {
        let number = stream.0.parse::<usize>().ok();
        match number.and_then(|number| self.names.get(number)) {
            Some(of) => format!("workload={of},{}", stream.1),
            None => name(stream),
        }
    }

    /// Takes a row, if it is wanted. Errors: it is far before one above it, or one too many.
    pub fn push(&mut self, row: &TraceRow<'_>) -> Result<(), TraceFault> {
        (self.read, self.of) = (self.read + 1, row.of.or(self.of));
        if !self.wanted(row.stream) {
            return Ok(());
        }
        let TraceRow { stamp, op, latency_ns, .. } = *row;
        if op.size == 0 && op.kind != OpKind::Fsync {
            self.skipped += 1;
            return Ok(());
        }
        if op.offset > FARTHEST {
            return Err(format!("offset {} lies beyond 2^62", op.offset).into());
        }
        let window = (WINDOW_NS / self.tick_ns) as i64;
        if stamp < self.newest && self.ordered {
            self.sorted += 1;
            if self.newest.saturating_sub(stamp) > window {
                let far = format!("it lies more than {} before a row above it", Span(WINDOW_NS));
                return Err(far.into());
            }
        }
        self.newest = self.newest.max(stamp);
        let first = *self.first.get_or_insert(stamp);
        if self.ordered {
            // Rows that may be older than the first one are still to come: sorted, they decide.
            let since = i128::from(stamp.saturating_sub(first)) * i128::from(self.tick_ns);
            let slack = i128::from(WINDOW_NS);
            let from = i128::from(self.selection.from_ns);
            let length = self.selection.length_ns;
            if length != u64::MAX && since > from + i128::from(length) + slack {
                self.over = true;
                return Ok(());
            }
            // The first is kept: it is what the times count from.
            if since < from - slack && stamp > first {
                return Ok(());
            }
        }
        if self.rows.len() as u64 == self.selection.most {
            return Err(TraceFault {
                kind: ErrorKind::Unavailable,
                what: format!(
                    "it has more than {} operations, which is what fits",
                    self.rows.len()
                ),
                hint: Some(
                    "take a part of it by trace.from and trace.length, or one disk by trace.select"
                        .to_owned(),
                ),
            });
        }
        self.rows.push((stamp, op));
        if latency_ns.is_some() || !self.latencies.is_empty() {
            // Rows before the first that has one.
            let before = &self.rows[self.latencies.len()..self.rows.len() - 1];
            self.latencies.extend(before.iter().map(|(at, _)| (*at, NO_LATENCY)));
            self.latencies.push((stamp, latency_ns.unwrap_or(NO_LATENCY)));
        }
        Ok(())
    }

    fn wanted(&mut self, stream: (&str, &str)) -> bool {
        if self.selection.mixed {
            return true;
        }
        let known = self.streams.get_mut(stream.0).and_then(|names| names.get_mut(stream.1));
        if let Some(known) = known {
            known.operations += 1;
            return !self.are_several();
        }
        if self.only.as_ref().is_some_and(|only| !only.is(stream, self.pair)) {
            return false;
        }
        let first = StreamCount { nth: self.disks, operations: 1 };
        self.streams.entry(stream.0.to_owned()).or_default().insert(stream.1.to_owned(), first);
        self.disks += 1;
        if self.are_several() {
            self.line_of_another = self.line_of_another.or(self.line);
        }
        !self.are_several()
    }

    /// What is wrong with rows of several disks: the busiest of them, each with its operations.
    fn several(&self) -> TraceFault {
        let mut all: Vec<(StreamCount, String)> = Vec::new();
        for (of, names) in &self.streams {
            all.extend(
                names.iter().map(|(name, it)| (*it, self.name((of.as_str(), name.as_str())))),
            );
        }
        all.sort_by_key(|(it, _)| (Reverse(it.operations), it.nth));
        let told = all.iter().take(MOST_NAMES).enumerate().map(|(i, (it, name))| match i {
            0 => format!("`{name}` ({})", counted(it.operations, "operation")),
            _ => format!("`{name}` ({})", count(it.operations)),
        });
        let told: Vec<String> = told.collect();
        let more = match all.len() - told.len() {
            0 => String::new(),
            n => format!(" and {} more", count(n as u64)),
        };
        let part = match self.ended_early || self.over() {
            true => format!(", counted in its first {}", counted(self.read, "row")),
            false => String::new(),
        };
        let parts = self.pair.map_or(String::new(), |pair| format!(" ({})", pair.words));
        let one = all.first().map_or("", |(_, name)| name.as_str());
        TraceFault::hinted(
            format!("it has operations of several disks or files{part}: {}{more}", told.join(", ")),
            format!("name one of them{parts}: trace.select = \"{one}\""),
        )
    }

    /// What stamps count in truth, ns. Of a format in us or in 100 ns all stamps that are whole ms or whole seconds apart
    /// are those of a clock that tells no more; a single moment does not say so. Traces in ns are of a clock that fine.
    fn grain_ns(&self) -> u64 {
        let (first, last) = (self.rows[0].0, self.rows[self.rows.len() - 1].0);
        if self.tick_ns == 1 || self.tick_ns >= COARSE_NS || first == last {
            return self.tick_ns;
        }
        let whole = |ns: &u64| {
            let ticks = (ns / self.tick_ns) as i64;
            let since = |stamp: i64| stamp.checked_sub(first);
            self.rows.iter().all(|(stamp, _)| since(*stamp).is_some_and(|it| it % ticks == 0))
        };
        [1000 * COARSE_NS, COARSE_NS].into_iter().find(whole).unwrap_or(self.tick_ns)
    }

    /// The operations that are wanted, in the order of their times. Errors: there is none, or those of several disks; the
    /// file has another number of rows than they say; the times span more than 292 years.
    pub fn finish(mut self, format: &'static str) -> Result<ReplayOps, TraceFault> {
        if self.are_several() {
            return Err(self.several());
        }
        if self.of.is_some_and(|of| of != self.read) {
            return Err(TraceFault::hinted(own::PART, own::ALL));
        }
        if self.rows.is_empty() {
            let none = || "it holds no operation".to_owned();
            return Err(match &self.only {
                Some(only) if self.newest == i64::MIN => TraceFault::hinted(
                    format!("it holds no operation of `{}`", only.text),
                    "leave trace.select out to be told which there are, where there are several",
                ),
                _ => none().into(),
            });
        }
        if self.coarse_ends {
            self.spread_ends();
        }
        if self.sorted > 0 || !self.ordered {
            // Stable: rows with the same stamp stay in the order of the file.
            self.rows.sort_by_key(|(stamp, _)| *stamp);
            self.latencies.sort_by_key(|(stamp, _)| *stamp);
        }
        let spans = || "it spans more than 292 years".to_owned();
        let times = match self.untimed {
            true => vec![0; self.rows.len()],
            false => times(&self.rows, self.tick_ns, self.grain_ns()).ok_or_else(spans)?,
        };
        let selection = self.selection;
        let bound = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let from = times.partition_point(|t| *t < bound(selection.from_ns));
        let end = bound(selection.from_ns.saturating_add(selection.length_ns));
        let to = if end == i64::MAX { times.len() } else { times.partition_point(|t| *t < end) };
        let Some(begin) = times.get(from).copied().filter(|_| from < to) else {
            return Err(TraceFault::hinted(
                "it holds no operation in the part of its time that is selected",
                "choose another trace.from and trace.length",
            ));
        };
        let first = self.rows[0].0;
        let exact = |stamp: i64| i128::from(stamp.saturating_sub(first)) * i128::from(self.tick_ns);
        let part = times[from..to].iter().zip(&self.rows[from..to]);
        let moved = part.filter(|(time, (stamp, _))| i128::from(**time) != exact(*stamp)).count();
        let taken = self.latencies.into_iter().skip(from).take(to - from);
        let latencies: Vec<u64> = taken.map(|(_, ns)| ns).collect();
        Ok(ReplayOps {
            format,
            latency: RecordedLatency::of(&latencies),
            latencies,
            untimed: self.untimed,
            missing: self.missing,
            alone: self.alone || (format == own::CSV.name && self.of.is_none()),
            times: times[from..to].iter().map(|t| t - begin).collect(),
            ops: self.rows[from..to].iter().map(|(_, op)| *op).collect(),
            sorted: self.sorted,
            skipped: self.skipped,
            spread: self.spread + moved as u64,
            bunched: bunched(&times[from..to], self.tick_ns),
            ..ReplayOps::default()
        })
    }
}

/// Operations that are due together with one before, where all times are whole ms, though the format has finer ones, and
/// nothing says that its clock was so coarse ([`TraceRows::grain_ns`]).
fn bunched(times: &[i64], tick_ns: u64) -> u64 {
    let first = times.first().copied().unwrap_or(0);
    let coarse = |time: &i64| (time - first) % COARSE_NS as i64 == 0;
    if tick_ns >= COARSE_NS || !times.iter().all(coarse) {
        return 0;
    }
    times.chunk_by(|a, b| a == b).map(|same| same.len() as u64 - 1).sum()
}

/// Times since the first row, ns: exact, but for coarse stamps, whose tick (`grain_ns`) the rows share evenly.
fn times(rows: &[(i64, TraceOp)], tick_ns: u64, grain_ns: u64) -> Option<Vec<i64>> {
    let tick = i64::try_from(tick_ns).ok()?;
    let shared = if grain_ns >= COARSE_NS { i128::from(grain_ns) } else { 0 };
    let first = rows.first()?.0;
    let mut times = Vec::with_capacity(rows.len());
    for same in rows.chunk_by(|a, b| a.0 == b.0) {
        let at = same[0].0.checked_sub(first)?.checked_mul(tick)?;
        for i in 0..same.len() as i128 {
            times.push(at.checked_add((shared * i / same.len() as i128) as i64)?);
        }
    }
    Some(times)
}
