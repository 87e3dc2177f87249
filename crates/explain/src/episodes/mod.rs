//! Outliers grouped into episodes: one stall at depth 32 is one event, not 32. Each with the layer
//! to blame, the evidence in words, who else used the disk, and what its picture needs.

pub mod advice;
pub mod culprits;
pub mod host_signs;
pub mod neighbours;
pub mod patterns;
mod unseen;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use taillight_core::TimeSpan;
use taillight_core::units::readable;
use taillight_rundir::layers::flags;
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::trace_info::{TraceInfo, TracingBackend};
use taillight_stats::{episodes::DEFAULT_GAP_NS, group_episodes};

use crate::episodes::advice::next;
use crate::episodes::culprits::{Culprit, culprits, off_during_any};
use crate::episodes::host_signs::HostSigns;
use crate::episodes::patterns::OutlierFeatures;
use crate::events::Events;
use crate::events::event::{Pause, Timed};
use crate::events::stacks::{self, SleepReason, Stack};
use crate::events::thread::Thread;
use crate::phase::Phase;
use crate::time_line::segments::Segment;
use crate::verdict::judge::{Judged, Layer};
use crate::wait_graph::pauses;

/// What blocks a thread, for all that backend perf can tell.
pub const CANNOT_SEE: &str = "storage, file system, lock or server, this backend cannot see which";

/// Episodes with a picture, the heaviest ones.
const PICTURES: usize = 12;
/// I/Os in a picture.
const ROWS: usize = 24;

/// One episode.
#[derive(Debug, Clone)]
pub struct EpisodeView {
    /// Earliest submit, CLOCK_MONOTONIC ns.
    pub start_ns: i64,
    pub end_ns: i64,
    pub ios: u64,
    /// The slowest, ns.
    pub worst_ns: u64,
    /// The layer to blame.
    pub layer: Layer,
    /// Excess over the usual, all layers, ns.
    pub excess_ns: u64,
    /// Share of it that the layer holds, 0 to 1.
    pub share: f64,
    /// What was seen, most telling first.
    pub evidence: Vec<String>,
    /// Who stood in the way.
    pub culprits: Vec<Culprit>,
    /// What confirms or mends it.
    pub next: String,
    /// How many of its verdicts blame this layer and are sure.
    pub sure: u64,
    /// What of its slowest traced I/O may come again in others.
    pub features: OutlierFeatures,
    /// For the picture; empty when it has none.
    pub picture: Vec<PictureRow>,
}

impl EpisodeView {
    /// One of a layer, of which nothing is known.
    #[cfg(test)]
    pub fn nothing(layer: Layer) -> EpisodeView {
        EpisodeView {
            start_ns: 0,
            end_ns: 0,
            ios: 1,
            worst_ns: 0,
            layer,
            excess_ns: 0,
            share: 1.0,
            evidence: Vec::new(),
            culprits: Vec::new(),
            next: String::new(),
            sure: 0,
            features: OutlierFeatures::default(),
            picture: Vec::new(),
        }
    }

    /// How many outliers, and how slow, in words.
    pub fn size(&self) -> String {
        let worst = readable::duration_ns(self.worst_ns);
        match self.ios {
            1 => format!("1 outlier of {worst}"),
            n => format!("{} outliers up to {worst}", readable::count(n)),
        }
    }
    /// How sure the layer is: `sure` when nine of ten of its verdicts blame it and are, else `likely`; none of unknown
    /// and mixed ones.
    pub fn certainty(&self) -> Option<&'static str> {
        match self.layer {
            Layer::Unknown | Layer::Mixed => None,
            _ if self.sure * 10 >= self.ios * 9 => Some("sure"),
            _ => Some("likely"),
        }
    }
    /// Where most of the excess went. The share of a mixed episode is that of its largest part.
    pub fn blame(&self) -> String {
        match self.layer {
            Layer::Mixed => "the excess in several places, none with half of it".to_owned(),
            layer => {
                let share = readable::percent(self.share);
                format!("{share} of the excess {}", layer.place())
            }
        }
    }
}

/// One I/O in a picture.
#[derive(Debug, Clone)]
pub struct PictureRow {
    pub label: String,
    /// What stood in front of it at its disk, in words; none where it was seen at no disk.
    pub in_front: Option<String>,
    pub segments: Vec<Segment>,
}

/// What was seen beside the I/Os themselves.
pub struct EpisodeContext<'a> {
    /// Events of the trace.
    pub events: &'a Events,
    /// How it was traced.
    pub info: &'a TraceInfo,
    /// Where its figures come from.
    pub origin: &'a RunOrigin,
    /// Processes of the program that was watched, as far as they are known.
    pub watched: &'a [u32],
    /// Samples of the machine.
    pub around: &'a HostSigns<'a>,
}

/// Groups outliers that overlap, or follow within `DEFAULT_GAP_NS`, into episodes, by time.
pub fn episodes(judged: Vec<Judged>, seen: &EpisodeContext) -> Vec<EpisodeView> {
    let spans: Vec<(i64, i64)> =
        judged.iter().map(|j| (j.slow.submit_ns, j.slow.complete_ns)).collect();
    let grouped = group_episodes(&spans, DEFAULT_GAP_NS);
    let starts: Vec<i64> = grouped.list().iter().map(|e| e.start_ns).collect();
    let mut members: Vec<Vec<Judged>> = vec![Vec::new(); starts.len()];
    for one in judged {
        let place = starts.partition_point(|s| *s <= one.slow.submit_ns);
        if let Some(list) = members.get_mut(place.saturating_sub(1)) {
            list.push(one);
        }
    }
    let mut views: Vec<EpisodeView> =
        members.iter().filter(|list| !list.is_empty()).map(|list| view(list, seen)).collect();
    let mut heavy: Vec<usize> = (0..views.len()).collect();
    heavy.sort_by_key(|i| std::cmp::Reverse(views[*i].excess_ns));
    for i in heavy.into_iter().take(PICTURES) {
        views[i].picture = picture(&members[i]);
    }
    views
}

fn view(list: &[Judged], seen: &EpisodeContext) -> EpisodeView {
    let start_ns = list.iter().map(|j| j.slow.submit_ns).min().unwrap_or(0);
    let end_ns = list.iter().map(|j| j.slow.complete_ns).max().unwrap_or(0);
    let mut sums: BTreeMap<Layer, u64> = BTreeMap::new();
    for (layer, ns) in list.iter().flat_map(|j| j.excess.iter()) {
        *sums.entry(*layer).or_insert(0) += ns;
    }
    let total: u64 = sums.values().sum();
    let most = sums.iter().max_by_key(|(_, ns)| **ns);
    let (blamed, ns) = most.map_or((Layer::Unknown, 0), |(l, ns)| (*l, *ns));
    let blamed = if ns.saturating_mul(2) >= total { blamed } else { Layer::Mixed };
    let latency = |j: &Judged| j.slow.complete_ns.saturating_sub(j.slow.intended_ns).max(0) as u64;
    let span = TimeSpan::new(start_ns, end_ns);
    let culprits = culprits(list, seen.events, span);
    EpisodeView {
        start_ns,
        end_ns,
        ios: list.len() as u64,
        worst_ns: list.iter().map(latency).max().unwrap_or(0),
        layer: blamed,
        excess_ns: total,
        share: ns as f64 / total.max(1) as f64,
        evidence: evidence(list, seen, span),
        next: next(blamed, list.iter().all(|j| j.always), seen, &culprits),
        culprits,
        sure: list.iter().filter(|j| j.sure && j.layer == blamed).count() as u64,
        features: OutlierFeatures::of(list, seen.events),
        picture: Vec::new(),
    }
}

fn evidence(list: &[Judged], seen: &EpisodeContext, span: TimeSpan) -> Vec<String> {
    let EpisodeContext { events, info, .. } = *seen;
    let mut said = Vec::new();
    as_always(list, &mut said);
    said.extend(paused(list, events, span));
    sleeps_and_waits(list, events, &mut said);
    stamps_and_marks(list, events, &mut said);
    let held = events.held.within(span.from, span.to);
    let held = held.filter_map(|part| Some((held_by(part.stack.as_deref()?), 1)));
    if let Some(by) = neighbours::most(held) {
        said.push(format!("I/Os were queued late: {}", by.0));
    }
    let time = |ns: u64| readable::duration_ns(ns);
    let without: u64 =
        events.quota.within(span.from, span.to).map(|window| window.without_ns).sum();
    if without > 0 {
        said.push(format!(
            "the control group's CPU quota was spent: {} without CPU",
            time(without)
        ));
    }
    let commits: Vec<u64> = events
        .commits
        .within(span.from, span.to)
        .map(|r| r.time().length().max(0) as u64)
        .collect();
    if let Some(longest) = commits.iter().max() {
        said.push(format!(
            "{}, the longest {}",
            readable::counted(commits.len() as u64, "journal commit"),
            time(*longest)
        ));
    }
    unseen::describe(list, seen, span, &mut said);
    let first = events.stalls.partition_point(|(_, to, _)| *to <= span.from);
    let stalls = events.stalls[first..].iter().take_while(|(from, ..)| *from < span.to);
    let held: u64 = stalls.map(|(.., ns)| ns).sum();
    if held > 0 {
        said.push(format!(
            "the store says it held writers back for {} in the samples around it",
            time(held)
        ));
    }
    let shared = |j: &&Judged| j.layer == Layer::PageCache && j.shared;
    let pages = list.iter().filter(shared).count();
    if pages > 0 {
        said.push(format!("{pages} waited for a page that another I/O of the run was reading"));
    }
    neighbours::describe(events, info, span, &mut said);
    said.extend(seen.around.words(span.from, span.to));
    let lacking = list.iter().filter(|j| j.is_untraced()).count();
    if lacking > 0 && info.backend != TracingBackend::Pauses {
        said.push(format!("{lacking} of them were not traced"));
    }
    said
}

/// The pauses of the target in an episode, the longest with what it was for, then what the others were for; those that
/// are nothing beside its latencies are left out.
fn paused(list: &[Judged], events: &Events, span: TimeSpan) -> Option<String> {
    let worst = list.iter().map(|j| j.slow.time().length()).max()?;
    let length = |pause: &&Pause| pause.time().length();
    let told =
        pauses::during(events, span.from, span.to).filter(|pause| length(pause) * 20 >= worst);
    let told: Vec<&Pause> = told.collect();
    let longest = told.iter().copied().max_by_key(length)?;
    let time = |ns: i64| readable::duration_ns(ns.max(0).unsigned_abs());
    let reached = longest.stopped_ns - longest.start_ns;
    let late = match reached * 10 >= length(&longest) {
        true => format!(", of which {} until all threads stood still", time(reached)),
        false => String::new(),
    };
    let one = format!("{}{late}: {}", time(length(&longest)), longest.reason);
    let others: BTreeSet<&str> =
        told.iter().map(|p| &*p.reason).filter(|other| *other != &*longest.reason).collect();
    let others = match others.len() {
        0 => String::new(),
        _ => format!("; others: {}", others.into_iter().collect::<Vec<_>>().join(", ")),
    };
    Some(match told.len() {
        1 => format!("JVM pause, {one}"),
        n => format!("{n} JVM pauses, the longest {one}{others}"),
    })
}

/// That the storage is always this slow, or that I/Os waited behind a slow I/O.
fn as_always(list: &[Judged], said: &mut Vec<String>) {
    let always = list.iter().filter(|j| j.always).count();
    if always > 0 {
        said.push(format!(
            "{always} of {} are no slower than usual: this is where their time always goes",
            list.len()
        ));
    }
    let behind = list.iter().filter(|j| j.behind_ns.is_some());
    let longest = behind.clone().max_by_key(|j| j.behind_ns);
    if let Some((j, ns)) = longest.and_then(|j| Some((j, j.behind_ns?))) {
        said.push(format!(
            "{} of {} waited behind one that took {} {}",
            behind.count(),
            list.len(),
            readable::duration_ns(ns),
            j.layer.place()
        ));
    }
}

/// What the threads waited for, and which threads were running instead.
fn sleeps_and_waits(list: &[Judged], events: &Events, said: &mut Vec<String>) {
    let mut reasons: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut instead: BTreeMap<(Arc<Thread>, bool), u64> = BTreeMap::new();
    let mut wakers: BTreeMap<Arc<Thread>, u64> = BTreeMap::new();
    let mut strange: BTreeMap<String, u64> = BTreeMap::new();
    for off in off_during_any(list, events) {
        let robbed = off.was_preempted();
        let wake = off.runnable_ns();
        let slept_ns = (wake - off.start_ns).max(0) as u64;
        let reason = off.reason();
        if let Some((SleepReason::Unknown, stack)) = reason.zip(off.stack.as_deref())
            && slept_ns > 0
            && !robbed
        {
            let shown = stacks::shown(stack) + &unseen::woken_up(off, events.own_pid);
            *strange.entry(shown).or_insert(0) += slept_ns;
        }
        if let Some(SleepReason::For(phase, words) | SleepReason::Lock(phase, words)) = reason
            && slept_ns > 0
        {
            let mut words = words;
            if events.store && phase == Phase::Application {
                let braked = off.was_in(stacks::sleeps_for_set_time);
                words = match braked {
                    true => "held back by the store, for a time that it set",
                    false => "asleep in the store",
                };
                // Anybody else was only interrupted when its time was over, or may have been.
                if !braked && off.waker.is_own {
                    let by = off.waker.named().cloned();
                    let by = by.unwrap_or_else(|| Thread::named("nobody"));
                    *wakers.entry(by).or_insert(0) += 1;
                }
            }
            *reasons.entry(words).or_insert(0) += slept_ns;
        }
        let waited = match off.at_least {
            Some(least) if !robbed => least.waited_ns,
            _ => (off.end_ns - wake).max(0) as u64,
        };
        if waited > 0 {
            let who = off.ran.clone().unwrap_or_default();
            *instead.entry((who, robbed)).or_insert(0) += waited;
        }
    }
    let time = |ns: u64| readable::duration_ns(ns);
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    for (words, ns) in reasons.into_iter().take(3) {
        said.push(format!("{words} ({})", time(ns)));
    }
    if let Some((stack, ns)) = strange.into_iter().max_by_key(|(_, ns)| *ns) {
        said.push(format!("asleep for {}, not known what for: {stack}", time(ns)));
    }
    if let Some((by, _)) = wakers.into_iter().max_by_key(|(_, n)| *n) {
        said.push(format!("mostly woken up by {}", by.words(events.own_pid)));
    }
    said.extend(waited_for_cpu(instead, events.own_pid));
}

/// The longest wait for a CPU behind a single thread, in words; none up to 0.5 ms. `instead`: ns by that thread, and by
/// whether it took the CPU away.
fn waited_for_cpu(instead: BTreeMap<(Arc<Thread>, bool), u64>, own: Option<u64>) -> Option<String> {
    let ((who, robbed), ns) = instead.into_iter().max_by_key(|(_, ns)| *ns)?;
    (ns > 500_000).then(|| {
        let behind = match &*who.name {
            "" => String::new(),
            name if name.starts_with("swapper") => " behind an idle CPU".to_owned(),
            _ if robbed => format!(", taken first by {}", who.words(own)),
            // Several may have had it in turn: known is the last one.
            _ => format!(", which {} had last", who.words(own)),
        };
        format!("waited {} for a CPU{behind}", readable::duration_ns(ns))
    })
}

/// What the I/Os' own stamps and marks say.
fn stamps_and_marks(list: &[Judged], events: &Events, said: &mut Vec<String>) {
    let ios = || list.iter().filter_map(|j| j.io.as_ref());
    let marked = |bit: u64| ios().filter(|io| io.has(bit)).count();
    let marks = [
        (flags::HELD, "had been held back before the block layer"),
        (flags::REQUEUED, "were given back by the driver and tried again"),
        (flags::PUNTED, "were handed to io_uring worker threads"),
        (flags::SPLIT, "were cut by the block layer"),
    ];
    for (bit, words) in marks {
        let n = marked(bit);
        if n > 0 {
            said.push(format!("{n} of {} I/Os {words}", list.len()));
        }
    }
    let worst = list.iter().max_by_key(|j| j.phases.sum());
    if let Some((worst, io)) = worst.and_then(|j| Some((j, j.io.as_ref()?))) {
        let mut parts: Vec<_> = Phase::ALL
            .into_iter()
            .map(|p| (worst.phases.get(p), p))
            .filter(|(ns, _)| *ns > 0)
            .collect();
        parts.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
        let text: Vec<String> = parts
            .iter()
            .take(3)
            .map(|(ns, p)| format!("{} {}", p.words(), readable::duration_ns(*ns)))
            .collect();
        let name = |dev: &str| events.disks.name(dev);
        let low = io.lower.dev.as_deref();
        let low = low.map_or(String::new(), |d| format!(" over {}", name(d)));
        let dev = io.dev.as_deref().map_or(String::new(), |d| format!(" on {}{low}", name(d)));
        said.push(format!("the slowest{dev}: {}", text.join(", ")));
        let front = worst.in_front.map(|front| front.words());
        said.extend(front.map(|words| format!("in front of it when it was queued: {words}")));
    }
}

fn held_by(stack: &Stack) -> String {
    match stack.reason() {
        SleepReason::For(_, words) | SleepReason::Lock(_, words) => words.to_owned(),
        _ => format!("`{}`", stack.split(';').nth(1).unwrap_or(stack)),
    }
}

/// The slowest I/Os of an episode as time lines.
fn picture(list: &[Judged]) -> Vec<PictureRow> {
    let mut rows: Vec<&Judged> = list.iter().filter(|j| !j.is_untraced()).collect();
    rows.sort_by_key(|j| std::cmp::Reverse(j.phases.sum()));
    rows.truncate(ROWS);
    rows.sort_by_key(|j| j.slow.submit_ns);
    let line = |j: &&Judged| {
        let label = format!(
            "worker {} {} {}",
            j.slow.worker,
            j.slow.op.name(),
            readable::duration_ns(j.phases.sum())
        );
        let in_front = j.in_front.map(|front| front.words());
        PictureRow { label, in_front, segments: j.segments.clone() }
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;

    use super::*;
    use crate::events::event::{OffCpu, Waker};
    use crate::events::io::TracedIo;
    use crate::events::slow::Slow;
    use crate::time_line::segments::Source;
    use crate::verdict::judge::{JudgeInputs, judge};

    #[test]
    fn only_a_read_of_another_is_given_as_the_reason_for_a_page() {
        let slow =
            Slow { worker: 0, op: OpKind::Read, intended_ns: 0, submit_ns: 0, complete_ns: 1000 };
        let io = TracedIo {
            flags: flags::QUEUED,
            op: OpKind::Read,
            end_ns: 1000,
            ..TracedIo::default()
        };
        let segment = Segment::new(TimeSpan::new(0, 1000), Phase::PageCache, Source::Stamps);
        let info: TraceInfo = serde_json::from_str(r#"{"mode":"outliers","rung":"bpf"}"#).unwrap();
        let said = |shared: bool| {
            let judged =
                judge(slow, Some(io.clone()), Some(vec![segment]), &JudgeInputs::default());
            assert_eq!(judged.layer, Layer::PageCache);
            let list = [Judged { shared, ..judged }];
            let seen = EpisodeContext {
                events: &Events::default(),
                info: &info,
                origin: &RunOrigin::Measured,
                watched: &[],
                around: &HostSigns::default(),
            };
            evidence(&list, &seen, TimeSpan::new(0, 1000)).join("; ")
        };
        let words = "1 waited for a page that another I/O of the run was reading";
        assert!(said(true).contains(words), "{}", said(true));
        // Made room in memory instead, for example.
        assert!(!said(false).contains(words), "{}", said(false));
    }

    #[test]
    fn a_timer_is_not_told_as_a_thread_that_woke_up() {
        let off = |start: i64, stack: &str, by: &str, is_own| OffCpu {
            start_ns: start,
            woken_ns: Some(start + 80),
            end_ns: start + 90,
            state: 1,
            stack: Some(Stack::of(stack)),
            waker: Waker { thread: Some(Thread::named(by)), is_own, ..Waker::default() },
            worker: Some(0),
            ..OffCpu::default()
        };
        let said = |off: OffCpu| {
            let events = Events { off: [(0, vec![off])].into(), store: true, ..Events::default() };
            let slow = Slow {
                worker: 0,
                op: OpKind::Update,
                intended_ns: 0,
                submit_ns: 0,
                complete_ns: 1000,
            };
            let io = TracedIo { end_ns: 1000, op: OpKind::Update, ..TracedIo::default() };
            let list = [judge(slow, Some(io), None, &JudgeInputs::default())];
            let mut said = Vec::new();
            sleeps_and_waits(&list, &events, &mut said);
            said.join("; ")
        };
        // RocksDB's brake: the kernel was in a compiler when the time was over.
        let braked = said(off(100, "do_nanosleep;hrtimer_nanosleep", "rustc", false));
        assert!(braked.starts_with("held back by the store"), "{braked}");
        assert!(!braked.contains("rustc"), "{braked}");
        let lock = |who: &str, is_own| said(off(100, "futex_wait_queue;futex_wait", who, is_own));
        let own = lock("rocksdb:low", true);
        assert!(own.contains("mostly woken up by rocksdb:low"), "{own}");
        // The name alone may be that of a thread that was interrupted.
        for who in ["rocksdb:low", "rustc"] {
            let said = lock(who, false);
            assert!(said.starts_with("asleep in the store"), "{said}");
            assert!(!said.contains("woken up"), "{said}");
        }
    }
}
