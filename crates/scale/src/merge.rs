//! Percentiles over all ranks, exact, without moving I/Os: the value is found by bisection, and in each round every
//! rank says how many of its values are at or below some bounds. What a rank sends is a few numbers a round,
//! whatever it measured; the result is that of the sorted concatenation, for any split.

use taillight_core::percentile::Percentile;
use taillight_core::{Error, Result};
use taillight_stats::Dist;

use crate::group::{Group, Patience};

/// What a merge moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergeCost {
    /// Bytes that this rank sent and received; at rank 0, for each other rank.
    pub bytes: u64,
    pub rounds: u32,
}

/// The values at the places `wanted` (1 for the smallest) among the values of all ranks together; values are below
/// 2^63. `None` when a rank did not answer. Every rank calls it with the same `wanted`.
pub fn exact_at(
    group: &mut dyn Group,
    own: &Dist,
    wanted: &[u64],
    patience: Patience,
    cost: &mut MergeCost,
) -> Result<Option<Vec<u64>>> {
    let mut low = vec![0u64; wanted.len()];
    let mut high = vec![u64::MAX >> 1; wanted.len()];
    while low.iter().zip(&high).any(|(low, high)| low < high) {
        let middle: Vec<u64> = low.iter().zip(&high).map(|(l, h)| l + (h - l) / 2).collect();
        let mut counts: Vec<u64> = middle.iter().map(|ns| own.count_at_or_below(*ns)).collect();
        let Some(moved) = group.allreduce_u64(&mut counts, patience)? else { return Ok(None) };
        cost.bytes += moved;
        cost.rounds += 1;
        for (i, count) in counts.iter().enumerate() {
            match *count >= wanted[i] {
                true => high[i] = middle[i],
                false => low[i] = (middle[i] + 1).min(high[i]),
            }
        }
    }
    Ok(Some(low))
}

/// Number of values of all ranks together, and their percentiles (empty without values); none when a rank did not
/// answer. Errors: `Internal` when the counts exceed 64 bits.
pub fn merged_percentiles(
    group: &mut dyn Group,
    own: &Dist,
    percentiles: &[Percentile],
    patience: Patience,
) -> Result<Option<(u64, Vec<u64>, MergeCost)>> {
    let mut count = [own.count()];
    let mut cost = MergeCost::default();
    let Some(moved) = group.allreduce_u64(&mut count, patience)? else { return Ok(None) };
    cost.bytes += moved;
    let [count] = count;
    if count == u64::MAX {
        return Err(Error::internal("the ranks hold more I/Os than can be counted"));
    }
    if count == 0 {
        return Ok(Some((0, Vec::new(), cost)));
    }
    let wanted: Vec<u64> = percentiles.iter().map(|p| p.rank(count)).collect();
    let found = exact_at(group, own, &wanted, patience, &mut cost)?;
    Ok(found.map(|found| (count, found, cost)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalGroup;
    use proptest::prelude::*;
    use std::time::Duration;

    /// Most bytes that a rank may move for each operation.
    const MOST_BYTES: u64 = 1 << 20;

    fn percentiles() -> Vec<Percentile> {
        let texts = ["1", "50", "90", "99", "99.9", "99.99", "99.9999999"];
        texts.iter().map(|text| Percentile::asked(text).unwrap()).collect()
    }

    fn merge(parts: &[Vec<u64>]) -> Vec<(u64, Vec<u64>, MergeCost)> {
        std::thread::scope(|scope| {
            let ranks = LocalGroup::of(parts.len() as u32, 1).into_iter().zip(parts);
            let threads: Vec<_> = ranks
                .map(|(mut rank, values)| {
                    scope.spawn(move || {
                        let own = Dist::from_values(values.clone());
                        let patience = Patience::of(Duration::from_secs(20));
                        merged_percentiles(&mut rank, &own, &percentiles(), patience)
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap().unwrap().unwrap()).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whatever the split, ranks without values among them: the sort of the concatenation, at every rank.
        #[test]
        fn merged_percentiles_are_those_of_the_sorted_concatenation(
            parts in prop::collection::vec(
                prop::collection::vec(prop_oneof![0..50u64, 0..10_000_000u64, 0..u64::MAX >> 2], 0..40),
                1..6,
            )
        ) {
            let mut all: Vec<u64> = parts.concat();
            all.sort_unstable();
            for (count, found, cost) in merge(&parts) {
                prop_assert_eq!(count, all.len() as u64);
                prop_assert!(cost.bytes < MOST_BYTES, "{:?}", cost);
                let n = all.len() as u64;
                let wanted = percentiles().into_iter().filter(|_| n > 0);
                let wanted: Vec<u64> = wanted.map(|p| all[p.rank(n) as usize - 1]).collect();
                prop_assert_eq!(found, wanted);
            }
        }
    }

    #[test]
    fn what_is_moved_does_not_grow_with_the_io() {
        let part = |from: u64| (0..100_000u64).map(|i| from + i * 7).collect::<Vec<_>>();
        let costs: Vec<MergeCost> =
            merge(&[part(3), part(1_000_000)]).into_iter().map(|(.., cost)| cost).collect();
        assert!(costs.iter().all(|cost| cost.bytes < 16 << 10), "{costs:?}");
    }

    #[test]
    fn a_rank_that_does_not_answer_ends_the_merge() {
        let mut ranks = LocalGroup::of(2, 1);
        let _silent = ranks.pop();
        let own = Dist::from_values(vec![1, 2, 3]);
        let patience = Patience::of(Duration::from_millis(50));
        let found = merged_percentiles(&mut ranks[0], &own, &percentiles(), patience);
        assert_eq!(found.unwrap(), None);
    }
}
