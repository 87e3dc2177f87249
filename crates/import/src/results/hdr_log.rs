//! A log of HdrHistogram (`.hlog`, `.hdr`): ours, YCSB's, that of cassandra-stress, any other whose unit the user says.
//!
//! Source: HdrHistogram, `HistogramLogWriter` and `HistogramLogReader`; YCSB, `OneMeasurementHdrHistogram`;
//! cassandra-stress, `StressMetrics`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::BuildHasher as _;

use taillight_core::{Error, LatencyKind, OpKind, Result};
use taillight_rundir::histlog::{BinsError, HistTag, OWN_COMMENT, ToldFigures, decode};
use taillight_rundir::latency::LatencyBin;
use taillight_rundir::origin::{
    ImportSource, ImportedBin, ImportedLatency, ImportedOp, ImportedWorkload,
};

use super::own::MIXED_SPANS;
use super::ycsb::OpName;
use super::{ForeignResult, ForeignRun, ForeignWorkload, ResultSource, ResultUnit, name_of};

const VERSION: &str = "[Histogram log format version";
/// What a packed `DoubleHistogram` begins with.
const DOUBLES: &str = "DHIST";
/// Before the name of the operation in YCSB's logs.
const YCSB: &str = "[Logging for: ";
/// What logs of cassandra-stress, in ns, begin with.
const STRESS: &str = "Logging op latencies for Cassandra Stress";
/// Different bins of one log at most: five digits over all of u64 have fewer.
const MOST_BINS: usize = 8 << 20;
/// Intervals of a log at most: a second each for three months.
const MOST_INTERVALS: usize = 8 << 20;
/// Different tags of a log at most, and bytes of one.
const MOST_TAGS: usize = 4096;
const LONGEST_TAG: usize = 1024;
/// The phase of our logs whose operations are the run's, with those of the drain after it.
const MEASURE: &str = "measure";

pub fn looks_like(head: &str) -> bool {
    head.lines().take(20).any(|line| line.starts_with('#') && line.contains(VERSION))
}

/// What a histogram of the log is about: workload, operation and kind of latency.
type HistSubject = (String, OpKind, LatencyKind);

#[derive(Default)]
struct LogSums {
    /// First and last value, in the unit of the log, and count.
    bins: BTreeMap<HistSubject, BTreeMap<(u64, u64), u64>>,
    /// Begin of the first interval and end of the last, s.
    spans: BTreeMap<HistSubject, (f64, f64)>,
    held: usize,
    /// Tags that name no operation of ours.
    unnamed: BTreeSet<String>,
    /// s.
    from: Option<f64>,
    to: f64,
    start: f64,
    /// What stamps count from, where the log says.
    base: Option<f64>,
    own: bool,
    /// How far values may be off, where our log has them of another tool's bins.
    error: Option<BinsError>,
    /// What that tool told of each operation, where our log has it.
    told: BTreeMap<HistTag, ToldFigures>,
    /// Whether the log is of cassandra-stress.
    stress: bool,
    /// The operation that YCSB's log is about.
    ycsb: Option<String>,
    /// Whether YCSB's log is of operations that failed.
    failed: bool,
    begun: bool,
    /// Hashes of intervals, to find one that stands there twice.
    seen: HashSet<u64>,
}

pub fn read(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    let mut sums = LogSums::default();
    while let Some(line) = source.whole_line()? {
        match line.strip_prefix('#') {
            Some(comment) => sums.comment(comment).map_err(|why| source.damaged(why))?,
            None if line.is_empty() || line.starts_with('"') => {}
            None => sums.interval(&line).map_err(|why| source.damaged(why))?,
        }
    }
    let ns = match (sums.own || sums.stress, &sums.ycsb) {
        (true, _) => source.says_unit(ResultUnit::Ns).map(|()| 1)?,
        (_, Some(_)) => source.says_unit(ResultUnit::Us).map(|()| 1_000)?,
        _ => source.asked_ns("a log of HdrHistogram has no place for it")?,
    };
    sums.run(source, ns)
}

impl LogSums {
    /// Errors: another log begins; figures that are damaged, or too many.
    fn comment(&mut self, comment: &str) -> std::result::Result<(), &'static str> {
        self.own |= comment == OWN_COMMENT;
        self.stress |= comment == STRESS;
        self.error = BinsError::parse(comment).or(self.error);
        if self.own {
            self.held += ToldFigures::take_in(comment, &mut self.told)?;
            self.bounded()?;
        }
        if comment.starts_with(VERSION) && std::mem::replace(&mut self.begun, true) {
            return Err("a second log begins here: give each run a file of its own");
        }
        if let Some(of) = comment.strip_prefix(YCSB) {
            self.ycsb = Some(of.trim_end_matches(']').to_owned());
        }
        let seconds = |rest: &str| rest.split(' ').next().and_then(|s| s.parse().ok());
        if let Some(rest) = comment.strip_prefix("[StartTime: ") {
            self.start = seconds(rest).unwrap_or(0.0);
        }
        if let Some(rest) = comment.strip_prefix("[BaseTime: ") {
            self.base = seconds(rest);
        }
        Ok(())
    }

    /// `[Tag=x,]start,length,maximum,histogram`.
    fn interval(&mut self, line: &str) -> std::result::Result<(), &'static str> {
        let (tag, rest) = match line.strip_prefix("Tag=").map(|rest| rest.split_once(',')) {
            Some(Some((tag, rest))) => (Some(tag), rest),
            Some(None) => return Err("a tag without a histogram"),
            None => (None, line),
        };
        let fields: Vec<&str> = rest.split(',').collect();
        let [start, length, _, packed] = fields.as_slice() else {
            return Err("no line of a log of HdrHistogram");
        };
        let time = |text: &str| text.trim().parse::<f64>().ok().filter(|s| (0.0..1e12).contains(s));
        let (Some(start), Some(length)) = (time(start), time(length)) else {
            return Err("the time is no number of seconds");
        };
        if tag.is_some_and(|tag| tag.len() > LONGEST_TAG) {
            return Err("the tag is too long");
        }
        if packed.trim().starts_with(DOUBLES) {
            return Err(
                "a histogram of fractions (DoubleHistogram) is not read: let its writer record whole numbers",
            );
        }
        let Some(histogram) = decode(packed.trim()) else {
            return Err("the histogram is damaged or cut short");
        };
        let Some(subject) = self.subject(tag) else { return Ok(()) };
        self.from = Some(self.from.map_or(start, |from| from.min(start)));
        self.to = self.to.max(start + length);
        let span = self.spans.entry(subject.clone()).or_insert((start, start));
        *span = (span.0.min(start), span.1.max(start + length));
        let bins = self.bins.entry(subject).or_default();
        let before = bins.len();
        for step in histogram.iter_recorded() {
            let value = step.value_iterated_to();
            let edges = (histogram.lowest_equivalent(value), histogram.highest_equivalent(value));
            let count = bins.entry(edges).or_default();
            *count = count.saturating_add(step.count_since_last_iteration());
        }
        self.held += bins.len() - before;
        let hash = self.seen.hasher().hash_one(line);
        if !histogram.is_empty() && !self.seen.insert(hash) {
            return Err("the same interval stands in the log twice");
        }
        self.bounded()
    }

    /// A log has no end that is known before: what is held of it has one. Errors: it was reached.
    fn bounded(&self) -> std::result::Result<(), &'static str> {
        let tags = self.bins.len().max(self.unnamed.len()).max(self.told.len());
        match (self.held > MOST_BINS, tags > MOST_TAGS, self.seen.len() > MOST_INTERVALS) {
            (true, ..) => Err("the log has too many different values"),
            (_, true, _) => Err("the log has too many different tags"),
            (.., true) => Err("the log has too many intervals: give it in parts"),
            _ => Ok(()),
        }
    }

    /// What a tag, or YCSB's heading, says. None for what does not count: of our logs other phases and parts of
    /// operations, but for those that another tool told, of cassandra-stress the wait before an operation.
    fn subject(&mut self, tag: Option<&str>) -> Option<HistSubject> {
        if self.own {
            let tag = HistTag::parse(tag?)?;
            let counts = tag.phase == MEASURE || tag.phase == "drain";
            let counts = counts && (!tag.op.is_part() || self.told.contains_key(&tag));
            return counts.then_some((tag.workload, tag.op, tag.kind));
        }
        let name = self.ycsb.as_deref().or(tag).unwrap_or_default();
        // Of cassandra-stress behind the operation: service, response, and the wait before, which is no operation.
        let (name, kind) = match name.rsplit_once('-').filter(|_| self.stress) {
            Some((name, "st")) => (name, Some(LatencyKind::Service)),
            Some((name, "rt")) => (name, Some(LatencyKind::Response)),
            Some((_, "wt")) => return None,
            _ => (name, None),
        };
        // Only YCSB has names of errors behind operations.
        let known = OpName::of(name).filter(|of| self.ycsb.is_some() || !of.failed);
        self.failed |= self.ycsb.is_some() && known.is_some_and(|of| of.failed);
        let intended = known.is_some_and(|of| of.intended);
        let own = if intended { LatencyKind::Response } else { LatencyKind::Service };
        let kind = kind.unwrap_or(own);
        let op = known.map(|of| of.op).or_else(|| OpKind::from_name(&name.to_lowercase()));
        Some(match op {
            Some(op) => ("all".to_owned(), op, kind),
            None => {
                self.unnamed.insert(name.to_owned());
                let of = if name.is_empty() { "all" } else { name };
                (of.to_owned(), OpKind::Read, kind)
            }
        })
    }

    /// What stamps count from, s: as `HistogramLogReader` does, the base time, else the start where the first stamp is
    /// long before it; else stamps are those of the clock.
    fn origin(&self) -> f64 {
        const YEAR_S: f64 = 365.0 * 24.0 * 3600.0;
        let first = self.from.unwrap_or(0.0);
        let relative = first < self.start - YEAR_S;
        self.base.unwrap_or(if relative { self.start } else { 0.0 })
    }

    /// The tool that wrote the log.
    fn tool(&self) -> &'static str {
        match (self.own, self.stress, &self.ycsb) {
            (true, ..) => "taillight",
            (_, true, _) => "cassandra-stress",
            (.., Some(_)) => "ycsb",
            _ => "hdrhistogram",
        }
    }

    /// The group of each workload. Of another tool's bins, an interval is a whole job, and jobs of one group start
    /// together; all else ran at the same time.
    fn groups(&self) -> BTreeMap<String, u32> {
        let mut starts: BTreeMap<String, i64> = BTreeMap::new();
        for ((workload, ..), (from, _)) in self.spans.iter().filter(|_| self.error.is_some()) {
            let ms = (*from * 1e3).round() as i64;
            let start = starts.entry(workload.clone()).or_insert(ms);
            *start = ms.min(*start);
        }
        let each: BTreeSet<i64> = starts.values().copied().collect();
        let of = |(workload, ms): (String, i64)| (workload, each.range(..ms).count() as u32);
        starts.into_iter().map(of).collect()
    }

    fn run(mut self, source: &ResultSource<'_>, ns: u64) -> Result<ForeignRun> {
        let mut notes = Vec::new();
        // A kind that was logged and never counted is none that the operation has.
        self.bins.retain(|_, bins| !bins.is_empty());
        if !self.unnamed.is_empty() {
            notes.push(
                "the log does not tell which operations these were: they stand as reads".into(),
            );
        }
        // What a run shows first: of operations with a schedule the response, else the service.
        let scheduled: BTreeSet<(String, OpKind)> = self
            .bins
            .keys()
            .filter(|(.., kind)| *kind == LatencyKind::Response)
            .map(|(workload, op, _)| (workload.clone(), *op))
            .collect();
        let kinds: BTreeSet<LatencyKind> = self.bins.keys().map(|(.., kind)| *kind).collect();
        let of: BTreeSet<(&String, OpKind)> = self.bins.keys().map(|(w, op, _)| (w, *op)).collect();
        let all_scheduled = of.len() == scheduled.len();
        if kinds.len() > 1 {
            notes.push("of several kinds of latency the response is read, else the service".into());
        }
        let groups = self.groups();
        // Tags of two jobs may be alike but for the operation: what is told of them says which is which.
        let mut workloads: BTreeMap<(u32, String), ForeignWorkload> = BTreeMap::new();
        let mut tools = BTreeSet::new();
        for (subject, bins) in std::mem::take(&mut self.bins) {
            let (tag, op, of) = subject.clone();
            let kind = match scheduled.contains(&(tag, op)) {
                true => LatencyKind::Response,
                false => LatencyKind::Service,
            };
            if of == kind {
                let found = self.figures(subject, bins, (ns, &groups), source)?;
                let ToldFigures { place, workload, group, tool, spans, op: it } = found;
                tools.insert((tool, spans));
                let of = workloads.entry((place, workload.clone()));
                let of = of.or_insert_with(|| foreign(group, workload, BTreeMap::new()));
                of.figures.ops.insert(op, it);
            }
        }
        if let Some(tag) = self.told.keys().next() {
            return Err(source.cut(&format!("there is no histogram of {}", tag.text())));
        }
        let told = tools.first().filter(|(tool, _)| tools.len() == 1 && !tool.is_empty());
        notes.extend(told.map(|(tool, _)| format!("figures that {tool} measured, exported")));
        let tool = self.tool();
        ForeignResult {
            tool,
            driver: tool,
            spans: match (all_scheduled, scheduled.is_empty()) {
                _ if told.is_some() => told.map(|(_, spans)| spans.clone()).unwrap_or_default(),
                (true, _) => ImportSource::SCHEDULED.to_owned(),
                (false, true) => "what the writer of the log recorded".to_owned(),
                (false, false) => MIXED_SPANS.to_owned(),
            },
            name: name_of(source.file),
            ended_ns: ((self.origin() + self.to) * 1e9) as i64,
            workloads: workloads.into_values().collect(),
            notes,
            ..ForeignResult::default()
        }
        .run(source)
    }

    /// What is known of an operation and its job: what the log tells beside the histogram, else the histogram alone.
    /// Errors: `Corrupt` where the two have different counts, and for a latency beyond any run.
    fn figures(
        &mut self,
        (workload, op, kind): HistSubject,
        bins: BTreeMap<(u64, u64), u64>,
        (ns, groups): (u64, &BTreeMap<String, u32>),
        source: &ResultSource<'_>,
    ) -> Result<ToldFigures> {
        let tag = HistTag { phase: MEASURE.to_owned(), workload, op, kind };
        if let Some(told) = self.told.remove(&tag) {
            let latency = &told.op.latency;
            let counted = bins.values().fold(0, |sum, n| u64::saturating_add(sum, *n));
            let edges = latency.bins.iter().fold(0, |sum, bin| u64::saturating_add(sum, bin.count));
            if latency.count == counted && edges == counted {
                return Ok(told);
            }
            let what = "a histogram has not as many values as the comments of its tag tell";
            return Err(Error::corrupt(what)
                .with("path", source.file)
                .with("tag", tag.text())
                .hint("give the log as `taillight export` wrote it, whole"));
        }
        let workload = tag.workload;
        let group = groups.get(&workload).copied().unwrap_or(0);
        let span = self.spans.get(&(workload.clone(), op, kind)).copied().unwrap_or_default();
        let seconds = (span.1 - span.0).max(0.0);
        let it = imported(bins, ns, seconds, self.error).ok_or_else(|| {
            Error::corrupt("a latency that no run has, in this unit")
                .with("path", source.file)
                .hint("look at --unit, and for a number that is damaged")
        })?;
        // Latencies of failed operations are none of the load's.
        let it = match self.failed {
            true => ImportedOp { errors: it.count, latency: ImportedLatency::default(), ..it },
            false => it,
        };
        let (tool, spans) = (String::new(), String::new());
        Ok(ToldFigures { place: group, workload, group, tool, spans, op: it })
    }
}

fn foreign(group: u32, name: String, ops: BTreeMap<OpKind, ImportedOp>) -> ForeignWorkload {
    ForeignWorkload {
        figures: ImportedWorkload { name, group, ops },
        random: false,
        workers: 0,
        depth: 0,
        block: 0,
    }
}

/// Values may be off by `error`, by which bins are wider; the extremes and the mean are of the values as they stand.
/// None for a latency that is beyond what a count of ns holds.
fn imported(
    bins: BTreeMap<(u64, u64), u64>,
    ns: u64,
    seconds: f64,
    error: Option<BinsError>,
) -> Option<ImportedOp> {
    let bin = |((lo, hi), count): ((u64, u64), u64)| {
        let hi_ns = hi.checked_add(1)?.checked_mul(ns)? - 1;
        Some(ImportedBin { lo_ns: lo.checked_mul(ns)?, hi_ns, count })
    };
    let bins: Option<Vec<ImportedBin>> = bins.into_iter().map(bin).collect();
    let mut latency = ImportedLatency::from_bins(bins?);
    if let Some(error) = error {
        // The tool's bins ascended; one that may reach beyond any run is open.
        let mut least = 0u64;
        for bin in &mut latency.bins {
            least = least.max(bin.lo_ns.saturating_sub(error.at(bin.lo_ns).ceil() as u64));
            let hi_ns = bin.hi_ns.saturating_add(error.at(bin.hi_ns).ceil() as u64);
            (bin.lo_ns, bin.hi_ns) = (least, hi_ns.min(LatencyBin::OPEN_NS));
        }
        if latency.bins.last().is_some_and(|bin| bin.range().is_open()) {
            (latency.max_ns, latency.mean_ns) = (None, None);
        }
    }
    Some(ImportedOp {
        count: latency.count,
        duration_ns: (seconds * 1e9) as u64,
        iops: if seconds > 0.0 { latency.count as f64 / seconds } else { 0.0 },
        latency,
        ..ImportedOp::default()
    })
}

#[cfg(test)]
mod tests {
    use taillight_rundir::origin::RunOrigin;

    use super::*;

    #[test]
    fn latencies_beyond_what_is_counted_are_none() {
        let of = |hi, ns| imported(BTreeMap::from([((hi - 1, hi), 1)]), ns, 1.0, None);
        assert_eq!(of(7, 1_000).unwrap().latency.max_ns, Some(7_999));
        assert!(of(u64::MAX, 1).is_none() && of(u64::MAX / 1_000, 1_000).is_none());
    }

    #[test]
    fn what_is_held_of_a_log_has_an_end() {
        let interval = |tag: &str| {
            format!("Tag={tag},0,1,1,HISTFAAAACV4nJNpmSzMwMDAwgABzFCaEch0M9ixgMH+A0Rgc8UJRgBlvgZD")
        };
        let mut sums = LogSums::default();
        let why = sums.interval(&interval(&"x".repeat(LONGEST_TAG + 1))).unwrap_err();
        assert!(why.contains("tag is too long"), "{why}");
        assert_eq!(sums.interval(&interval("a")), Ok(()));
        assert_eq!((sums.seen.len(), sums.bins.len()), (1, 1));
        assert!(sums.interval(&interval("a")).unwrap_err().contains("stands in the log twice"));
        let mut all = (0..MOST_TAGS).map(|i| sums.interval(&interval(&format!("t{i}"))));
        let why = all.find_map(std::result::Result::err).unwrap();
        assert!(why.contains("too many different tags"), "{why}");
    }

    /// Once the service, response and waiting times of a request counted as three requests.
    #[test]
    fn kinds_of_cassandra_stress_are_no_operations() {
        let mut sums = LogSums::default();
        sums.comment(STRESS).unwrap();
        let all = |op, kind| Some(("all".to_owned(), op, kind));
        let (service, response) = (LatencyKind::Service, LatencyKind::Response);
        assert_eq!(sums.subject(Some("READ-st")), all(OpKind::Get, service));
        assert_eq!(sums.subject(Some("READ-rt")), all(OpKind::Get, response));
        assert_eq!(sums.subject(Some("WRITE-st")), all(OpKind::Write, service));
        assert_eq!(sums.subject(Some("READ-wt")), None);
        let other = LogSums::default().subject(Some("READ-st"));
        assert_eq!(other, Some(("READ-st".to_owned(), OpKind::Read, service)));
        let row = "0,1,1,HISTFAAAACV4nJNpmSzMwMDAwgABzFCaEch0M9ixgMH+A0Rgc8UJRgBlvgZD";
        let log = |tags: &[&str]| {
            let rows: String = tags.iter().map(|tag| format!("Tag={tag},{row}\n")).collect();
            let text = format!("#{STRESS}\n#{VERSION} 1.3]\n{rows}");
            let mut source = ResultSource::new("a.hdr", String::new(), Box::new(text.as_bytes()));
            let run = read(&mut source).unwrap_or_else(|e| panic!("{e}"));
            let scheduled = run.manifest.origin.imported().unwrap().is_scheduled();
            (run.figures.workloads[0].ops.clone(), scheduled)
        };
        let (alone, scheduled) = log(&["READ-st"]);
        assert!(alone[&OpKind::Get].count > 0 && !scheduled);
        assert_eq!(log(&["READ-rt", "READ-st", "READ-wt"]), (alone, true));
    }

    /// Once jobs that ran one after another were read as if at the same time, and exact to 0.1 %.
    #[test]
    fn a_log_of_bins_keeps_groups_and_error() {
        let row = "1,1,HISTFAAAACV4nJNpmSzMwMDAwgABzFCaEch0M9ixgMH+A0Rgc8UJRgBlvgZD";
        let log = |bins: &str| {
            let rows: String = [("a", "0.000"), ("b", "1.000"), ("c", "1.000")]
                .map(|(w, start)| format!("Tag=measure/{w}/read/service,{start},{row}\n"))
                .concat();
            let text = format!("#{VERSION} 1.3]\n#{OWN_COMMENT}\n{bins}{rows}");
            let mut source = ResultSource::new("a.hlog", String::new(), Box::new(text.as_bytes()));
            read(&mut source).unwrap_or_else(|e| panic!("{e}")).figures.workloads
        };
        let told = |ns| format!("#{}\n", BinsError { share: 0.008, ns }.comment());
        let (of_bins, plain) = (log(&told(u64::MAX)), log(""));
        let groups = |of: &[ImportedWorkload]| of.iter().map(|w| w.group).collect::<Vec<_>>();
        assert_eq!((groups(&of_bins), groups(&plain)), (vec![0, 1, 1], vec![0, 0, 0]));
        let latency = |of: &[ImportedWorkload]| of[0].ops[&OpKind::Read].latency.clone();
        let (wide, narrow) = (latency(&of_bins), latency(&plain));
        assert_eq!((wide.count, wide.max_ns), (narrow.count, narrow.max_ns));
        for (wide, narrow) in wide.bins.iter().zip(&narrow.bins) {
            let (hi, lo) = (narrow.hi_ns as f64 * 1.007, narrow.lo_ns as f64 * 0.993);
            assert!(wide.hi_ns as f64 >= hi && wide.lo_ns as f64 <= lo, "{wide:?} {narrow:?}");
        }
        // Bins of one width are off by as much anywhere.
        for (wide, narrow) in latency(&log(&told(2))).bins.iter().zip(&narrow.bins) {
            let wider = [wide.hi_ns - narrow.hi_ns, narrow.lo_ns - wide.lo_ns];
            assert_eq!(wider, [2, 2], "{wide:?} {narrow:?}");
        }
    }

    /// Once bins came back as wide as the widest of them, and an open one was refused.
    #[test]
    fn what_the_comments_of_a_log_tell_counts_before_its_histograms() {
        let row = "HISTFAAAACV4nJNpmSzMwMDAwgABzFCaEch0M9ixgMH+A0Rgc8UJRgBlvgZD";
        let n = decode(row).unwrap().len();
        let tag = |workload: &str| HistTag::parse(&format!("measure/{workload}/read/service"));
        let told = |workload: &str, place: u32| {
            let wide = ImportedBin { lo_ns: 1, hi_ns: 9_000, count: n - 1 };
            let open = ImportedBin { lo_ns: 9_001, hi_ns: LatencyBin::OPEN_NS, count: 1 };
            let latency = ImportedLatency::from_bins(vec![wide, open]);
            let op = ImportedOp { count: n + 2, errors: 2, latency, ..ImportedOp::default() };
            let (tool, spans) = ("fio 3.33".to_owned(), "clat".to_owned());
            ToldFigures { place, workload: workload.to_owned(), group: place / 2, tool, spans, op }
        };
        let log = |all: &[(&str, ToldFigures)]| {
            let comments = all.iter().flat_map(|(name, it)| {
                let comments = it.clone().comments(&tag(name).unwrap()).unwrap();
                comments.into_iter().map(|comment| format!("#{comment}\n"))
            });
            // All within a ms.
            let rows = all.iter().map(|(name, _)| {
                format!("Tag={},0.000,0.000,1,{row}\n", tag(name).unwrap().text())
            });
            let rows: String = comments.chain(rows).collect();
            format!("#{VERSION} 1.3]\n#{OWN_COMMENT}\n{rows}")
        };
        let read = |text: &str| {
            let mut source = ResultSource::new("a.hlog", String::new(), Box::new(text.as_bytes()));
            read(&mut source).map_err(|e| e.to_string())
        };
        let origin = |text: &str| read(text).map(|run| run.manifest.origin);
        let read = |text: &str| read(text).map(|run| run.figures.workloads);
        let all = [("b", told("b", 0)), ("a_b", told("a b", 1)), ("a_c", told("a c", 2))];
        let found = read(&log(&all)).unwrap();
        let found = (0..).zip(found).map(|(place, mut w)| {
            let op = w.ops.remove(&OpKind::Read).unwrap();
            let (tool, spans) = ("fio 3.33".to_owned(), "clat".to_owned());
            ToldFigures { place, workload: w.name, group: w.group, tool, spans, op }
        });
        assert_eq!(found.collect::<Vec<_>>(), all.clone().map(|(_, told)| told));
        let text = log(&all);
        let RunOrigin::Imported(source) = origin(&text).unwrap() else { panic!("imported") };
        assert_eq!(source.spans, "clat");
        assert!(source.notes.iter().any(|note| note.contains("fio 3.33")), "{:?}", source.notes);
        // What is a part of ours is an operation of that tool.
        let part = read(&text.replace("/read/", "/wait/")).unwrap();
        assert!(part.iter().all(|w| w.ops.contains_key(&OpKind::Wait)), "{part:?}");
        let cut = &text[..text.rfind("Tag=").unwrap()];
        let why = read(cut).unwrap_err();
        assert!(why.contains("cut short: there is no histogram of measure/a_c"), "{why}");
        let why = read(&text.replacen("1-9000 ", "1-9000 1", 1)).unwrap_err();
        assert!(why.contains("not as many values") && why.contains("measure/b"), "{why}");
        // A log of an earlier version has no such comments, and knows an open bin by its width.
        let error = Some(BinsError { share: 1.0, ns: LatencyBin::OPEN_NS / 2 });
        let far = LatencyBin::OPEN_NS / 2;
        let bins = BTreeMap::from([((5, 5), 1), ((1_000, 1_000), 1), ((far, far + 9), 1)]);
        let it = imported(bins, 1, 1.0, error).unwrap().latency;
        assert!(it.bins.windows(2).all(|two| two[0].lo_ns <= two[1].lo_ns), "{it:?}");
        assert!(it.bins[2].range().is_open() && !it.bins[1].range().is_open(), "{it:?}");
        assert_eq!((it.count, it.max_ns), (3, None));
    }

    #[test]
    fn a_histogram_of_fractions_is_named() {
        let why = LogSums::default().interval("0,1,1,DHISTwAA").unwrap_err();
        assert!(why.contains("DoubleHistogram"), "{why}");
    }

    #[test]
    fn names_of_ycsb_are_read_as_elsewhere() {
        for (name, op, kind, failed) in [
            ("HdrREAD", OpKind::Get, LatencyKind::Service, false),
            ("HdrIntended-UPDATE", OpKind::Update, LatencyKind::Response, false),
            ("READ-FAILED", OpKind::Get, LatencyKind::Service, true),
        ] {
            let mut sums = LogSums::default();
            sums.comment(&format!("[Logging for: {name}]")).unwrap();
            assert_eq!(sums.subject(None), Some(("all".to_owned(), op, kind)), "{name}");
            assert_eq!((sums.failed, sums.unnamed.len()), (failed, 0), "{name}");
        }
        let mut twice = LogSums::default();
        let heading = "[Histogram log format version 1.3]";
        twice.comment(heading).unwrap();
        assert!(twice.comment(heading).unwrap_err().contains("second log"));
    }
}
