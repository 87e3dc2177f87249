//! SLC factors: how far the body and the tail of a latency distribution spread.
//!
//! [`Slc`] has the real-valued factors as Taillight reads the paper that introduced them ("Sliding
//! Latency Coverage", IEEE INCET 2022); [`SbkSlc`] the integers that the Storage Benchmark Kit prints, by
//! its own selection rule, so that published figures can be compared. Both are ratios: a system with a
//! tiny median can show a huge SLC2 and still be the faster one.

use crate::dist::Dist;
use taillight_core::Percentile;

/// The 21 percentiles of the SLC paper and of SBK 0.97.
pub const SBK_21_LIST: [Percentile; 21] = from_hundredths([
    1000, 2000, 2500, 3000, 4000, 5000, 6000, 7000, 7500, 8000, 9000, 9250, 9500, 9750, 9900, 9925,
    9950, 9975, 9990, 9995, 9999,
]);

/// The 28 percentiles SBK prints by default since 10.x.
pub const SBK_28_LIST: [Percentile; 28] = from_hundredths([
    500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 5500, 6000, 6500, 7000, 7500, 8000,
    8500, 9000, 9250, 9500, 9750, 9900, 9925, 9950, 9975, 9990, 9995, 9999,
]);

/// A list of percentiles from hundredths of a per cent.
const fn from_hundredths<const N: usize>(hundredths: [u64; N]) -> [Percentile; N] {
    let mut list = [Percentile::MAX; N];
    let mut i = 0;
    while i < N {
        list[i] = Percentile::hundredths(hundredths[i]);
        i += 1;
    }
    list
}

/// Where the 50th percentile stands in the list of 21.
const MEDIAN_OF_21: usize = 5;

/// The real-valued factors over the list of 21 percentiles; without unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slc {
    /// Mean relative distance from the lowest listed percentile (the 10th) of those up to the
    /// 50th. None when that lowest value is zero or nothing was measured.
    pub slc1: Option<f64>,
    /// Mean relative distance from the median of the listed percentiles above the 50th. None when
    /// the median is zero or nothing was measured.
    pub slc2: Option<f64>,
}

impl Slc {
    /// The factors of a distribution, percentiles by nearest rank over all I/Os.
    #[must_use]
    pub fn from_dist(dist: &Dist) -> Self {
        let mut values = [0; 21];
        for (value, pct) in values.iter_mut().zip(&SBK_21_LIST) {
            match dist.percentile(pct) {
                Some(measured) => *value = measured,
                None => return Self::default(),
            }
        }
        Self::from_values(&values)
    }

    /// The factors of the 21 listed percentile values, in the order of
    /// [`SBK_21_LIST`], in any one unit.
    ///
    /// The split is by percentile, not by value, so ties do not move terms between the factors.
    #[must_use]
    pub fn from_values(values: &[u64; 21]) -> Self {
        let (body, tail) = values.split_at(MEDIAN_OF_21 + 1);
        Self {
            slc1: mean_distance(&body[1..], body[0]),
            slc2: mean_distance(tail, body[MEDIAN_OF_21]),
        }
    }
}

/// Mean of `(x - base) / base`; none when the base is zero.
fn mean_distance(values: &[u64], base: u64) -> Option<f64> {
    if base == 0 {
        return None;
    }
    let total: f64 =
        values.iter().map(|&x| (i128::from(x) - i128::from(base)) as f64 / base as f64).sum();
    Some(total / values.len() as f64)
}

/// The integer factors as SBK prints them; without unit. Comparable only within one list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SbkSlc {
    /// SBK's SLC1.
    pub slc1: i64,
    /// SBK's SLC2.
    pub slc2: i64,
}

impl SbkSlc {
    /// Over the list of 21 that SBK 0.97 and the paper use.
    #[must_use]
    pub fn list_21(dist: &Dist) -> Self {
        Self::from_dist(dist, &SBK_21_LIST)
    }

    /// Over the list of 28 that SBK has used since 10.x.
    #[must_use]
    pub fn list_28(dist: &Dist) -> Self {
        Self::from_dist(dist, &SBK_28_LIST)
    }

    /// Over any rising list of percentiles.
    #[must_use]
    pub fn from_dist(dist: &Dist, list: &[Percentile]) -> Self {
        Self::from_values(&sbk_percentiles(dist, list), sbk_median(dist))
    }

    /// From percentile values already selected, lowest percentile first, and the median of all
    /// samples.
    ///
    /// A value goes to SLC1 when it is *at or below the median* and the lowest value is above 0, wherever it
    /// stands in the list, else to SLC2; the quotient is rounded by integer-ceiling arithmetic applied to a
    /// real number. Both are SBK's habits. Zero with fewer than two values, or when the last is not positive.
    #[must_use]
    pub fn from_values(values: &[i64], median: i64) -> Self {
        let (Some((&lowest, above)), Some(&last)) = (values.split_first(), values.last()) else {
            return Self::default();
        };
        if above.is_empty() || last <= 0 {
            return Self::default();
        }
        let mut body = Terms::default();
        let mut tail = Terms::default();
        for &value in above {
            if value <= median && lowest > 0 {
                body.add(value, lowest);
            } else if median > 0 {
                tail.add(value, median);
            }
        }
        Self { slc1: body.factor(), slc2: tail.factor() }
    }
}

/// SBK's sum and count of one factor.
#[derive(Default)]
struct Terms {
    sum: f64,
    count: u32,
}

impl Terms {
    fn add(&mut self, value: i64, base: i64) {
        self.sum += value.saturating_sub(base) as f64 / base as f64;
        self.count += 1;
    }

    fn factor(&self) -> i64 {
        if self.count == 0 {
            return 0;
        }
        let count = f64::from(self.count);
        // The cast drops the fraction toward zero, as SBK's does.
        ((self.sum + count - 1.0) / count) as i64
    }
}

/// The percentile values SBK would print for a rising list.
///
/// Sample number `trunc(count * (p / 100))`, counted from 0 and computed in binary floating point,
/// rounding errors included. At 100 % that sample does not exist and SBK prints 0.
#[must_use]
pub fn sbk_percentiles(dist: &Dist, list: &[Percentile]) -> Vec<i64> {
    let count = dist.count();
    list.iter()
        .map(|pct| {
            let index = (count as f64 * (pct.as_f64() / 100.0)) as u64;
            sample(dist, index)
        })
        .collect()
}

/// The median as SBK takes it: sample number `count / 2`, counted from 0; 0 without samples.
#[must_use]
pub fn sbk_median(dist: &Dist) -> i64 {
    sample(dist, dist.count() >> 1)
}

/// Sample number `index` from 0, or 0 beyond the last one.
fn sample(dist: &Dist, index: u64) -> i64 {
    let value = index.checked_add(1).and_then(|rank| dist.value_at_rank(rank)).unwrap_or(0);
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIG_21: [u64; 21] = [
        444, 444, 444, 444, 446, 446, 450, 451, 452, 453, 461, 466, 478, 879, 1040, 1393, 1393,
        1393, 1393, 1393, 1393,
    ];
    const FIG_24: [u64; 21] = [
        441, 445, 448, 454, 460, 464, 467, 473, 476, 481, 1113, 1135, 1145, 1188, 1205, 1383, 1383,
        1383, 1383, 1383, 1383,
    ];
    const FIG_14: [u64; 21] = [
        3308, 3357, 3382, 3406, 3455, 3504, 3577, 3772, 4993, 5115, 5335, 5677, 5969, 6482, 8631,
        10193, 12342, 14881, 20838, 23377, 35243,
    ];
    const MIXED: [u64; 21] = [
        100, 110, 120, 130, 140, 150, 180, 200, 220, 250, 300, 350, 400, 600, 900, 1000, 1200,
        2000, 4000, 8000, 15000,
    ];

    fn list(text: &str) -> Vec<Percentile> {
        text.split(' ').map(|p| p.parse().expect("valid")).collect()
    }

    fn list_8() -> Vec<Percentile> {
        list("10 25 50 75 95 99 99.9 99.99")
    }

    fn pairs(pairs: &[(u64, u64)]) -> Dist {
        Dist::from_sorted_pairs(pairs.iter().copied()).expect("sorted")
    }

    /// `values` over the list of 21, the sixth being the median.
    fn sbk(values: [u64; 21]) -> (i64, i64) {
        let values = values.map(|v| i64::try_from(v).expect("small"));
        let slc = SbkSlc::from_values(&values, values[MEDIAN_OF_21]);
        (slc.slc1, slc.slc2)
    }

    fn sbk_of(dist: &Dist, list: &[Percentile]) -> (i64, i64) {
        let slc = SbkSlc::from_dist(dist, list);
        (slc.slc1, slc.slc2)
    }

    fn steps(first: u64, n_first: usize, rest: u64) -> [u64; 21] {
        std::array::from_fn(|i| if i < n_first { first } else { rest })
    }

    fn real(values: &[u64; 21], slc1: f64, slc2: f64) {
        let slc = Slc::from_values(values);
        let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 5e-6 * b.max(0.01));
        assert!(near(slc.slc1, slc1) && near(slc.slc2, slc2), "{slc:?}");
    }

    #[test]
    fn real_factors_of_the_reference_vectors() {
        real(&std::array::from_fn(|i| 10 * (i as u64 + 1)), 3.0, 4.0 / 3.0);
        real(&MIXED, 0.3, 14.377_78);
        real(&FIG_21, 0.001_801_8, 1.016_143);
    }

    /// docs/measurement.md has the list and an example of each reading; both come from here.
    #[test]
    fn the_page_has_the_list_and_the_example() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/measurement.md");
        let page = std::fs::read_to_string(page).unwrap();
        let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let list = |all: Vec<String>| format!(": {}.", all.join(", "));
        let listed = list(SBK_21_LIST.iter().map(ToString::to_string).collect());
        assert!(text.contains(&listed), "{listed}");
        let values = list(MIXED.iter().map(ToString::to_string).collect());
        assert!(text.contains(&values), "{values}");
        let x: Vec<f64> = MIXED.iter().map(|v| *v as f64).collect();
        let (m, n) = (MEDIAN_OF_21 + 1, x.len());
        let (first, median) = (x[0], x[m - 1]);
        let from = |base: f64, of: &[f64]| of.iter().map(|v| v - base).sum::<f64>();
        let last = x[m - 1] - x[m - 2];
        let written =
            [(from(first, &x[1..m - 1]) + last) / m as f64 / first, (x[n - 1] - median) / median];
        let sums = [
            from(first, &x[1..m]) / (first * m as f64),
            from(x[m], &x[m..]) / (median * (n - m) as f64),
        ];
        let Slc { slc1, slc2 } = Slc::from_values(&MIXED);
        let rows = [
            ("here", [slc1.unwrap(), slc2.unwrap()]),
            ("the paper's sums", sums),
            ("the paper's formulas written out", written),
        ];
        for (name, [slc1, slc2]) in rows {
            let row = format!("| {name} | {slc1:.3} | {slc2:.3} |");
            assert!(text.contains(&row), "{row}");
        }
        let sbk = SbkSlc::from_values(&MIXED.map(|v| v as i64), 150);
        let row = format!("| as SBK prints it | {} | {} |", sbk.slc1, sbk.slc2);
        assert!(text.contains(&row), "{row}");
    }

    #[test]
    fn a_zero_base_is_undefined_not_zero() {
        let slc = Slc::from_values(&steps(0, 3, 50));
        assert_eq!((slc.slc1, slc.slc2), (None, Some(0.0)));
        let slc = Slc::from_values(&steps(0, 6, 50));
        assert_eq!((slc.slc1, slc.slc2), (None, None));
        assert_eq!(Slc::from_dist(&Dist::default()), Slc { slc1: None, slc2: None });
    }

    #[test]
    fn real_factors_of_a_distribution_use_nearest_rank() {
        // 1..=10000: the listed percentiles are exactly 100 p.
        let slc = Slc::from_dist(&(1..=10_000).collect());
        let wanted: f64 = [2.0, 2.5, 3.0, 4.0, 5.0].iter().map(|x| x - 1.0).sum::<f64>() / 5.0;
        assert!(slc.slc1.is_some_and(|x| (x - wanted).abs() < 1e-12), "{slc:?}");
        // Ties above the 50th percentile stay in SLC2 and pull it down.
        let tied = Slc::from_dist(&pairs(&[(100, 990), (1_100, 10)]));
        assert_eq!(tied.slc1, Some(0.0));
        assert!(tied.slc2.is_some_and(|x| (x - 10.0 * 6.0 / 15.0).abs() < 1e-12), "{tied:?}");
    }

    #[test]
    fn sbk_figures_of_the_paper() {
        assert_eq!(sbk(FIG_21), (0, 1));
        assert_eq!(sbk(FIG_24), (0, 2));
        assert_eq!(sbk(FIG_14), (0, 3));
    }

    #[test]
    fn sbk_vectors_of_percentile_values() {
        assert_eq!(sbk(std::array::from_fn(|i| 10 * (i as u64 + 1))), (3, 2));
        assert_eq!(sbk(steps(100, 6, 200)), (0, 1));
        assert_eq!(sbk(steps(100, 6, 106)), (0, 0));
        assert_eq!(sbk(steps(100, 20, 199)), (0, 0));
        assert_eq!(sbk(steps(100, 20, 200)), (0, 1));
        assert_eq!(sbk(steps(100, 20, 1600)), (0, 15));
        let doubling = std::array::from_fn(|i| 10 << i.min(5));
        assert_eq!(sbk(doubling), (27, 0));
        assert_eq!(sbk(std::array::from_fn(|i| i as u64)), (0, 2));
        assert_eq!(sbk(MIXED), (1, 15));
    }

    #[test]
    fn sbk_worked_examples_over_28() {
        let of = |dist: &Dist| sbk_of(dist, &SBK_28_LIST);
        let upto = |n: u64| (1..=n).collect::<Dist>();
        assert_eq!(of(&upto(100)), (5, 1));
        assert_eq!(of(&upto(1_000)), (5, 1));
        assert_eq!(of(&upto(10_000)), (5, 1));
        assert_eq!(of(&upto(10)), (3, 1));
        for flat in [pairs(&[(5, 100)]), pairs(&[(7, 1)]), pairs(&[(0, 100)]), Dist::default()] {
            assert_eq!(of(&flat), (0, 0));
        }
        assert_eq!(of(&pairs(&[(100, 90), (1_000, 10)])), (0, 9));
        assert_eq!(of(&pairs(&[(100, 980), (10_000, 20)])), (0, 99));
        assert_eq!(of(&pairs(&[(100, 30), (110, 30), (300, 30), (2_000, 10)])), (0, 12));
        assert_eq!(of(&pairs(&[(0, 40), (100, 60)])), (0, 0));
    }

    #[test]
    fn sbk_worked_examples_over_other_lists() {
        assert_eq!(sbk_of(&(1..=1_000).collect(), &SBK_21_LIST), (3, 1));
        assert_eq!(sbk_of(&(1..=100).collect(), &list_8()), (3, 1));
        // The row with invalid samples, which SBK leaves out of the percentiles.
        let valid = pairs(&[(10, 3), (20, 4)]);
        assert_eq!(sbk_percentiles(&valid, &list_8()), [10, 10, 20, 20, 20, 20, 20, 20]);
        assert_eq!(sbk_of(&valid, &list_8()), (1, 0));
    }

    #[test]
    fn sbk_selects_by_its_own_rule() {
        let at = |n: u64, p: &str| sbk_percentiles(&(1..=n).collect(), &list(p));
        assert_eq!(at(100, "5 50 90 92.5 99 99.99"), [6, 51, 91, 93, 100, 100]);
        assert_eq!(at(1_000, "5 50 99.75 99.9 99.99"), [51, 501, 998, 1_000, 1_000]);
        assert_eq!(at(1_000, "10 50"), [101, 501]);
        // In exact arithmetic the last would be 10000; the double product is just below 9999.
        assert_eq!(at(10_000, "50 99.9 99.95 99.99"), [5_001, 9_991, 9_996, 9_999]);
        assert_eq!(at(20_000, "99.99"), [19_998]);
        assert_eq!(at(10, "5 10 50 85 90"), [1, 2, 6, 9, 10]);
        assert_eq!(at(100, "10 25 50 75 95 99 99.9 99.99"), [11, 26, 51, 76, 96, 100, 100, 100]);
        let skewed = pairs(&[(100, 30), (110, 30), (300, 30), (2_000, 10)]);
        assert_eq!(sbk_percentiles(&skewed, &list("25 30 60 90")), [100, 110, 300, 2_000]);
    }

    #[test]
    fn sbk_rounding_bites_at_35_and_70_percent() {
        for n in [90u64, 170, 180] {
            let exact_35 = 35 * n / 100;
            let exact_70 = 70 * n / 100;
            let seen = sbk_percentiles(&(0..n).collect(), &list("35 70"));
            let seen: Vec<u64> =
                seen.iter().map(|v| u64::try_from(*v).expect("positive")).collect();
            assert_ne!(seen, [exact_35, exact_70], "n = {n}");
        }
    }

    #[test]
    fn sbk_prints_zero_for_hundred_percent() {
        let dist: Dist = (1..=100).collect();
        assert_eq!(sbk_percentiles(&dist, &list("50 99 100")), [51, 100, 0]);
        assert_eq!(sbk_of(&dist, &list("50 99 100")), (0, 0));
    }

    #[test]
    fn sbk_accepts_any_numbers() {
        assert_eq!(SbkSlc::from_values(&[], 0), SbkSlc::default());
        assert_eq!(SbkSlc::from_values(&[5], 5), SbkSlc::default());
        let wild = SbkSlc::from_values(&[i64::MIN, i64::MAX, i64::MIN, i64::MAX], 1);
        assert_eq!(wild.slc1, 0);
        assert_eq!(sbk_median(&pairs(&[(u64::MAX, 3)])), i64::MAX);
    }
}
