//! Which data the slowest I/Os of a layer's episodes have in common: a key, a part of the keys, a size, a file or
//! endpoint. Held against all operations of the run of the same kind, as what is hot is often slow, too: by number and by
//! time in flight, as what takes long by itself meets more stalls.

use std::collections::BTreeMap;

use taillight_core::OpKind;
use taillight_core::plan::{AccessKind, Arrival, Plan, WorkloadPlan};

use super::{CommonFactor, FEWEST, Found, USUAL_MIN, by_layer, chance};
use crate::episodes::EpisodeView;
use crate::events::slow::{IoKeys, OperationData, Slow, SlowIos};

/// Parts that the keys are cut into, in their order.
const PARTS: u64 = 64;
/// Fewest episodes that must have something in common, and of many episodes a quarter.
const COMMON_MIN: usize = FEWEST - 2;
/// Kinds of features, and ways in which each is held against all operations.
const KINDS: usize = 4;
const SHARES: usize = 2;

/// What an operation's data may have in common with those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DataFeature {
    Key(u64),
    /// A part of the keys, from the first to the last one.
    Keys(u64, u64),
    Size(u64),
    Target(u16),
}

/// Whether a plan asks for the same data at any time: for none because they are new, and of several workloads each at
/// the same rate from begin to end.
pub fn is_steady(plan: &Plan) -> bool {
    let steady = |w: &WorkloadPlan| {
        let ends = w.duration.is_some() || w.operations.is_some() || w.bytes.is_some();
        let whole = w.start_delay.0 == 0 && w.ramp.is_none() && w.passes.is_none() && !ends;
        let even = matches!(w.arrival, Arrival::Constant { .. } | Arrival::Poisson { .. });
        whole && (w.arrival.is_closed() || even)
    };
    let newest = [AccessKind::Latest, AccessKind::Exponential];
    let alone = plan.workloads.len() == 1;
    plan.workloads.iter().all(|w| !newest.contains(&w.access.kind) && (alone || steady(w)))
}

/// Parts of the keys that are there when a run begins.
#[derive(Debug, Clone, Copy)]
pub struct KeyParts {
    first: u64,
    /// Keys of a part.
    each: u64,
}

impl KeyParts {
    /// Of all workloads of a plan; none where there are too few keys.
    pub fn of(plan: &Plan) -> Option<KeyParts> {
        let keys = || plan.workloads.iter().filter_map(|w| w.keys.as_ref());
        let first = keys().map(|k| k.start).min()?;
        let end = keys().map(|k| k.start.saturating_add(k.count)).max()?;
        let each = (end - first).div_ceil(PARTS);
        (each > 1).then_some(KeyParts { first, each })
    }

    fn of_key(self, key: u64) -> Option<DataFeature> {
        let number = key.checked_sub(self.first)? / self.each;
        let from = self.first + number * self.each;
        Some(DataFeature::Keys(from, from.saturating_add(self.each - 1)))
    }
}

/// Operations, together.
#[derive(Debug, Clone, Copy, Default)]
struct OperationSum {
    count: u64,
    time_ns: u64,
}

impl OperationSum {
    fn add(&mut self, took_ns: u64) {
        self.count += 1;
        self.time_ns = self.time_ns.saturating_add(took_ns);
    }
}

/// How common data are in a run.
#[derive(Debug, Clone, Default)]
pub struct DataScale {
    /// Of the slowest I/O of each episode, by worker and submit.
    slowest: BTreeMap<(u64, i64), OperationData>,
    parts: Option<KeyParts>,
    /// By the number of the kind of operation.
    all: Vec<OperationSum>,
    /// Those with a feature that slow ones have in common: few.
    with: Vec<CountedFeature>,
}

/// Operations of a kind with a feature.
#[derive(Debug, Clone, Copy)]
struct CountedFeature {
    op: OpKind,
    feature: DataFeature,
    sum: OperationSum,
}

impl DataScale {
    /// Before any operation is counted.
    pub fn asking(episodes: &[EpisodeView], slow: &SlowIos, parts: Option<KeyParts>) -> DataScale {
        let asked: IoKeys = episodes.iter().filter_map(|e| e.features.slowest).map(key).collect();
        let known = slow.ios.iter().copied().map(key).zip(slow.data.iter().copied());
        let slowest = known.filter(|(of, _)| asked.contains(of)).collect();
        let mut scale = DataScale { slowest, parts, ..DataScale::default() };
        for list in by_layer(episodes).values() {
            for feature in scale.common(list).into_keys() {
                kinds(list).into_iter().for_each(|op| scale.ask(op, feature));
            }
        }
        scale
    }

    fn ask(&mut self, op: OpKind, feature: DataFeature) {
        if self.sum(op, feature).is_none() {
            self.with.push(CountedFeature { op, feature, sum: OperationSum::default() });
        }
    }

    /// Whether slow ones have nothing in common that operations would have to be counted for.
    pub fn asks_nothing(&self) -> bool {
        self.with.is_empty()
    }

    /// Counts an operation.
    pub fn count(&mut self, op: OpKind, data: &OperationData, took_ns: u64) {
        if self.all.is_empty() {
            self.all.resize(OpKind::ALL.len(), OperationSum::default());
        }
        self.all[op as usize].add(took_ns);
        for with in self.with.iter_mut().filter(|with| with.op == op && with.feature.is_of(data)) {
            with.sum.add(took_ns);
        }
    }

    fn sum(&self, op: OpKind, feature: DataFeature) -> Option<&OperationSum> {
        let mut with = self.with.iter();
        with.find(|with| with.op == op && with.feature == feature).map(|with| &with.sum)
    }

    /// What the slowest ones have in common, and how many of them.
    fn common(&self, list: &[&EpisodeView]) -> BTreeMap<DataFeature, usize> {
        let mut counts: BTreeMap<DataFeature, usize> = BTreeMap::new();
        for slow in list.iter().filter_map(|e| e.features.slowest) {
            let data = self.slowest.get(&key(slow));
            for feature in data.into_iter().flat_map(|data| self.features(slow.op, data)) {
                *counts.entry(feature).or_default() += 1;
            }
        }
        counts.retain(|_, n| *n >= COMMON_MIN && *n * 4 >= list.len());
        counts
    }

    fn features(
        &self,
        op: OpKind,
        data: &OperationData,
    ) -> impl Iterator<Item = DataFeature> + use<> {
        // New keys come in order, and old ones go so: what is near in time is near by number.
        let ordered = matches!(op.as_record(), OpKind::Insert | OpKind::Put | OpKind::Delete);
        let key = data.key.filter(|_| !ordered);
        let part = key.and_then(|key| self.parts?.of_key(key));
        let others = [DataFeature::Size(data.size), DataFeature::Target(data.target)];
        key.map(DataFeature::Key).into_iter().chain(part).chain(others)
    }

    /// The share of a feature in all operations of a kind, by number or by time, whichever is larger.
    fn share(&self, op: OpKind, feature: DataFeature) -> Option<f64> {
        let all = self.all.get(op as usize).filter(|all| all.count as usize >= USUAL_MIN)?;
        let with = self.sum(op, feature)?;
        let share = |part: u64, all: u64| (part as f64 + 1.0) / (all as f64 + 1.0);
        Some(share(with.count, all.count).max(share(with.time_ns, all.time_ns)))
    }

    /// What the slowest ones have in common that chance makes least often. Of a value with a share p, so many of all
    /// have it by chance in no more runs than `chance` says times p; these add up to one over all values of a kind, so
    /// that not each value counts as a look, but each kind, share and kind of operation.
    pub fn pattern(&self, list: &[&EpisodeView]) -> Found {
        let ops = kinds(list);
        let looks = (KINDS * SHARES * ops.len()) as f64;
        let found = self.common(list).into_iter().filter_map(|(feature, n)| {
            let shares = ops.iter().map(|op| self.share(*op, feature));
            let share = shares.collect::<Option<Vec<f64>>>()?.into_iter().fold(0.0, f64::max);
            Some((feature.factor(share), n as u64, chance(list.len(), n, share) * looks))
        });
        found.min_by(|a, b| a.2.total_cmp(&b.2))
    }
}

/// What finds the data of an I/O.
fn key(slow: Slow) -> (u64, i64) {
    (slow.worker.into(), slow.submit_ns)
}

/// What kinds of operations the slowest ones are.
fn kinds(list: &[&EpisodeView]) -> Vec<OpKind> {
    let mut ops: Vec<OpKind> = Vec::new();
    for slow in list.iter().filter_map(|e| e.features.slowest) {
        if !ops.contains(&slow.op) {
            ops.push(slow.op);
        }
    }
    ops
}

impl DataFeature {
    fn is_of(self, data: &OperationData) -> bool {
        match self {
            DataFeature::Key(key) => data.key == Some(key),
            DataFeature::Keys(from, to) => data.key.is_some_and(|key| (from..=to).contains(&key)),
            DataFeature::Size(size) => data.size == size,
            DataFeature::Target(target) => data.target == target,
        }
    }

    fn factor(self, share: f64) -> CommonFactor {
        match self {
            DataFeature::Key(key) => CommonFactor::Key { key, share },
            DataFeature::Keys(from, to) => CommonFactor::Keys { from, to, share },
            DataFeature::Size(bytes) => CommonFactor::Size { bytes, share },
            DataFeature::Target(target) => CommonFactor::Target { target, share },
        }
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::units::Span;
    use taillight_rundir::fixture;

    use super::*;
    use crate::episodes::patterns::{OutlierFeatures, Pattern, PatternScale, patterns};
    use crate::verdict::judge::Layer;

    const KEYS: u64 = 1000;
    const MS: u64 = 1_000_000;

    fn of_key(key: u64) -> OperationData {
        OperationData { key: Some(key), size: 100, target: 0 }
    }

    fn of_size(size: u64) -> OperationData {
        OperationData { key: None, size, target: 0 }
    }

    /// What is told of a run with these slow gets, each an episode at no regular time, and all of these gets.
    fn told(slow: &[OperationData], all: &[(OperationData, u64)]) -> Vec<CommonFactor> {
        told_of(OpKind::Get, slow, all)
    }

    fn told_of(
        op: OpKind,
        slow: &[OperationData],
        all: &[(OperationData, u64)],
    ) -> Vec<CommonFactor> {
        let mut ios = SlowIos { data: slow.to_vec(), ..SlowIos::default() };
        let mut episodes = Vec::new();
        for i in 0..slow.len() as i64 {
            let submit_ns = i * i * 1_000_000_000;
            let complete_ns = submit_ns + 50_000_000;
            let slow = Slow { worker: 0, op, intended_ns: submit_ns, submit_ns, complete_ns };
            ios.ios.push(slow);
            episodes.push(EpisodeView {
                start_ns: submit_ns,
                end_ns: complete_ns,
                features: OutlierFeatures { slowest: Some(slow), ..OutlierFeatures::default() },
                ..EpisodeView::nothing(Layer::Device)
            });
        }
        let parts = Some(KeyParts { first: 0, each: KEYS.div_ceil(PARTS) });
        let mut data = DataScale::asking(&episodes, &ios, parts);
        all.iter().for_each(|(of, took_ns)| data.count(op, of, *took_ns));
        let found = patterns(&episodes, &PatternScale { data, ..PatternScale::default() });
        found.into_iter().map(|p| p.alike).collect()
    }

    fn uniform() -> Vec<(OperationData, u64)> {
        (0..20 * KEYS).map(|i| (of_key(i % KEYS), MS)).collect()
    }

    #[test]
    fn a_key_that_most_slow_ones_are_of_is_told_with_its_share() {
        // Nine of twelve; the others are anywhere.
        let slow: Vec<_> = (0..12).map(|i| of_key(if i % 4 < 3 { 17 } else { i * 77 })).collect();
        let found = told(&slow, &uniform());
        let [CommonFactor::Key { key: 17, share }] = found[..] else { panic!("{found:?}") };
        assert!((share * KEYS as f64 - 1.0).abs() < 0.1, "{share}");
        // Keys beside each other: none by itself, but their part of all.
        let slow: Vec<_> = (0..12).map(|i| of_key(32 + i)).collect();
        let found = told(&slow, &uniform());
        assert!(matches!(found[..], [CommonFactor::Keys { from: 32, to: 47, .. }]), "{found:?}");
        // New ones are beside each other where they are of one time.
        assert_eq!(told_of(OpKind::Insert, &slow, &uniform()), []);
    }

    #[test]
    fn workloads_that_come_and_go_ask_for_other_data_then() {
        let mut plan = fixture::plan();
        plan.workloads[0].duration = Some(Span(1));
        assert!(is_steady(&plan), "by itself it asks for the same at any time");
        plan.workloads.push(WorkloadPlan { duration: None, ..plan.workloads[0].clone() });
        assert!(!is_steady(&plan));
        plan.workloads[0].duration = None;
        assert!(is_steady(&plan));
        plan.workloads[1].arrival = Arrival::Steps { steps: Vec::new() };
        assert!(!is_steady(&plan));
        plan.workloads.truncate(1);
        plan.workloads[0].access.kind = AccessKind::Latest;
        assert!(!is_steady(&plan));
    }

    #[test]
    fn slow_ones_anywhere_have_no_key_in_common() {
        let slow: Vec<_> = (0..40).map(|i| of_key(i * 389 % KEYS)).collect();
        assert_eq!(told(&slow, &uniform()), []);
        assert_eq!(told(&slow, &[]), [], "nothing is known of all");
    }

    #[test]
    fn the_words_say_how_common_it_is_in_all() {
        let alike = CommonFactor::Key { key: 17, share: 0.5 };
        let layer = Layer::Device;
        let words = Pattern { layer, alike, episodes: 12, common: 9, chance: 1e-3 }.words();
        assert_eq!(
            words,
            "In 9 of 12 episodes in the device or below the slowest I/O was of key 17, as 50.0 % of all \
             of its kind are, by number or by time. (by chance in at most 1 of 1,000 runs)"
        );
    }

    /// Key k is asked for in proportion to 1 / (k + 1): the hottest one by one of seven, the first part by almost half.
    #[test]
    fn a_key_that_is_hot_in_all_alike_is_no_pattern() {
        let often = |key: u64| 20 * KEYS / (key + 1);
        let hot = |key: u64| (0..often(key)).map(move |_| (of_key(key), MS));
        let all: Vec<_> = (0..KEYS).flat_map(hot).collect();
        // As many slow ones as all of each key: a stretch of all has them.
        for n in [8, 40, 200] {
            let slow = (0..n).map(|i| all[(2 * i + 1) * all.len() / (2 * n)].0);
            assert_eq!(told(&slow.collect::<Vec<_>>(), &all), [], "{n}");
        }
        // The hottest one in all of them is more than that.
        let found = told(&[of_key(0); 20], &all);
        assert!(matches!(found[..], [CommonFactor::Key { key: 0, .. }]), "{found:?}");
    }

    #[test]
    fn what_takes_long_by_itself_is_no_pattern() {
        let slow: Vec<_> = (0..25).map(|i| of_size(if i < 20 { 1 << 20 } else { 4096 })).collect();
        let all = |took_ns: u64| -> Vec<_> {
            let one = |i: u64| match i % 10 {
                0 => (of_size(1 << 20), took_ns),
                _ => (of_size(4096), MS),
            };
            (0..10_000).map(one).collect()
        };
        // Nine of ten are small; nearly all of the time the large ones are in flight.
        assert_eq!(told(&slow, &all(90 * MS)), []);
        let found = told(&slow, &all(MS));
        assert!(matches!(found[..], [CommonFactor::Size { bytes: 1_048_576, .. }]), "{found:?}");
    }
}
