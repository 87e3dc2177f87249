//! The layers with their names, the usual times, and from both and phases a verdict: an I/O belongs to the layer with
//! at least half of its excess over the usual times of its kind of operation, its lateness being the schedule's;
//! without one it is "mixed"; time that was not seen, and no excess at all, is "unknown". What a miss of the page cache
//! usually takes is the page cache's. Where the usual latency is above the threshold, all of an ordinary I/O's time
//! counts, and the largest layer is named ([`OutlierVerdict::always`]).

use std::collections::BTreeMap;
use std::ops::Deref;

use schemars::JsonSchema;
use serde::Serialize;
use taillight_core::OpKind;

use crate::events::context::IoContext;
use crate::events::io::TracedIo;
use crate::events::slow::Slow;
use crate::phase::{Phase, Phases};
use crate::time_line::segments::{RuleSet, Segment, lengths};
use crate::verdict::baseline::Baseline;
use crate::verdict::in_front::InFront;
use crate::verdict::rules::{self, Evidence};

/// Where a slow I/O's time went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// It waited behind its schedule before it was started.
    Schedule,
    /// The program: its own queue, its code, system call on the CPU.
    Application,
    /// The program was stopped or frozen.
    Stopped,
    /// No CPU for a runnable thread.
    Cpu,
    /// File system: journal, locks, freeze, FUSE server.
    FileSystem,
    /// Page cache: dirty throttling, writeback, reclaim.
    PageCache,
    /// A limit: cgroup or QoS.
    Throttle,
    /// Block queue: waiting for a request, plug, I/O scheduler.
    BlockQueue,
    /// The device, or its driver and what is below.
    Device,
    /// From the device's answer until the program was told.
    Completion,
    /// No io_uring worker thread was free.
    IoUring,
    /// A store's server, or the network to it.
    Server,
    /// A store inside the program: it held writers back, or let them wait for each other.
    Store,
    /// A JVM inside the program: it had stopped its threads, to collect garbage or for something else.
    JvmPause,
    /// Several layers, none with half of the excess.
    Mixed,
    /// What took the time was not seen, or nothing took more than usual.
    Unknown,
}

impl Layer {
    /// Stable word in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Schedule => "schedule",
            Layer::Application => "application",
            Layer::Stopped => "stopped",
            Layer::Cpu => "cpu",
            Layer::FileSystem => "file_system",
            Layer::PageCache => "page_cache",
            Layer::Throttle => "throttle",
            Layer::BlockQueue => "block_queue",
            Layer::Device => "device",
            Layer::Completion => "completion",
            Layer::IoUring => "io_uring",
            Layer::Server => "server",
            Layer::Store => "store",
            Layer::JvmPause => "jvm_pause",
            Layer::Mixed => "mixed",
            Layer::Unknown => "unknown",
        }
    }
    /// Its name for people, the same in tables and sentences.
    pub fn words(self) -> &'static str {
        match self {
            Layer::Schedule => "schedule",
            Layer::Application => "the program",
            Layer::Stopped => "stopped",
            Layer::Cpu => "waiting for a CPU",
            Layer::FileSystem => "file system",
            Layer::PageCache => "page cache",
            Layer::Throttle => "held back",
            Layer::BlockQueue => "block queue",
            Layer::Device => "device",
            Layer::Completion => "completion",
            Layer::IoUring => "io_uring worker",
            Layer::Server => "server and network",
            Layer::Store => "store",
            Layer::JvmPause => "JVM pause",
            Layer::Mixed => "several",
            Layer::Unknown => "unknown",
        }
    }
    /// Every layer.
    pub(crate) const ALL: [Layer; 16] = [
        Layer::Schedule,
        Layer::Application,
        Layer::Stopped,
        Layer::Cpu,
        Layer::FileSystem,
        Layer::PageCache,
        Layer::Throttle,
        Layer::BlockQueue,
        Layer::Device,
        Layer::Completion,
        Layer::IoUring,
        Layer::Server,
        Layer::Store,
        Layer::JvmPause,
        Layer::Mixed,
        Layer::Unknown,
    ];
    /// Where time went, after "61 % of the excess ...".
    pub fn place(self) -> &'static str {
        match self {
            Layer::Schedule => "behind earlier I/Os of the same worker",
            Layer::Application => "in the program or its system call",
            Layer::Stopped => "while the program was stopped or frozen",
            Layer::Cpu => "waiting for a CPU",
            Layer::FileSystem => "in the file system",
            Layer::PageCache => "waiting for the page cache",
            Layer::Throttle => "held back by an I/O limit",
            Layer::BlockQueue => "in the block queue",
            Layer::Device => "in the device or below",
            Layer::Completion => "between the device and the program",
            Layer::IoUring => "waiting for an io_uring worker thread",
            Layer::Server => "in the server or the network",
            Layer::Store => "in the store",
            Layer::JvmPause => "in a JVM pause",
            Layer::Mixed => "in several places",
            Layer::Unknown => "unexplained",
        }
    }
    /// What it did, after "N I/Os ...".
    pub fn did(self) -> &'static str {
        match self {
            Layer::Schedule => "were started late, behind earlier I/Os of the same worker",
            Layer::Application => {
                "spent it in the program itself, or in the system call on the CPU"
            }
            Layer::Stopped => "waited while the program was stopped or frozen",
            Layer::Cpu => "waited for a CPU",
            Layer::FileSystem => "waited in the file system",
            Layer::PageCache => "waited for the page cache (writeback, dirty pages, memory)",
            Layer::Throttle => "were held back by an I/O limit",
            Layer::BlockQueue => "waited in the block queue, before the driver took them",
            Layer::Device => "waited for the device or below",
            Layer::Completion => "were done in the device, but the program was told late",
            Layer::IoUring => "waited for an io_uring worker thread",
            Layer::Server => "waited for the server or the network",
            Layer::Store => "waited in the store: held back, or behind its other threads",
            Layer::JvmPause => "waited for a JVM pause to end",
            Layer::Mixed => "lost it in several places, none with half of it",
            Layer::Unknown => "cannot be explained: what happened was not seen",
        }
    }
}

/// The name for people of a layer that outputs name so; as it stands where no layer has that name.
pub fn layer_words(name: &str) -> &str {
    let layer = Layer::ALL.into_iter().find(|layer| layer.name() == name);
    layer.map_or(name, |layer| layer.words())
}

/// What a layer that outputs name so did, after "N I/Os ..."; its name where none is called so.
pub fn layer_did(name: &str) -> &str {
    let layer = Layer::ALL.into_iter().find(|layer| layer.name() == name);
    layer.map_or(name, |layer| layer.did())
}

/// The layer that the time of a phase counts for.
pub fn layer(phase: Phase) -> Layer {
    match phase {
        Phase::Submit | Phase::Application => Layer::Application,
        Phase::FileSystem => Layer::FileSystem,
        Phase::PageCache => Layer::PageCache,
        Phase::Throttle => Layer::Throttle,
        Phase::Tags | Phase::Queue | Phase::LowerQueue => Layer::BlockQueue,
        Phase::Device | Phase::LowerDevice => Layer::Device,
        Phase::Completion => Layer::Completion,
        Phase::Cpu => Layer::Cpu,
        Phase::Stopped => Layer::Stopped,
        Phase::IoWorker => Layer::IoUring,
        Phase::Server => Layer::Server,
        Phase::Store => Layer::Store,
        Phase::JvmPause => Layer::JvmPause,
        Phase::Blocked | Phase::Unobserved => Layer::Unknown,
    }
}

/// The verdict on one slow I/O.
#[derive(Debug, Clone, Copy)]
pub struct OutlierVerdict {
    pub slow: Slow,
    /// Its `token` in the trace.
    pub token: Option<u64>,
    /// The layer to blame.
    pub layer: Layer,
    /// Excess of that layer, ns; of all layers where it is mixed.
    pub excess_ns: u64,
    /// By `rules::sure` where it is known what is usual, or as the I/O that this one waited behind (`behind_ns`); else
    /// a named layer is only likely.
    pub sure: bool,
    /// The rules that the layer's time is from, beside the I/O's own stamps and sleeps.
    pub rules: RuleSet,
    /// Such I/Os usually take longer than the threshold, and this one took less than twice the usual: the layer is
    /// where the time always goes.
    pub always: bool,
    /// Excess of the earlier I/O of the same worker, ns, that this I/O waited behind and has its cause from.
    pub behind_ns: Option<u64>,
    /// Where its service time went; all 0 without evidence.
    pub phases: Phases,
    /// What stood in front of it at its disk; none where it was seen at no disk, and of a run that goes on.
    pub in_front: Option<InFront>,
}

/// A verdict with what it rests on.
#[derive(Debug, Clone)]
pub struct Judged {
    pub verdict: OutlierVerdict,
    /// As traced; absent when there is no evidence.
    pub io: Option<TracedIo>,
    /// Where its service time went, as a time line.
    pub segments: Vec<Segment>,
    /// It waited for a page that another traced I/O read.
    pub shared: bool,
    /// When its parts were queued at its disk; of several rounds, those of the one that took longest.
    pub queued_ns: Option<i64>,
    /// Excess over the usual, by layer, ns.
    pub excess: Vec<(Layer, u64)>,
}

impl Judged {
    /// It has no evidence at all: it was not traced, and met no pause of the target.
    pub fn is_untraced(&self) -> bool {
        self.io.is_none() && self.segments.is_empty()
    }
}

impl OutlierVerdict {
    /// `sure` or `likely`; none of unknown and mixed ones.
    pub fn certainty(&self) -> Option<&'static str> {
        match self.layer {
            Layer::Unknown | Layer::Mixed => None,
            _ if self.sure => Some("sure"),
            _ => Some("likely"),
        }
    }
}

impl Deref for Judged {
    type Target = OutlierVerdict;
    fn deref(&self) -> &OutlierVerdict {
        &self.verdict
    }
}

/// Whether the page cache may answer such an operation.
fn reads(op: OpKind) -> bool {
    matches!(op.request(), OpKind::Read | OpKind::Get | OpKind::Scan)
}

/// What a slow I/O is judged by.
#[derive(Debug, Clone, Copy, Default)]
pub struct JudgeInputs<'a> {
    pub base: Option<&'a Baseline>,
    /// What is known beside its stamps; none without evidence.
    pub context: Option<&'a IoContext<'a>>,
    /// Latency above which it counts as slow, ns.
    pub threshold_ns: Option<u64>,
}

/// Judges one slow I/O by itself; what it owes to others (`behind_ns`, `in_front`, `shared`, `queued_ns`) is left to
/// the caller. `segments` is none without evidence: then the excess of its service time is unknown.
pub fn judge(
    slow: Slow,
    io: Option<TracedIo>,
    segments: Option<Vec<Segment>>,
    by: &JudgeInputs<'_>,
) -> Judged {
    let nothing = Baseline::default();
    let base = by.base.unwrap_or(&nothing);
    let phases = segments.as_deref().map(lengths);
    let service = slow.complete_ns.saturating_sub(slow.submit_ns).max(0) as u64;
    let late = slow.submit_ns.saturating_sub(slow.intended_ns).max(0) as u64;
    let usual_ns = base.service_ns(slow.op);
    // Where half of such I/Os are above the threshold, a part beyond the usual is noise: the question is
    // where the time goes. An I/O that took twice as long is slow in any case.
    let ordinary = late.saturating_add(service) < usual_ns.saturating_mul(2);
    let known = base.knows(slow.op);
    let always = known && ordinary && by.threshold_ns.is_some_and(|ns| usual_ns > ns);
    let usual = if always { Phases::default() } else { base.get(slow.op) };
    let mut sums: BTreeMap<Layer, u64> = BTreeMap::new();
    let mut price_ns = 0;
    sums.insert(Layer::Schedule, late);
    match &phases {
        Some(phases) => {
            let block = io.as_ref().is_some_and(TracedIo::has_block_io);
            let missed = base.missed(slow.op).filter(|_| block && reads(slow.op) && !always);
            for phase in Phase::ALL {
                let more = phases.get(phase).saturating_sub(usual.get(phase));
                // What such a read usually takes is the price of not being in the page cache.
                let price = missed.map_or(0, |m| m.get(phase).saturating_sub(usual.get(phase)));
                let price = if phase == Phase::Unobserved { 0 } else { price.min(more) };
                price_ns += price;
                *sums.entry(Layer::PageCache).or_insert(0) += price;
                *sums.entry(layer(phase)).or_insert(0) += more - price;
            }
        }
        None => {
            sums.insert(Layer::Unknown, service.saturating_sub(usual.sum()));
        }
    }
    let mut excess: Vec<(Layer, u64)> = sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
    excess.sort_by_key(|(layer, ns)| (std::cmp::Reverse(*ns), *layer));
    let total: u64 = excess.iter().map(|(_, ns)| ns).sum();
    let (layer, excess_ns) = match excess.first() {
        Some((layer, ns)) if always || ns.saturating_mul(2) >= total => (*layer, *ns),
        Some(_) => (Layer::Mixed, total),
        None => (Layer::Unknown, 0),
    };
    let evidence = Evidence {
        io: io.as_ref(),
        segments: segments.as_deref().unwrap_or_default(),
        excess: (excess_ns, total),
        latency: (late + service, if always { 0 } else { usual_ns }),
    };
    // How late it was begun is known whatever is usual; the price of a miss is not known of slow ones alone.
    let known = match layer {
        Layer::Schedule => true,
        Layer::PageCache if price_ns > 0 => known && base.knows_missed(slow.op),
        _ => known,
    };
    let sure = known && rules::sure(layer, &evidence, by.context);
    let of_layer = segments.iter().flatten().filter(|p| self::layer(p.phase) == layer);
    let verdict = OutlierVerdict {
        slow,
        token: io.as_ref().and_then(|io| io.token),
        layer,
        excess_ns,
        sure,
        rules: RuleSet::of(of_layer),
        always,
        behind_ns: None,
        phases: phases.unwrap_or_default(),
        in_front: None,
    };
    let segments = segments.unwrap_or_default();
    Judged { verdict, io, segments, shared: false, queued_ns: None, excess }
}

#[cfg(test)]
mod tests {
    use taillight_core::TimeSpan;

    use taillight_rundir::layers::flags;

    use super::*;
    use crate::events::io::Parts;
    use crate::time_line::phased::PhasedIo;
    use crate::time_line::segments::Source;

    fn slow(intended: i64) -> Slow {
        Slow {
            worker: 0,
            op: OpKind::Read,
            intended_ns: intended,
            submit_ns: 1000,
            complete_ns: 2000,
        }
    }

    fn phases(list: &[(Phase, u64)]) -> Phases {
        let mut phases = Phases::default();
        list.iter().for_each(|(p, ns)| phases.0[*p as usize] = *ns);
        phases
    }

    fn line(list: &[(Phase, u64)]) -> Option<Vec<Segment>> {
        let mut at = 0;
        let segment = |(phase, ns): &(Phase, u64)| {
            let from = at;
            at += *ns as i64;
            Segment::new(TimeSpan::new(from, at), *phase, Source::Stamps)
        };
        Some(list.iter().map(segment).collect())
    }

    fn base() -> Baseline {
        let usual = PhasedIo {
            op: OpKind::Read,
            service_ns: 100,
            sample: true,
            block: true,
            place: None,
            after_flush_ns: None,
            phases: phases(&[(Phase::Device, 90), (Phase::Submit, 10)]),
        };
        Baseline::of(&[usual; 30])
    }

    fn io() -> Option<TracedIo> {
        Some(TracedIo {
            parts: Some(Parts { queued: 1, done: 1 }),
            alloc_ns: Some(1),
            issue_ns: Some(1),
            ..TracedIo::default()
        })
    }

    fn judged_by(
        slow: Slow,
        io: Option<TracedIo>,
        segments: Option<Vec<Segment>>,
        base: &Baseline,
    ) -> Judged {
        let context = IoContext::default();
        let by = JudgeInputs { base: Some(base), context: Some(&context), threshold_ns: None };
        judge(slow, io, segments, &by)
    }

    #[test]
    fn where_all_are_slow_the_question_is_where_the_time_goes() {
        let base = base();
        let context = IoContext::default();
        let by =
            |ns| JudgeInputs { base: Some(&base), context: Some(&context), threshold_ns: Some(ns) };
        // 90 of usually 90 in the device, and 25 more without a CPU.
        let it = line(&[(Phase::Device, 90), (Phase::Cpu, 25), (Phase::Submit, 10)]);
        let slow = Slow { complete_ns: 1125, ..slow(1000) };
        let judged = judge(slow, io(), it.clone(), &by(20));
        assert_eq!((judged.layer, judged.excess_ns, judged.always), (Layer::Device, 90, true));
        let judged = judge(slow, io(), it, &by(120));
        assert_eq!((judged.layer, judged.always), (Layer::Cpu, false));
        assert!(!judged.sure, "a ripple of the usual latency");
        // Slow even here: what it took beyond the usual is the question.
        let it = line(&[(Phase::Device, 90), (Phase::Cpu, 900), (Phase::Submit, 10)]);
        let slow = Slow { complete_ns: 2000, ..slow };
        let judged = judge(slow, io(), it, &by(20));
        assert_eq!((judged.layer, judged.excess_ns, judged.always), (Layer::Cpu, 900, false));
    }

    #[test]
    fn the_layer_with_the_excess_is_named() {
        let it = line(&[(Phase::Device, 100), (Phase::Queue, 890), (Phase::Submit, 10)]);
        let judged = judged_by(slow(1000), io(), it, &base());
        assert_eq!((judged.layer, judged.excess_ns), (Layer::BlockQueue, 890));
        assert!(judged.sure);
    }

    #[test]
    fn a_cache_miss_is_no_fault_of_the_device() {
        let usual = |block: bool, device: u64| PhasedIo {
            op: OpKind::Read,
            service_ns: device + 10,
            sample: !block,
            block,
            place: None,
            after_flush_ns: None,
            phases: phases(&[(Phase::Device, device), (Phase::Submit, 10)]),
        };
        let mut all = vec![usual(false, 0); 100];
        all.extend([usual(true, 500); 9]);
        let base = Baseline::of(&all);
        let miss = || line(&[(Phase::Device, 520), (Phase::Submit, 10)]);
        let judged = judged_by(slow(1000), io(), miss(), &base);
        assert_eq!((judged.layer, judged.excess_ns), (Layer::PageCache, 500));
        assert!(!judged.sure, "what misses usually take is known of slow ones only");
        let sampled = PhasedIo { sample: true, ..usual(true, 500) };
        let known = [all, vec![sampled; 5], vec![usual(true, 5000); 50]].concat();
        let judged = judged_by(slow(1000), io(), miss(), &Baseline::of(&known));
        assert_eq!((judged.layer, judged.sure), (Layer::PageCache, true));
        let stall = line(&[(Phase::Device, 5000), (Phase::Submit, 10)]);
        let judged = judged_by(slow(1000), io(), stall, &Baseline::of(&known));
        assert_eq!((judged.layer, judged.excess_ns), (Layer::Device, 4500), "as slow as others");
        let stall = line(&[(Phase::Device, 5000), (Phase::Submit, 10)]);
        let judged = judged_by(slow(1000), io(), stall, &base);
        assert_eq!((judged.layer, judged.excess_ns), (Layer::Device, 4500));
    }

    #[test]
    fn an_io_that_may_have_had_other_parts_is_not_sure() {
        let it = line(&[(Phase::Cpu, 990), (Phase::Submit, 10)]);
        let cached =
            |flags| TracedIo { parts: Some(Parts::default()), flags, ..TracedIo::default() };
        let judged = |flags| judged_by(slow(1000), Some(cached(flags)), it.clone(), &base());
        assert!(judged(flags::QUEUED).sure);
        let unclear = judged(flags::QUEUED | flags::UNCLEAR);
        assert_eq!((unclear.layer, unclear.sure), (Layer::Cpu, false));
    }

    #[test]
    fn no_majority_is_mixed_and_no_evidence_unknown() {
        let it = line(&[(Phase::Device, 390), (Phase::Queue, 300), (Phase::Cpu, 310)]);
        assert_eq!(judged_by(slow(1000), io(), it, &base()).layer, Layer::Mixed);
        let blind = judged_by(slow(1000), None, None, &base());
        assert_eq!((blind.layer, blind.sure), (Layer::Unknown, false));
    }

    #[test]
    fn of_a_few_ios_nothing_is_sure_but_that_one_was_late() {
        let judged = |sampled: usize, took: u64, intended: i64| {
            let usual = PhasedIo {
                op: OpKind::Read,
                service_ns: took,
                sample: true,
                block: true,
                place: None,
                after_flush_ns: None,
                phases: phases(&[(Phase::Device, took)]),
            };
            let (base, context) = (Baseline::of(&vec![usual; sampled]), IoContext::default());
            let threshold_ns = Some(500);
            let by = JudgeInputs { base: Some(&base), context: Some(&context), threshold_ns };
            let one = judge(slow(intended), io(), line(&[(Phase::Device, 1000)]), &by);
            (one.layer, one.excess_ns, one.sure, one.always)
        };
        let device = |excess_ns, sure| (Layer::Device, excess_ns, sure, false);
        assert_eq!(judged(0, 0, 1000), device(1000, false));
        assert_eq!(judged(1, 1000, 1000), device(1000, false), "this very one");
        assert_eq!(judged(19, 100, 1000), device(900, false));
        assert_eq!(judged(20, 100, 1000), device(900, true));
        assert_eq!(judged(19, 900, 1000), device(100, false), "as slow as a few others");
        assert_eq!(judged(20, 900, 1000), (Layer::Device, 1000, true, true));
        assert_eq!(judged(0, 0, -9000), (Layer::Schedule, 10_000, true, false));
    }

    #[test]
    fn lateness_belongs_to_the_schedule_with_or_without_evidence() {
        let it = line(&[(Phase::Device, 990), (Phase::Submit, 10)]);
        assert_eq!(judged_by(slow(-9000), io(), it, &base()).layer, Layer::Schedule);
        assert_eq!(judged_by(slow(-9000), None, None, &base()).layer, Layer::Schedule);
    }
}
