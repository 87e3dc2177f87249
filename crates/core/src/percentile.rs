//! [`Percentile`]: a decimal percentage such as `99.999`, kept as an exact integer fraction, so that ranks
//! come from integer arithmetic and its text is the decimal that was typed, without superfluous zeros.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::units::as_text;

/// Most decimals a percentage may have; `100 * 10^17` still fits in 64 bits.
const MAX_DECIMALS: u8 = 17;

/// Most decimals in a job file: nine nines are as deep as a report goes.
const MAX_ASKED_DECIMALS: u8 = 9;

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
pub struct Percentile {
    units: u64,
    decimals: u8,
}

/// Why a text is not a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PercentileError {
    /// Not digits with at most one decimal point between digits.
    NotDecimal,
    /// Zero, or above 100.
    OutOfRange,
    /// More than 17 significant decimals.
    TooPrecise,
}

impl fmt::Display for PercentileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDecimal => "a percentile is a plain decimal number such as 99.9",
            Self::OutOfRange => "a percentile must be above 0 and at most 100",
            Self::TooPrecise => "a percentile has at most 17 decimals",
        })
    }
}

impl std::error::Error for PercentileError {}

impl Percentile {
    /// The median, 50 %.
    pub const MEDIAN: Self = Self::of(50, 0);
    /// 100 %, the maximum. No count of I/Os bounds it from above.
    pub const MAX: Self = Self::of(100, 0);

    /// Lowest form and range are the caller's duty.
    const fn of(units: u64, decimals: u8) -> Self {
        Self { units, decimals }
    }

    /// `n` hundredths of a per cent, for lists of constants: 9,950 is 99.5 %.
    ///
    /// # Panics
    /// Outside 1 to 10,000, when the constant is compiled.
    #[must_use]
    pub const fn hundredths(n: u64) -> Self {
        assert!(n > 0 && n <= 10_000, "not a percentile");
        match (n % 100, n % 10) {
            (0, _) => Self::of(n / 100, 0),
            (_, 0) => Self::of(n / 10, 1),
            _ => Self::of(n, 2),
        }
    }

    /// Reads what a job asks for: between 0 and 100, both excluded, with up to nine decimals.
    pub fn asked(text: &str) -> Result<Self, String> {
        match text.parse::<Self>() {
            Ok(Self::MAX) | Err(PercentileError::NotDecimal | PercentileError::OutOfRange) => {
                Err(format!(
                    "`{text}` is not a percentile; write a number between 0 and 100, like \"99.9\""
                ))
            }
            Ok(p) if p.decimals <= MAX_ASKED_DECIMALS => Ok(p),
            Ok(_) | Err(PercentileError::TooPrecise) => {
                Err(format!("`{text}` has more than {MAX_ASKED_DECIMALS} decimals"))
            }
        }
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

    /// The percentage in units of 10^-17 per cent, to compare two.
    fn scaled(&self) -> u128 {
        u128::from(self.units) * u128::from(POW10[usize::from(MAX_DECIMALS - self.decimals)])
    }
}

impl FromStr for Percentile {
    type Err = PercentileError;

    fn from_str(text: &str) -> Result<Self, PercentileError> {
        let (whole, part) = match text.split_once('.') {
            Some((_, "")) => return Err(PercentileError::NotDecimal),
            Some((whole, part)) => (whole, part),
            None => (text, ""),
        };
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(part) {
            return Err(PercentileError::NotDecimal);
        }
        let whole = whole.trim_start_matches('0');
        let part = part.trim_end_matches('0');
        if whole.len() > 3 {
            return Err(PercentileError::OutOfRange);
        }
        let decimals = u8::try_from(part.len()).unwrap_or(u8::MAX);
        if decimals > MAX_DECIMALS {
            return Err(PercentileError::TooPrecise);
        }
        let mut units: u128 = 0;
        for b in whole.bytes().chain(part.bytes()) {
            units = units * 10 + u128::from(b - b'0');
        }
        let limit = 100 * POW10[usize::from(decimals)];
        match u64::try_from(units) {
            Ok(units) if units > 0 && units <= limit => Ok(Self { units, decimals }),
            _ => Err(PercentileError::OutOfRange),
        }
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = POW10[usize::from(self.decimals)];
        if self.decimals == 0 {
            return f.pad(&self.units.to_string());
        }
        let width = usize::from(self.decimals);
        f.pad(&format!("{}.{:0width$}", self.units / scale, self.units % scale))
    }
}

as_text!(
    Percentile,
    "Percentile",
    "a percentile as text, like \"99.9\"",
    r"^[0-9]{1,2}(\.[0-9]{1,9})?$",
    Percentile::asked,
    None
);

impl Ord for Percentile {
    fn cmp(&self, other: &Self) -> Ordering {
        self.scaled().cmp(&other.scaled())
    }
}

impl PartialOrd for Percentile {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pct(text: &str) -> Percentile {
        text.parse().expect("valid percentile")
    }

    #[test]
    fn text_comes_back_canonical() {
        for text in ["50", "99.9", "99.999999999", "0.5", "100", "92.5", "0.00000000000000001"] {
            assert_eq!(pct(text).to_string(), text);
        }
        assert_eq!(pct("99.90").to_string(), "99.9");
        assert_eq!(pct("050.0").to_string(), "50");
        assert_eq!(pct("99.90"), pct("99.9"));
        assert_eq!(pct("99.01").to_string(), "99.01");
    }

    #[test]
    fn bad_text_is_refused() {
        for text in ["", ".", "5.", ".5", "-1", "+5", "1e2", "p99", "99,9", " 9", "9.9.9", "٩"] {
            assert_eq!(text.parse::<Percentile>(), Err(PercentileError::NotDecimal), "{text:?}");
        }
        for text in ["0", "0.000", "100.1", "101", "100.00000000000000001", "99999999999999999999"]
        {
            assert_eq!(text.parse::<Percentile>(), Err(PercentileError::OutOfRange), "{text:?}");
        }
        assert_eq!("0.000000000000000001".parse::<Percentile>(), Err(PercentileError::TooPrecise));
        assert_eq!(
            format!("1.{}", "1".repeat(400)).parse::<Percentile>(),
            Err(PercentileError::TooPrecise)
        );
    }

    #[test]
    fn jobs_ask_between_0_and_100_with_up_to_nine_decimals() {
        for (given, kept) in [("99.90", "99.9"), ("50", "50"), ("05.0", "5"), ("0.1", "0.1")] {
            assert_eq!(Percentile::asked(given).map(|p| p.to_string()).as_deref(), Ok(kept));
        }
        for bad in ["0", "100", "100.0", "-1", "99.", ".9", "p99", "", "1e1", "0.0"] {
            let refusal = Percentile::asked(bad).unwrap_err();
            assert!(refusal.starts_with(&format!("`{bad}` is not a percentile")), "{refusal}");
        }
        for deep in ["99.9999999999", "1.0000000000000000001"] {
            let refusal = Percentile::asked(deep).unwrap_err();
            assert_eq!(refusal, format!("`{deep}` has more than 9 decimals"));
        }
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
    fn nines_and_hundredths_agree_with_their_text() {
        assert_eq!(Percentile::nines(0), None);
        assert_eq!(Percentile::nines(1).map(|p| p.to_string()).as_deref(), Some("90"));
        assert_eq!(Percentile::nines(9).map(|p| p.to_string()).as_deref(), Some("99.9999999"));
        assert_eq!(Percentile::nines(18), Some(pct("99.9999999999999999")));
        assert_eq!(Percentile::nines(19), None);
        for (n, text) in
            [(5, "0.05"), (50, "0.5"), (9_900, "99"), (9_925, "99.25"), (9_950, "99.5")]
        {
            assert_eq!(Percentile::hundredths(n), pct(text));
        }
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
            let _ = text.parse::<Percentile>();
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
