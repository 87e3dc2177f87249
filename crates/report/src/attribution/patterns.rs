//! What episodes have in common: a period, the same culprit.
//!
//! What it is: sentences about several episodes. What it is not: the cause of any one of them.

use std::collections::BTreeMap;

use super::culprits::Role;
use super::episodes::EpisodeView;
use super::judge::Layer;
use crate::format::{self, Script};

/// Fewer episodes make no pattern.
const FEWEST: usize = 5;

/// What strikes about the episodes of each layer.
pub fn patterns(episodes: &[EpisodeView]) -> Vec<String> {
    let mut by: BTreeMap<Layer, Vec<&EpisodeView>> = BTreeMap::new();
    for one in episodes.iter().filter(|e| !matches!(e.layer, Layer::Unknown | Layer::Mixed)) {
        by.entry(one.layer).or_default().push(one);
    }
    let mut said = Vec::new();
    for (layer, list) in by.into_iter().filter(|(_, list)| list.len() >= FEWEST) {
        let starts: Vec<i64> = list.iter().map(|e| e.start_ns).collect();
        if let Some(ns) = period(&starts) {
            said.push(format!(
                "The {} episodes {} come every {}.",
                format::count(list.len() as u64),
                layer.place(),
                format::duration_ns(ns, Script::Plain)
            ));
        }
        if let Some((name, n)) = common(&list) {
            said.push(format!(
                "In {} of {} episodes {} the same one stood in the way: {name}.",
                format::count(n),
                format::count(list.len() as u64),
                layer.place()
            ));
        }
    }
    said
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
fn common(list: &[&EpisodeView]) -> Option<(String, u64)> {
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
    (n * 5 >= list.len() as u64 * 4).then(|| (name.to_owned(), n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_regularly_has_a_period() {
        assert_eq!(period(&[0, 100, 205, 300, 402, 500]), Some(100));
        assert_eq!(period(&[0, 100, 350, 400, 900, 950]), None);
        assert_eq!(period(&[0, 100, 200]), None, "too few");
    }
}
