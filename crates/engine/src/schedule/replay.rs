//! Recorded times: a text file, one time a line since the start, or those of a block trace
//! (`trace`), shared by the workers in turns. [`read`] makes a list of the file, [`Replay`] gives a worker its part.
//!
//! Read whole before the start (8 bytes a line in memory). Empty lines and lines that begin with
//! `#` are skipped. After the last time the worker ends.

use std::io::BufRead;
use std::sync::Arc;

use taillight_core::units::Span;
use taillight_core::{Error, Result, Stamp};

use crate::generator::WorkerIndex;
use crate::trace::{self, TraceFile, TraceSelection};

/// One worker's instants, ns: those of the list that are its turn, moved to where the run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    times: Arc<[i64]>,
    /// Place of the next one in the list.
    position: usize,
    /// Workers that share the list.
    stride: usize,
    /// What every time is moved by, ns.
    origin: i64,
}

impl Replay {
    /// The share of the worker at `place`: of W workers every W-th time, from its own number on.
    pub fn new(times: Arc<[i64]>, place: WorkerIndex) -> Replay {
        Replay {
            times,
            position: place.index as usize,
            stride: place.of.max(1) as usize,
            origin: 0,
        }
    }

    /// The next instant, or [`Stamp::NEVER`] when there are no more; [`Replay::advance`] leaves it behind.
    #[inline]
    pub fn next(&self) -> i64 {
        let time = self.times.get(self.position);
        time.map_or(Stamp::NEVER.0, |t| self.origin.saturating_add(*t))
    }

    /// Moves every instant by `ns`.
    pub fn shift(&mut self, ns: i64) {
        self.origin += ns;
    }

    /// Moves to the next instant.
    #[inline]
    pub fn advance(&mut self) {
        self.position = self.position.saturating_add(self.stride);
    }

    /// How many instants of this worker lie before `until`, from the next one on.
    pub fn due(&self, until: i64) -> u64 {
        let at = until.saturating_sub(self.origin);
        let end = self.times.partition_point(|t| *t < at);
        super::rate::owned(self.position as u64, self.stride as u64, end as u64)
    }

    /// Leaves out every instant of this worker before `until`.
    pub fn skip(&mut self, until: i64) {
        self.position += self.due(until) as usize * self.stride;
    }
}

/// Reads the times of a file, ns, ascending: of a block trace if it begins as one, else of lines of times. Errors:
/// `Usage` when it cannot be read, holds no time, or a line is no time or goes back; of a trace as [`trace::read`].
pub fn read(path: &str) -> Result<Arc<[i64]>> {
    let error = |what: &str| {
        Error::usage(what.to_owned())
            .with("arrival.file", path)
            .hint("write one time a line since the start, with a unit, ascending: 1.5ms")
    };
    let file = TraceFile::open(path).map_err(|e| {
        Error::usage("the recorded times cannot be opened")
            .with("arrival.file", path)
            .source(e)
            .hint("give a file that can be read; paths are relative to the directory the command is run in")
    })?;
    if let Some(format) = file.recognise() {
        let all = TraceSelection::all();
        let read = trace::read(format, file, &all, "arrival.file", path)?;
        return match read.untimed {
            true => Err(error("the trace has no times")),
            false => Ok(read.times),
        };
    }
    let mut times = Vec::new();
    for (number, line) in std::io::BufReader::new(file.into_file()).lines().enumerate() {
        let at = number + 1;
        let line = line
            .map_err(|e| error("the recorded times cannot be read").with("line", at).source(e))?;
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let span: Span = text.parse().map_err(|e: String| error(&e).with("line", at))?;
        let time = i64::try_from(span.0).unwrap_or(i64::MAX);
        if times.last().is_some_and(|last| *last > time) {
            return Err(error("a recorded time lies before the one above it").with("line", at));
        }
        times.push(time);
    }
    if times.is_empty() {
        return Err(error("the file holds no recorded time"));
    }
    Ok(times.into())
}
