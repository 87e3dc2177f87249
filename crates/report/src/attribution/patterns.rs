//! What episodes have in common: a period, the same culprit, place, CPU or time after a flush.
//!
//! What it is: facts about several episodes of a layer. What it is not: the cause of any one of them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use taillight_rundir::layers::{LayerKind, LayerRow};

use super::culprits::Role;
use super::episodes::EpisodeView;
use super::events::Events;
use super::judge::{Judged, Layer};
use super::timeline::overlapping;
use crate::format;

/// Fewer episodes make no pattern.
const FEWEST: usize = 5;
/// Places are the same within this part of all that was read or written.
const NARROW: u64 = 16;
/// How often chance alone may make a pattern.
const CHANCE: f64 = 0.01;
/// Times after a flush that differ by less are the same, ns.
const SAME_NS: i64 = 200_000;

/// What the episodes of a layer have in common.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Pattern {
    pub layer: Layer,
    pub alike: Alike,
    /// Episodes of the layer.
    pub episodes: u64,
    /// Of them such that have it in common.
    pub common: u64,
}

/// In what episodes are alike.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Alike {
    /// They come regularly.
    Period { period_ns: u64 },
    /// The same one stood in the way.
    Culprit { name: String },
    /// Their slowest I/Os were in the same part of the file or device, bytes.
    Place { from: u64, to: u64 },
    /// The thread waited for the same CPU.
    Cpu { cpu: u64 },
    /// Their slowest I/Os began so long after a flush of the disk's cache, ns.
    AfterFlush { after_ns: u64 },
}

/// What of an episode's slowest I/O may come again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traits {
    /// Where it was, bytes.
    pub place: Option<(u64, u64)>,
    /// CPU that its thread waited longest for.
    pub cpu: Option<u64>,
    /// How long after a flush of the disk it began, ns.
    pub after_flush_ns: Option<i64>,
}

/// What such a trait is held against.
#[derive(Debug, Clone, Copy, Default)]
pub struct PatternScale {
    /// End of what was read or written, bytes.
    pub reach: u64,
    /// CPUs that the program's threads were on.
    pub cpus: usize,
    /// Usual time between flushes, ns.
    pub flush_ns: Option<i64>,
}

impl Traits {
    /// Of the slowest I/O of an episode.
    pub fn of(list: &[Judged], events: &Events) -> Traits {
        let worst = list.iter().filter(|j| j.row.is_some()).max_by_key(|j| j.phases.sum());
        let Some((one, row)) = worst.and_then(|j| Some((j, j.row.as_ref()?))) else {
            return Traits::default();
        };
        let off = events.off.get(&u64::from(one.slow.worker)).map_or(&[][..], Vec::as_slice);
        let waited = |r: &&LayerRow| r.end_ns - r.middle_ns.unwrap_or(r.start_ns);
        let waits = overlapping(off, row.start_ns, row.end_ns).filter(|r| r.cpu.is_some());
        let mut flushes = events.other.get(&LayerKind::Flush).into_iter().flatten();
        let flush = flushes.rfind(|f| f.end_ns <= row.start_ns);
        Traits {
            place: row.offset.zip(row.size).map(|(at, size)| (at, at.saturating_add(size))),
            cpu: waits.max_by_key(waited).and_then(|r| r.cpu),
            after_flush_ns: flush.map(|f| row.start_ns - f.end_ns),
        }
    }
}

impl PatternScale {
    pub fn of(reach: u64, events: &Events) -> PatternScale {
        let cpus: BTreeSet<u64> = events.off.values().flatten().filter_map(|r| r.cpu).collect();
        let flushes = events.other.get(&LayerKind::Flush).map_or(&[][..], Vec::as_slice);
        let time = flushes.first().zip(flushes.last()).map(|(a, z)| z.end_ns - a.end_ns);
        let gaps = (flushes.len() as i64 - 1).max(1);
        let flush_ns = time.map(|ns| ns / gaps).filter(|_| flushes.len() >= FEWEST);
        PatternScale { reach, cpus: cpus.len(), flush_ns }
    }
}

/// What strikes about the episodes of each layer.
pub fn patterns(episodes: &[EpisodeView], scale: &PatternScale) -> Vec<Pattern> {
    let mut by: BTreeMap<Layer, Vec<&EpisodeView>> = BTreeMap::new();
    for one in episodes.iter().filter(|e| !matches!(e.layer, Layer::Unknown | Layer::Mixed)) {
        by.entry(one.layer).or_default().push(one);
    }
    let mut found = Vec::new();
    for (layer, list) in by.into_iter().filter(|(_, list)| list.len() >= FEWEST) {
        let episodes = list.len() as u64;
        let starts: Vec<i64> = list.iter().map(|e| e.start_ns).collect();
        let alike = [
            period(&starts).map(|period_ns| (Alike::Period { period_ns }, episodes)),
            culprit(&list),
            place(&list, scale.reach),
            cpu(&list, scale.cpus).filter(|_| matches!(layer, Layer::Cpu | Layer::Completion)),
            after_flush(&list, scale.flush_ns),
        ];
        let alike = alike.into_iter().flatten();
        found.extend(alike.map(|(alike, common)| Pattern { layer, alike, episodes, common }));
    }
    found
}

impl Pattern {
    /// One sentence.
    pub fn words(&self) -> String {
        let time = |ns: u64| format::duration_ns(ns);
        let (all, place) = (format::count(self.episodes), self.layer.place());
        let of = format!("In {} of {all} episodes {place}", format::count(self.common));
        match &self.alike {
            Alike::Period { period_ns } => {
                format!("The {all} episodes {place} come every {}.", time(*period_ns))
            }
            Alike::Culprit { name } => format!("{of} the same one stood in the way: {name}."),
            Alike::Place { from, to } => format!(
                "{of} the slowest I/O was in the same place: {} to {}.",
                format::bytes(*from),
                format::bytes(*to)
            ),
            Alike::Cpu { cpu } => format!("{of} it was for CPU {cpu}."),
            Alike::AfterFlush { after_ns } => format!(
                "{of} the slowest I/O began {} after a flush of the disk's cache.",
                time(*after_ns)
            ),
        }
    }
}

/// The distance of stamps that come regularly: three quarters of the distances differ from the middle one by
/// a tenth at most.
fn period(starts: &[i64]) -> Option<u64> {
    let mut gaps: Vec<i64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
    if gaps.len() + 1 < FEWEST {
        return None;
    }
    gaps.sort_unstable();
    let middle = gaps[gaps.len() / 2];
    let near = gaps.iter().filter(|g| (**g - middle).abs() * 10 <= middle).count();
    (middle > 0 && near * 4 >= gaps.len() * 3).then_some(middle.unsigned_abs())
}

/// The culprit that is the largest of its role in four of five episodes.
fn culprit(list: &[&EpisodeView]) -> Option<(Alike, u64)> {
    let mut counts: BTreeMap<(Role, &str), u64> = BTreeMap::new();
    for one in list {
        let mut roles: Vec<Role> = Vec::new();
        for culprit in &one.culprits {
            if !roles.contains(&culprit.role) {
                roles.push(culprit.role);
                *counts.entry((culprit.role, &culprit.name)).or_default() += 1;
            }
        }
    }
    let ((_, name), n) = counts.into_iter().max_by_key(|(_, n)| *n)?;
    (n * 5 >= list.len() as u64 * 4).then(|| (Alike::Culprit { name: name.to_owned() }, n))
}

/// The narrowest part that four of five slowest I/Os lie in, where that is narrow and not chance.
fn place(list: &[&EpisodeView], reach: u64) -> Option<(Alike, u64)> {
    let mut places: Vec<(u64, u64)> = list.iter().filter_map(|e| e.traits.place).collect();
    places.sort_unstable();
    let need = (list.len() * 4).div_ceil(5);
    let width = |w: &&[(u64, u64)]| w.iter().map(|p| p.1).max().unwrap_or(0) - w[0].0;
    let narrow = places.windows(need).min_by_key(width)?;
    let (from, to) = (narrow[0].0, narrow[0].0 + width(&narrow));
    let fits = (to - from).saturating_mul(NARROW) <= reach;
    let chance = chance(list.len(), need, (to - from) as f64 / reach.max(1) as f64);
    (fits && chance <= CHANCE).then_some((Alike::Place { from, to }, need as u64))
}

/// The CPU that four of five waited for.
fn cpu(list: &[&EpisodeView], cpus: usize) -> Option<(Alike, u64)> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for cpu in list.iter().filter_map(|e| e.traits.cpu) {
        *counts.entry(cpu).or_default() += 1;
    }
    let (cpu, n) = counts.into_iter().max_by_key(|(_, n)| *n)?;
    let fits = n * 5 >= list.len() * 4 && cpus > 1;
    let chance = chance(list.len(), n, 1.0 / cpus.max(1) as f64);
    (fits && chance <= CHANCE).then_some((Alike::Cpu { cpu }, n as u64))
}

/// The time after a flush at which four of five began, where flushes are rare beside it.
fn after_flush(list: &[&EpisodeView], flush_ns: Option<i64>) -> Option<(Alike, u64)> {
    let mut times: Vec<i64> = list.iter().filter_map(|e| e.traits.after_flush_ns).collect();
    times.sort_unstable();
    let (middle, between) = (*times.get(times.len() / 2)?, flush_ns?);
    let same = (middle / 10).max(SAME_NS);
    let n = times.iter().filter(|t| (**t - middle).abs() <= same).count();
    let chance = chance(list.len(), n, 2.0 * same as f64 / between.max(1) as f64);
    let fits = n * 5 >= list.len() * 4 && chance <= CHANCE;
    fits.then_some((Alike::AfterFlush { after_ns: middle.unsigned_abs() }, n as u64))
}

/// At most how likely so many of all fall together with one of them by chance, each with the probability `p`.
fn chance(all: usize, common: usize, p: f64) -> f64 {
    let ways = (0..common).map(|i| (all - i) as f64 / (i + 1) as f64);
    ways.product::<f64>() * common as f64 * p.min(1.0).powi(common as i32 - 1)
}

#[cfg(test)]
mod tests {
    use super::super::episodes::EpisodeView;
    use super::*;

    #[test]
    fn only_what_comes_regularly_has_a_period() {
        assert_eq!(period(&[0, 100, 205, 300, 402, 500]), Some(100));
        assert_eq!(period(&[0, 100, 350, 400, 900, 950]), None);
        assert_eq!(period(&[0, 100, 200]), None, "too few");
    }

    fn kinds(traits: &[Traits], scale: &PatternScale) -> Vec<Alike> {
        let at = [0, 7, 90, 91, 200, 340, 900, 1000, 1001, 1500];
        let episode = |(i, traits): (usize, &Traits)| EpisodeView {
            start_ns: at[i],
            traits: *traits,
            ..EpisodeView::nothing(Layer::Cpu)
        };
        let list: Vec<EpisodeView> = traits.iter().enumerate().map(episode).collect();
        patterns(&list, scale).into_iter().map(|p| p.alike).collect()
    }

    #[test]
    fn what_chance_makes_as_well_is_no_pattern() {
        let scale = PatternScale { reach: 1 << 30, cpus: 8, flush_ns: Some(1_000_000_000) };
        let same = |i: u64| Traits {
            place: Some(((500 << 20) + i * 4096, (500 << 20) + (i + 1) * 4096)),
            cpu: Some(3),
            after_flush_ns: Some(5_000_000 + i as i64 * 1000),
        };
        let all: Vec<Traits> = (0..6).map(same).collect();
        let place = Alike::Place { from: 500 << 20, to: (500 << 20) + 5 * 4096 };
        let after = Alike::AfterFlush { after_ns: 5_003_000 };
        assert_eq!(kinds(&all, &scale), [place, Alike::Cpu { cpu: 3 }, after]);
        let apart = |i: u64| Traits {
            place: Some((i * (100 << 20), i * (100 << 20) + 4096)),
            cpu: Some(i),
            after_flush_ns: Some(i as i64 * 150_000_000),
        };
        let all: Vec<Traits> = (0..6).map(apart).collect();
        assert_eq!(kinds(&all, &scale), []);
        // Of two CPUs one is often the same, and what is flushed all the time was flushed before anything.
        let few = PatternScale { reach: 8 << 12, cpus: 2, flush_ns: Some(1_000_000) };
        let all: Vec<Traits> = (0..5).map(same).collect();
        assert_eq!(kinds(&all, &few), []);
    }
}
