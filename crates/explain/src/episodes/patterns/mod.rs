//! What episodes of a layer have in common: a period, the same culprit, place, CPU, time after a flush or data
//! (`common_data`), each with how often chance alone makes it. A pattern says nothing of the cause of any one episode.

pub mod common_data;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use taillight_core::units::readable;
use taillight_core::{OpKind, TimeSpan};
use taillight_stats::episodes::DEFAULT_GAP_NS;

use crate::episodes::EpisodeView;
use crate::episodes::culprits::{QUOTA, Role, io_limit};
use crate::episodes::patterns::common_data::DataScale;
use crate::events::Events;
use crate::events::event::{OffCpu, Owner, Timed};
use crate::events::list::overlapping;
use crate::events::slow::Slow;
use crate::events::thread::{Thread, called};
use crate::time_line::phased::PhasedIo;
use crate::verdict::judge::{Judged, Layer};

/// Fewer episodes make no pattern.
const FEWEST: usize = 5;
/// Places are the same within this part of all that was read or written.
const NARROW: u64 = 16;
/// In which share of runs chance alone may make a pattern, of all kinds together.
const CHANCE: f64 = 0.01;
/// Kinds of patterns looked for in a layer.
const LOOKS: usize = 6;
/// Fewer usual I/Os say nothing of what is usual.
const USUAL_MIN: usize = 100;
/// A thread that came back so soon did not wait for its CPU, ns.
const AT_ONCE_NS: i64 = 250_000;
/// Times after a flush that differ by less, ns, or by less than a tenth, are the same.
const SAME_NS: i64 = 200_000;

/// What the episodes of a layer have in common.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Pattern {
    pub layer: Layer,
    pub alike: CommonFactor,
    /// Episodes of the layer.
    pub episodes: u64,
    /// Of them such that have it in common.
    pub common: u64,
    /// In which share of runs chance alone makes such a pattern, at most, with all that was looked for.
    pub chance: f64,
}

/// In what episodes are alike.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CommonFactor {
    /// They come regularly.
    Period { period_ns: u64 },
    /// The same one stood in the way.
    Culprit {
        name: String,
        /// Its process; null where it was not the same one each time.
        pid: Option<u64>,
        /// It is a thread of the benchmark itself.
        own: bool,
    },
    /// Their slowest I/Os were in the same part of the file or device, bytes.
    Place { from: u64, to: u64 },
    /// The thread waited for the same CPU.
    Cpu { cpu: u64 },
    /// Their slowest I/Os began so long after a flush of the disk's cache, ns.
    AfterFlush { after_ns: u64 },
    /// Their slowest I/Os were of the same key. This and the next ones: `share` is that of all operations of the kind, by
    /// number or by time, whichever is larger.
    Key { key: u64, share: f64 },
    /// Of keys in the same part of all keys, by their numbers.
    Keys { from: u64, to: u64, share: f64 },
    /// Of the same size.
    Size { bytes: u64, share: f64 },
    /// Of the same file or endpoint, by its number in `ios.parquet`.
    Target { target: u16, share: f64 },
}

/// What of an episode's slowest traced I/O may come again.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutlierFeatures {
    /// Where it was, bytes.
    pub place: Option<(u64, u64)>,
    /// CPU that its thread waited longest for.
    pub cpu: Option<u64>,
    /// Its operation, and how long after a flush of the disk it began, ns.
    pub after_flush: Option<(OpKind, i64)>,
    /// The slowest I/O, traced or not.
    pub slowest: Option<Slow>,
}

/// What such features are held against: how the run usually is.
#[derive(Debug, Clone, Default)]
pub struct PatternScale {
    /// Where usual I/Os were, bytes, in order; none where a place says nothing: of keys and objects, of several
    /// files, of a load that goes through them in order.
    pub places: Vec<u64>,
    /// How often a thread came back to each CPU without waiting for it.
    pub cpus: BTreeMap<u64, u64>,
    /// How long after a flush usual I/Os of each operation began, ns: a load that syncs has a beat of its own.
    pub after_flush: BTreeMap<OpKind, Vec<i64>>,
    /// From one I/O to the next, ns.
    pub spacing_ns: i64,
    /// Of each culprit the share of moments of the run, evenly spaced and as long as the usual episode, in
    /// which it was there; none where not all events were kept.
    pub presence: BTreeMap<(Role, String), f64>,
    /// Which data operations were of; none where that may differ from time to time.
    pub data: DataScale,
}

impl OutlierFeatures {
    /// Of the slowest traced I/O of an episode; `slowest` of all.
    pub fn of(list: &[Judged], events: &Events) -> OutlierFeatures {
        let took = |j: &&Judged| j.slow.complete_ns.saturating_sub(j.slow.submit_ns);
        let slowest = list.iter().max_by_key(took).map(|j| j.slow);
        let worst = list.iter().filter(|j| j.io.is_some()).max_by_key(took);
        let Some((one, io)) = worst.and_then(|j| Some((j, j.io.as_ref()?))) else {
            return OutlierFeatures { slowest, ..OutlierFeatures::default() };
        };
        let off = events.off(one.slow.worker.into());
        let waits = overlapping(off, io.start_ns, io.end_ns).filter(|r| r.cpu.is_some());
        OutlierFeatures {
            place: io.place(one.slow.op),
            cpu: waits.max_by_key(|r| waited(r)).and_then(|r| r.cpu),
            after_flush: events.disks.after_flush_ns(io).map(|ns| (one.slow.op, ns)),
            slowest,
        }
    }
}

/// How long a thread waited for the CPU that it came back to, ns.
fn waited(off: &OffCpu) -> i64 {
    off.end_ns - off.runnable_ns()
}

impl PatternScale {
    /// By the random sample among these traced I/Os; `placed`: a place says something.
    pub fn of(phased: &[PhasedIo], placed: bool, spacing_ns: i64, events: &Events) -> PatternScale {
        let mut scale = PatternScale { spacing_ns, ..PatternScale::default() };
        for io in phased.iter().filter(|io| io.sample) {
            scale.places.extend(io.place.filter(|_| placed));
            scale.after_flush.entry(io.op).or_default().extend(io.after_flush_ns);
        }
        scale.places.sort_unstable();
        let calm = events.off.values().flatten().filter(|r| waited(r) < AT_ONCE_NS);
        calm.filter_map(|r| r.cpu).for_each(|cpu| *scale.cpus.entry(cpu).or_default() += 1);
        scale
    }

    /// With how often the culprits of these episodes are there at any of these moments.
    pub fn with_presence(
        mut self,
        episodes: &[EpisodeView],
        moments: &[TimeSpan],
        events: &Events,
    ) -> PatternScale {
        // A culprit that was never met at these moments is there now and then all the same.
        let share = |n: usize| (n + 1) as f64 / (moments.len() + 1) as f64;
        for ((role, name), there) in present(events, moments) {
            let met = there.into_iter().filter(|there| *there).count();
            self.presence.insert((role, name.into_owned()), share(met));
        }
        for one in episodes.iter().flat_map(|e| &e.culprits) {
            self.presence.entry((one.role, one.name.clone())).or_insert(share(0));
        }
        self
    }
}

/// Whether a culprit was there, moment by moment.
type Presence<'a> = BTreeMap<(Role, Cow<'a, str>), Vec<bool>>;

/// Who would be a culprit of an I/O in flight, by any role, and whether at each of these moments, which are by time and
/// of one length. Moments may overlap: each event is looked at once, however many it is in.
fn present<'a>(events: &'a Events, moments: &[TimeSpan]) -> Presence<'a> {
    let mut found = Presence::new();
    let mut met = |role: Role, name: Cow<'a, str>, time: TimeSpan| {
        let first = moments.partition_point(|moment| moment.to < time.from);
        let end = moments.partition_point(|moment| moment.from <= time.to);
        if first < end && !name.is_empty() {
            let there = found.entry((role, name)).or_insert_with(|| vec![false; moments.len()]);
            there[first..end].fill(true);
        }
    };
    let named = |thread: Option<&'a Arc<Thread>>| -> Cow<'a, str> {
        Cow::Borrowed(thread.map_or("", |thread| &*thread.name))
    };
    for io in events.neighbours.all() {
        let time = io.time();
        met(Role::Disk, named(io.thread.as_ref()), time);
        if io.owner == Owner::HeldPages {
            met(Role::Limit, Cow::Owned(io_limit(io.dev.as_deref(), events)), time);
        }
    }
    let rings = events.ring_threads.all().iter().map(|worker| &worker.off);
    for off in events.off.values().flatten().chain(rings) {
        let time = off.time();
        met(Role::Cpu, named(off.ran.as_ref()), time);
        met(Role::Stop, named(off.waker.named()), time);
        met(Role::Woke, named(off.waker.named()), time);
    }
    for helper in events.helpers.all() {
        let time = helper.time();
        met(Role::Cpu, named(helper.off.ran.as_ref()), time);
        met(Role::Kthread, named(Some(&helper.thread)), time);
    }
    for window in events.quota.all().iter().filter(|window| window.without_ns > 0) {
        met(Role::Limit, Cow::Borrowed(QUOTA), window.time());
    }
    for part in events.held.all().iter().filter(|part| part.by_limit()) {
        let limit = io_limit(part.dev.as_deref(), events);
        met(Role::Limit, Cow::Owned(limit), part.time());
    }
    for pause in events.pauses.all() {
        met(Role::Pause, Cow::Borrowed(&*pause.reason), pause.time());
    }
    found
}

/// Episodes of each named layer that has enough of them.
fn by_layer(episodes: &[EpisodeView]) -> BTreeMap<Layer, Vec<&EpisodeView>> {
    let mut by: BTreeMap<Layer, Vec<&EpisodeView>> = BTreeMap::new();
    for one in episodes.iter().filter(|e| !matches!(e.layer, Layer::Unknown | Layer::Mixed)) {
        by.entry(one.layer).or_default().push(one);
    }
    by.retain(|_, list| list.len() >= FEWEST);
    by
}

/// What strikes about the episodes of each layer: what chance alone makes in one run of a hundred at most, among all
/// that is looked for.
pub fn patterns(episodes: &[EpisodeView], scale: &PatternScale) -> Vec<Pattern> {
    let by = by_layer(episodes);
    let mut found = Vec::new();
    for (layer, list) in &by {
        let below = matches!(
            layer,
            Layer::FileSystem | Layer::PageCache | Layer::BlockQueue | Layer::Device
        );
        let on_cpu = matches!(layer, Layer::Cpu | Layer::Completion);
        let looks = [
            period(list, scale.spacing_ns),
            culprit(list, &scale.presence),
            below.then(|| place(list, &scale.places)).flatten(),
            on_cpu.then(|| cpu(list, &scale.cpus)).flatten(),
            below.then(|| after_flush(list, &scale.after_flush)).flatten(),
            scale.data.pattern(list),
        ];
        found.extend(looks.into_iter().flatten().map(|f| (*layer, list.len() as u64, f)));
    }
    let looks = (by.len() * LOOKS) as f64;
    let told = found.into_iter().filter_map(|(layer, episodes, (alike, common, chance))| {
        let chance = chance * looks;
        (chance <= CHANCE).then_some(Pattern { layer, alike, episodes, common, chance })
    });
    told.collect()
}

impl Pattern {
    /// One sentence.
    pub fn words(&self) -> String {
        let time = |ns: u64| readable::duration_ns(ns);
        let (all, place) = (readable::count(self.episodes), self.layer.place());
        let of = format!("In {} of {all} episodes {place}", readable::count(self.common));
        let what = match &self.alike {
            CommonFactor::Period { period_ns } => {
                format!("The {all} episodes {place} come every {}.", time(*period_ns))
            }
            CommonFactor::Culprit { name, pid, own } => {
                let who = called(name, None, *pid, *own);
                format!("{of} the same one stood in the way: {who}.")
            }
            CommonFactor::Place { from, to } => format!(
                "{of} the slowest I/O was in the same place: {} to {}.",
                readable::bytes(*from),
                readable::bytes(*to)
            ),
            CommonFactor::Cpu { cpu } => format!("{of} it was for CPU {cpu}."),
            CommonFactor::AfterFlush { after_ns } => format!(
                "{of} the slowest I/O began {} after a flush of the disk's cache.",
                time(*after_ns)
            ),
            CommonFactor::Key { key, share } => of_data(&of, &format!("key {key}"), *share),
            CommonFactor::Keys { from, to, share } => {
                of_data(&of, &format!("one of the keys {from} to {to}"), *share)
            }
            CommonFactor::Size { bytes, share } => of_data(&of, &readable::bytes(*bytes), *share),
            CommonFactor::Target { target, share } => {
                of_data(&of, &format!("file or endpoint {target}"), *share)
            }
        };
        format!("{what} (by chance in {})", once_in(self.chance))
    }
}

/// That the slowest I/Os are of the same data, and how many of all are.
fn of_data(of: &str, what: &str, share: f64) -> String {
    let share = readable::percent(share);
    format!(
        "{of} the slowest I/O was of {what}, as {share} of all of its kind are, by number or by time."
    )
}

/// In how many runs something happens, in words.
fn once_in(chance: f64) -> String {
    match (1.0 / chance.max(f64::MIN_POSITIVE)).floor() {
        runs if runs >= 1e6 => "less than 1 of 1,000,000 runs".to_owned(),
        runs => format!("at most 1 of {} runs", readable::count(runs as u64)),
    }
}

/// What was found, in how many episodes, and how often chance makes it at most.
type Found = Option<(CommonFactor, u64, f64)>;

/// The distance of episodes that come regularly: three quarters of the distances differ from the middle one by a
/// tenth at most. By chance each next one comes at any time after the one before is over, all alike; whatever their
/// mean, so many are not that near to one value.
fn period(list: &[&EpisodeView], spacing_ns: i64) -> Found {
    let gaps: Vec<(i64, i64)> = list
        .windows(2)
        .map(|w| (w[1].start_ns - w[0].start_ns, (w[0].end_ns - w[0].start_ns).max(0)))
        .collect();
    let mut sorted: Vec<i64> = gaps.iter().map(|g| g.0).collect();
    sorted.sort_unstable();
    let middle = *sorted.get(sorted.len() / 2)?;
    // The beat of the load itself is none of the storage's.
    if middle <= 0 || spacing_ns.saturating_mul(10) > middle {
        return None;
    }
    let near = gaps.iter().filter(|g| (g.0 - middle).abs() * 10 <= middle).count();
    let longest = gaps.iter().map(|g| g.1).max().unwrap_or(0) + DEFAULT_GAP_NS as i64;
    let (free, width) = ((middle * 9 / 10 - longest) as f64, middle as f64 / 5.0);
    if free <= 0.0 || near * 4 < gaps.len() * 3 {
        return None;
    }
    // The largest probability of an interval of that width there, over all means.
    let p = (free / (free + width)).powf(free / width) * width / (free + width);
    let period_ns = middle.unsigned_abs();
    Some((CommonFactor::Period { period_ns }, list.len() as u64, chance(gaps.len(), near, p)))
}

/// The culprit that is the largest of its role in four of five episodes, and is not there at any time anyway.
fn culprit(list: &[&EpisodeView], presence: &BTreeMap<(Role, String), f64>) -> Found {
    let mut counts: BTreeMap<(Role, &str), usize> = BTreeMap::new();
    for one in list {
        let mut roles: Vec<Role> = Vec::new();
        for culprit in &one.culprits {
            if !roles.contains(&culprit.role) {
                roles.push(culprit.role);
                *counts.entry((culprit.role, &culprit.name)).or_default() += 1;
            }
        }
    }
    let names = counts.len() as f64;
    let often = counts.into_iter().filter(|(_, n)| n * 5 >= list.len() * 4);
    let found = often.filter_map(|((role, name), n)| {
        let p = presence.get(&(role, name.to_owned()))?;
        let chance = (ln_ways(list.len(), n) + n as f64 * ln(*p)).exp() * names;
        Some((role, name, n as u64, chance))
    });
    let (role, name, n, chance) = found.min_by(|a, b| a.3.total_cmp(&b.3))?;
    let all = list.iter().flat_map(|e| &e.culprits).filter(|c| c.role == role && c.name == name);
    let mut processes: Vec<_> = all.map(|c| (c.pid, c.own)).collect();
    processes.dedup();
    let (pid, own) = if let [one] = processes[..] { one } else { (None, false) };
    Some((CommonFactor::Culprit { name: name.to_owned(), pid, own }, n, chance))
}

/// The narrowest part that four of five slowest I/Os lie in, where that is narrow and usual I/Os lie elsewhere.
fn place(list: &[&EpisodeView], usual: &[u64]) -> Found {
    let reach = usual.last()?;
    if usual.len() < USUAL_MIN {
        return None;
    }
    let mut places: Vec<(u64, u64)> = list.iter().filter_map(|e| e.features.place).collect();
    places.sort_unstable();
    let need = (list.len() * 4).div_ceil(5);
    let (from, to) = narrowest(&places, need)?;
    let within = |at: u64| usual.partition_point(|u| *u < at.saturating_add(to - from));
    // Where usual I/Os are densest it is likeliest.
    let most = usual.iter().enumerate().map(|(i, at)| within(*at) - i).max().unwrap_or(0);
    let p = (most + 1) as f64 / (usual.len() + 1) as f64;
    let fits = (to - from).saturating_mul(NARROW) <= *reach;
    let chance = chance(list.len(), need, p);
    fits.then_some((CommonFactor::Place { from, to }, need as u64, chance))
}

/// The narrowest part that so many of these places lie in, which are in order.
fn narrowest(places: &[(u64, u64)], need: usize) -> Option<(u64, u64)> {
    let mut narrow: Option<(u64, u64)> = None;
    for some in places.windows(need) {
        // Up to the end of the last one at least: of few all ends have to be looked at, also where all begin alike.
        let (from, last) = (some[0].0, some[need - 1].1);
        let least = narrow.map_or(u64::MAX, |(from, to)| to - from);
        if last.saturating_sub(from) < least {
            let to = some.iter().map(|place| place.1).max().unwrap_or(last);
            narrow = narrow.filter(|_| to - from >= least).or(Some((from, to)));
        }
    }
    narrow
}

/// The CPU that four of five waited for, where threads usually come back to others as well.
fn cpu(list: &[&EpisodeView], usual: &BTreeMap<u64, u64>) -> Found {
    let all: u64 = usual.values().sum();
    if (all as usize) < USUAL_MIN {
        return None;
    }
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for cpu in list.iter().filter_map(|e| e.features.cpu) {
        *counts.entry(cpu).or_default() += 1;
    }
    let (cpu, n) = counts.into_iter().max_by_key(|(_, n)| *n)?;
    let most = usual.values().max().copied().unwrap_or(0);
    let chance = chance(list.len(), n, (most + 1) as f64 / (all + 1) as f64);
    (n * 5 >= list.len() * 4).then_some((CommonFactor::Cpu { cpu }, n as u64, chance))
}

/// The time after a flush at which four of five began, where usual I/Os of the same operations rarely do.
fn after_flush(list: &[&EpisodeView], usual: &BTreeMap<OpKind, Vec<i64>>) -> Found {
    let seen: Vec<(OpKind, i64)> = list.iter().filter_map(|e| e.features.after_flush).collect();
    let mut times: Vec<i64> = seen.iter().map(|(_, ns)| *ns).collect();
    times.sort_unstable();
    let middle = *times.get(times.len() / 2)?;
    let same = (middle / 10).max(SAME_NS);
    let near = |times: &[i64]| times.iter().filter(|t| (**t - middle).abs() <= same).count();
    let share = |op: &OpKind| {
        let usual = usual.get(op).filter(|usual| usual.len() >= USUAL_MIN)?;
        Some((near(usual) + 1) as f64 / (usual.len() + 1) as f64)
    };
    let ops: BTreeSet<OpKind> = seen.iter().map(|(op, _)| *op).collect();
    let shares: Option<Vec<f64>> = ops.iter().map(share).collect();
    let n = near(&times);
    let chance = chance(list.len(), n, shares?.into_iter().fold(0.0, f64::max));
    let after_ns = middle.unsigned_abs();
    (n * 5 >= list.len() * 4).then_some((CommonFactor::AfterFlush { after_ns }, n as u64, chance))
}

/// At most how likely so many of all fall together with one of them by chance, each with the probability `p`.
fn chance(all: usize, common: usize, p: f64) -> f64 {
    // By logarithms: of a thousand episodes the factors alone are no numbers any more.
    let all_but_one = common.saturating_sub(1) as f64;
    let exponent = ln_ways(all, common) + (common as f64).ln() + all_but_one * ln(p);
    if common == 0 { 0.0 } else { exponent.exp() }
}

/// The logarithm of a probability; of none, that of the smallest number.
fn ln(p: f64) -> f64 {
    p.clamp(f64::MIN_POSITIVE, 1.0).ln()
}

/// The logarithm of the number of ways in which so many can be chosen from all.
fn ln_ways(all: usize, common: usize) -> f64 {
    (0..common).map(|i| ((all - i) as f64 / (i + 1) as f64).ln()).sum()
}

#[cfg(test)]
mod tests;
