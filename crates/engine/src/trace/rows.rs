//! What is kept of the rows of a trace: those of one disk and of a part of the time, in the order of their
//! times. Called by the readers of the formats.

use taillight_core::plan::{ReplayOps, ReplayPlan, TraceOp};
use taillight_core::units::Span;
use taillight_core::{ErrorKind, OpKind};

use super::{MOST_OPS, TraceFormat, TraceRow};

/// A row may come so much later in the file than one that follows it in time, ns.
const WINDOW_NS: u64 = 60_000_000_000;
/// The farthest offset, bytes: what is added to it is no overflow.
const FARTHEST: u64 = 1 << 62;
/// Stamps this coarse or coarser are spread over their tick, ns.
const COARSE_NS: u64 = 1_000_000;

/// Which rows of a trace are wanted.
#[derive(Debug, Clone)]
pub struct TraceSelection {
    /// The only disk, volume or file; `None`: there must be one alone.
    stream: Option<String>,
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
        // "disk=0": the word before is for people.
        let word = |word: &str| word.bytes().all(|b| b.is_ascii_alphabetic());
        let name = |text: &String| match text.split_once('=').filter(|(of, _)| word(of)) {
            Some((_, name)) => name.to_owned(),
            None => text.clone(),
        };
        TraceSelection {
            stream: replay.select.as_ref().map(name),
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
    pub hint: Option<&'static str>,
}

impl From<String> for TraceFault {
    fn from(what: String) -> TraceFault {
        TraceFault { kind: ErrorKind::Usage, what, hint: None }
    }
}

impl TraceFault {
    fn hinted(what: String, hint: &'static str) -> TraceFault {
        TraceFault { hint: Some(hint), ..TraceFault::from(what) }
    }
}

/// Rows that are wanted.
pub(super) struct TraceRows<'a> {
    selection: &'a TraceSelection,
    tick_ns: u64,
    ordered: bool,
    rows: Vec<(i64, TraceOp)>,
    /// Of the first row of the disk.
    first: Option<i64>,
    newest: i64,
    sorted: u64,
    skipped: u64,
    /// The disk of all rows, where none is selected.
    stream: Option<String>,
    over: bool,
}

impl<'a> TraceRows<'a> {
    pub fn new(format: &TraceFormat, selection: &'a TraceSelection) -> TraceRows<'a> {
        TraceRows {
            selection,
            tick_ns: format.tick_ns,
            ordered: format.ordered,
            rows: Vec::new(),
            first: None,
            newest: i64::MIN,
            sorted: 0,
            skipped: 0,
            stream: None,
            over: false,
        }
    }

    /// Whether all that follows lies after what is wanted.
    pub fn over(&self) -> bool {
        self.over
    }

    /// A row that is no operation on a file's bytes is left out.
    pub fn leave_out(&mut self) {
        self.skipped += 1;
    }

    /// Takes a row, if it is wanted. Errors: it is of another disk than the others, far before one above it,
    /// or one too many.
    pub fn push(&mut self, row: &TraceRow<'_>) -> Result<(), TraceFault> {
        if !self.wanted(row.stream)? {
            return Ok(());
        }
        let TraceRow { stamp, op, .. } = *row;
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
                    "take a part of it by trace.from and trace.length, or one disk by trace.select",
                ),
            });
        }
        self.rows.push((stamp, op));
        Ok(())
    }

    fn wanted(&mut self, stream: &str) -> Result<bool, TraceFault> {
        if self.selection.mixed {
            return Ok(true);
        }
        if let Some(only) = &self.selection.stream {
            return Ok(only == stream);
        }
        match &self.stream {
            Some(known) if known == stream => Ok(true),
            Some(known) => Err(TraceFault::hinted(
                format!("it has operations of several disks or files: `{known}`, `{stream}`"),
                "name one of them: trace.select = \"0\"",
            )),
            None => {
                self.stream = Some(stream.to_owned());
                Ok(true)
            }
        }
    }

    /// The operations, in the order of their times. Errors: there is none.
    pub fn finish(mut self, format: &'static str) -> Result<ReplayOps, TraceFault> {
        if self.rows.is_empty() {
            let none = || "it holds no operation".to_owned();
            return Err(match &self.selection.stream {
                Some(name) if self.newest == i64::MIN => TraceFault::hinted(
                    format!("it holds no operation of `{name}`"),
                    "leave trace.select out to be told which there are",
                ),
                _ => none().into(),
            });
        }
        if self.sorted > 0 || !self.ordered {
            // Stable: rows with the same stamp stay in the order of the file.
            self.rows.sort_by_key(|(stamp, _)| *stamp);
        }
        let spans = || "it spans more than 292 years".to_owned();
        let times = times(&self.rows, self.tick_ns).ok_or_else(spans)?;
        let selection = self.selection;
        let bound = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let from = times.partition_point(|t| *t < bound(selection.from_ns));
        let end = bound(selection.from_ns.saturating_add(selection.length_ns));
        let to = if end == i64::MAX { times.len() } else { times.partition_point(|t| *t < end) };
        let Some(begin) = times.get(from).copied().filter(|_| from < to) else {
            return Err(TraceFault::hinted(
                "it holds no operation between trace.from and its end".to_owned(),
                "choose another trace.from and trace.length",
            ));
        };
        Ok(ReplayOps {
            format,
            times: times[from..to].iter().map(|t| t - begin).collect(),
            ops: self.rows[from..to].iter().map(|(_, op)| *op).collect(),
            sorted: self.sorted,
            skipped: self.skipped,
            ..ReplayOps::default()
        })
    }
}

/// Times since the first row, ns: exact, but for coarse stamps, whose tick the rows share evenly.
fn times(rows: &[(i64, TraceOp)], tick_ns: u64) -> Option<Vec<i64>> {
    let tick = i64::try_from(tick_ns).ok()?;
    let first = rows.first()?.0;
    let mut times = Vec::with_capacity(rows.len());
    for same in rows.chunk_by(|a, b| a.0 == b.0) {
        let at = same[0].0.checked_sub(first)?.checked_mul(tick)?;
        let shared = if tick_ns >= COARSE_NS { i128::from(tick) } else { 0 };
        for i in 0..same.len() as i128 {
            times.push(at.checked_add((shared * i / same.len() as i128) as i64)?);
        }
    }
    Some(times)
}
