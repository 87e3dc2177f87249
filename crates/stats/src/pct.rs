//! A percentile held exactly.
//!
//! What it is: [`Pct`], a decimal percentage such as `99.999` kept as an integer fraction, so that
//! ranks come from integer arithmetic and the text people typed comes back unchanged. Also the
//! percentile lists Taillight and SBK use. What it is not: a measured value. Everybody who names a
//! percentile uses it: job file, statistics, report.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Most decimals a percentage may have; `100 * 10^17` still fits in 64 bits.
const MAX_DECIMALS: u8 = 17;

/// Powers of ten up to `10^17`.
const POW10: [u64; MAX_DECIMALS as usize + 1] = {
    let mut table = [1u64; MAX_DECIMALS as usize + 1];
    let mut i = 1;
    while i < table.len() {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

/// A percentage above 0 and at most 100, exact, in lowest decimal form.
///
/// The value is `units / 10^decimals` per cent; `units` has no trailing zero when `decimals > 0`,
/// so equal percentages are equal values and print alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pct {
    units: u64,
    decimals: u8,
}

/// Why a text is not a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PctError {
    /// Not digits with at most one decimal point between digits.
    NotDecimal,
    /// Zero, or above 100.
    OutOfRange,
    /// More than 17 significant decimals.
    TooPrecise,
}

impl fmt::Display for PctError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDecimal => "a percentile is a plain decimal number such as 99.9",
            Self::OutOfRange => "a percentile must be above 0 and at most 100",
            Self::TooPrecise => "a percentile has at most 17 decimals",
        })
    }
}

impl std::error::Error for PctError {}

impl Pct {
    /// The median, 50 %.
    pub const MEDIAN: Self = Self::of(50, 0);
    /// 100 %, the maximum. No count of I/Os bounds it from above.
    pub const MAX: Self = Self::of(100, 0);

    /// A literal of this crate's lists; the caller guarantees lowest form and range.
    const fn of(units: u64, decimals: u8) -> Self {
        Self { units, decimals }
    }

    /// The percentile of `k` nines: 90, 99, 99.9, ... for `k` = 1, 2, 3, ...; none outside 1..=18.
    #[must_use]
    pub const fn nines(k: u8) -> Option<Self> {
        match k {
            1 => Some(Self::of(90, 0)),
            2..=17 => Some(Self::of(POW10[k as usize] - 1, k - 2)),
            18 => Some(Self::of(POW10[17] * 10 - 1, 16)),
            _ => None,
        }
    }

    /// The exact share `(numerator, denominator)` of I/Os at or below this percentile.
    #[must_use]
    pub fn fraction(&self) -> (u64, u64) {
        (self.units, 100 * POW10[usize::from(self.decimals)])
    }

    /// The share at or below as a number in (0, 1], correct to rounding.
    #[must_use]
    pub fn share(&self) -> f64 {
        let (num, den) = self.fraction();
        num as f64 / den as f64
    }

    /// The share above, `1 - share`, without the cancellation of that subtraction.
    #[must_use]
    pub fn tail_share(&self) -> f64 {
        let (num, den) = self.fraction();
        (den - num) as f64 / den as f64
    }

    /// The percentage as a binary floating-point number, for axes and for SBK's arithmetic.
    ///
    /// Equal to parsing the decimal text for every percentage of up to 15 digits.
    #[must_use]
    pub fn as_f64(&self) -> f64 {
        self.units as f64 / POW10[usize::from(self.decimals)] as f64
    }

    /// Nearest rank among `n` sorted values: the smallest `k` with `k / n >=` this share.
    ///
    /// Between 1 and `n`; 1 when `n` is 0, for which there is no value.
    #[must_use]
    pub fn rank(&self, n: u64) -> u64 {
        let (num, den) = self.fraction();
        let rank = (u128::from(num) * u128::from(n)).div_ceil(u128::from(den));
        // num <= den, so the rank is at most n.
        u64::try_from(rank).unwrap_or(n).max(1)
    }

    /// Both percentages over the common scale of 17 decimals.
    fn scaled(&self) -> u128 {
        u128::from(self.units) * u128::from(POW10[usize::from(MAX_DECIMALS - self.decimals)])
    }
}

impl FromStr for Pct {
    type Err = PctError;

    fn from_str(text: &str) -> Result<Self, PctError> {
        let (whole, part) = match text.split_once('.') {
            Some((_, "")) => return Err(PctError::NotDecimal),
            Some((whole, part)) => (whole, part),
            None => (text, ""),
        };
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(part) {
            return Err(PctError::NotDecimal);
        }
        let whole = whole.trim_start_matches('0');
        let part = part.trim_end_matches('0');
        if whole.len() > 3 {
            return Err(PctError::OutOfRange);
        }
        let decimals = u8::try_from(part.len()).unwrap_or(u8::MAX);
        if decimals > MAX_DECIMALS {
            return Err(PctError::TooPrecise);
        }
        let mut units: u128 = 0;
        for b in whole.bytes().chain(part.bytes()) {
            units = units * 10 + u128::from(b - b'0');
        }
        let limit = 100 * POW10[usize::from(decimals)];
        match u64::try_from(units) {
            Ok(units) if units > 0 && units <= limit => Ok(Self { units, decimals }),
            _ => Err(PctError::OutOfRange),
        }
    }
}

impl fmt::Display for Pct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = POW10[usize::from(self.decimals)];
        if self.decimals == 0 {
            return f.pad(&self.units.to_string());
        }
        let width = usize::from(self.decimals);
        f.pad(&format!(
            "{}.{:0width$}",
            self.units / scale,
            self.units % scale
        ))
    }
}

impl Ord for Pct {
    fn cmp(&self, other: &Self) -> Ordering {
        self.scaled().cmp(&other.scaled())
    }
}

impl PartialOrd for Pct {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What a report shows unless the job asks otherwise: the body, then two to nine nines.
pub const DEFAULT_LIST: [Pct; 14] = [
    Pct::of(10, 0),
    Pct::of(25, 0),
    Pct::of(50, 0),
    Pct::of(75, 0),
    Pct::of(90, 0),
    Pct::of(95, 0),
    Pct::of(99, 0),
    Pct::of(999, 1),
    Pct::of(9_999, 2),
    Pct::of(99_999, 3),
    Pct::of(999_999, 4),
    Pct::of(9_999_999, 5),
    Pct::of(99_999_999, 6),
    Pct::of(999_999_999, 7),
];

/// The 21 percentiles of the SLC paper and of SBK 0.97.
pub const SBK_21_LIST: [Pct; 21] = [
    Pct::of(10, 0),
    Pct::of(20, 0),
    Pct::of(25, 0),
    Pct::of(30, 0),
    Pct::of(40, 0),
    Pct::of(50, 0),
    Pct::of(60, 0),
    Pct::of(70, 0),
    Pct::of(75, 0),
    Pct::of(80, 0),
    Pct::of(90, 0),
    Pct::of(925, 1),
    Pct::of(95, 0),
    Pct::of(975, 1),
    Pct::of(99, 0),
    Pct::of(9_925, 2),
    Pct::of(995, 1),
    Pct::of(9_975, 2),
    Pct::of(999, 1),
    Pct::of(9_995, 2),
    Pct::of(9_999, 2),
];

/// The 28 percentiles SBK prints by default since 10.x.
pub const SBK_28_LIST: [Pct; 28] = [
    Pct::of(5, 0),
    Pct::of(10, 0),
    Pct::of(15, 0),
    Pct::of(20, 0),
    Pct::of(25, 0),
    Pct::of(30, 0),
    Pct::of(35, 0),
    Pct::of(40, 0),
    Pct::of(45, 0),
    Pct::of(50, 0),
    Pct::of(55, 0),
    Pct::of(60, 0),
    Pct::of(65, 0),
    Pct::of(70, 0),
    Pct::of(75, 0),
    Pct::of(80, 0),
    Pct::of(85, 0),
    Pct::of(90, 0),
    Pct::of(925, 1),
    Pct::of(95, 0),
    Pct::of(975, 1),
    Pct::of(99, 0),
    Pct::of(9_925, 2),
    Pct::of(995, 1),
    Pct::of(9_975, 2),
    Pct::of(999, 1),
    Pct::of(9_995, 2),
    Pct::of(9_999, 2),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pct(text: &str) -> Pct {
        text.parse().expect("valid percentile")
    }

    #[test]
    fn text_comes_back_canonical() {
        for text in [
            "50",
            "99.9",
            "99.999999999",
            "0.5",
            "100",
            "92.5",
            "0.00000000000000001",
        ] {
            assert_eq!(pct(text).to_string(), text);
        }
        assert_eq!(pct("99.90").to_string(), "99.9");
        assert_eq!(pct("050.0").to_string(), "50");
        assert_eq!(pct("99.90"), pct("99.9"));
        assert_eq!(pct("99.01").to_string(), "99.01");
    }

    #[test]
    fn bad_text_is_refused() {
        for text in [
            "", ".", "5.", ".5", "-1", "+5", "1e2", "p99", "99,9", " 9", "9.9.9", "٩",
        ] {
            assert_eq!(text.parse::<Pct>(), Err(PctError::NotDecimal), "{text:?}");
        }
        for text in [
            "0",
            "0.000",
            "100.1",
            "101",
            "100.00000000000000001",
            "99999999999999999999",
        ] {
            assert_eq!(text.parse::<Pct>(), Err(PctError::OutOfRange), "{text:?}");
        }
        assert_eq!(
            "0.000000000000000001".parse::<Pct>(),
            Err(PctError::TooPrecise)
        );
        assert_eq!(
            format!("1.{}", "1".repeat(400)).parse::<Pct>(),
            Err(PctError::TooPrecise)
        );
    }

    #[test]
    fn ranks_are_exact_where_floats_are_not() {
        // 0.9999 * 10000 in binary floating point may land on either side of 9999.
        assert_eq!(pct("99.99").rank(10_000), 9_999);
        assert_eq!(pct("35").rank(180), 63);
        assert_eq!(pct("99.9").rank(1_000), 999);
        assert_eq!(pct("99.9").rank(1_001), 1_000);
        assert_eq!(pct("50").rank(100), 50);
        assert_eq!(pct("0.1").rank(5), 1);
        assert_eq!(pct("50").rank(0), 1);
        assert_eq!(pct("100").rank(u64::MAX), u64::MAX);
        assert_eq!(pct("99.999999999").rank(100_000_000_000), 99_999_999_999);
    }

    #[test]
    fn nines_and_lists_agree_with_their_text() {
        assert_eq!(Pct::nines(0), None);
        assert_eq!(Pct::nines(1).map(|p| p.to_string()).as_deref(), Some("90"));
        assert_eq!(
            Pct::nines(9).map(|p| p.to_string()).as_deref(),
            Some("99.9999999")
        );
        assert_eq!(Pct::nines(18), Some(pct("99.9999999999999999")));
        assert_eq!(Pct::nines(19), None);
        for p in DEFAULT_LIST.iter().chain(&SBK_21_LIST).chain(&SBK_28_LIST) {
            assert_eq!(pct(&p.to_string()), *p, "{p}");
        }
        for list in [&DEFAULT_LIST[..], &SBK_21_LIST, &SBK_28_LIST] {
            assert!(list.windows(2).all(|w| w[0] < w[1]));
        }
        assert_eq!(DEFAULT_LIST.last().copied(), Pct::nines(9));
    }

    #[test]
    fn tail_share_does_not_cancel() {
        assert_eq!(pct("99.9999999").tail_share(), 1e-9);
        assert_eq!(pct("100").tail_share(), 0.0);
        assert_eq!(pct("99.99").as_f64(), 99.99);
    }

    proptest! {
        #[test]
        fn parse_never_panics(text in "\\PC{0,24}") {
            let _ = text.parse::<Pct>();
        }

        #[test]
        fn rank_is_the_smallest_that_covers(units in 1u64..=1_000_000, n in 1u64..1_000_000_000) {
            let p = pct(&format!("{}.{:04}", units / 10_000, units % 10_000));
            let k = p.rank(n);
            let covers = |k: u64| u128::from(k) * 1_000_000 >= u128::from(units) * u128::from(n);
            prop_assert!(k >= 1 && k <= n);
            prop_assert!(covers(k));
            prop_assert!(k == 1 || !covers(k - 1));
        }

        #[test]
        fn rank_is_monotone(a in 1u64..=100_000, b in 1u64..=100_000, n in 0u64..u64::MAX) {
            let p = |u: u64| pct(&format!("{}.{:03}", u / 1000, u % 1000));
            let (lo, hi) = (a.min(b), a.max(b));
            prop_assert!(p(lo).rank(n) <= p(hi).rank(n));
            prop_assert!(p(lo).rank(n) <= p(lo).rank(n + 1));
            prop_assert_eq!(p(lo).cmp(&p(hi)), lo.cmp(&hi));
        }
    }
}
