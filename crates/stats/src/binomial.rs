//! Binomial tail probabilities and the counts at which they fall below an error probability, accurate for
//! totals up to 1e11 and beyond: the intervals of percentiles and the tests of ceilings rest on them.
//!
//! Sources: C. Loader, "Fast and accurate computation of binomial probabilities" (2000), for the
//! mass function by saddle point, which stays accurate where factorials would cancel; DiDonato and
//! Morris, "Algorithm 708", ACM TOMS 18 (1992), for the continued fraction of the incomplete beta
//! function, evaluated by the modified Lentz method.

use std::f64::consts::PI;

use statrs::function::gamma::ln_gamma;

/// Iterations after which the continued fraction is taken as it stands. In the tails searched here
/// some hundred suffice; only points next to the mean of a huge sample come near.
const MAX_ITERATIONS: u32 = 2_000_000;

/// A success probability together with its complement, so that neither is lost to cancellation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    /// Probability that one trial counts.
    pub yes: f64,
    /// `1 - yes`, given rather than subtracted.
    pub no: f64,
}

impl Chance {
    pub fn flipped(self) -> Self {
        Self { yes: self.no, no: self.yes }
    }

    /// The natural logarithm of `yes`, accurate also when `yes` is nearly 1.
    pub fn ln_yes(self) -> f64 {
        if self.no < 0.5 { (-self.no).ln_1p() } else { self.yes.ln() }
    }
}

/// Probability of `k` or more successes in `n` trials.
///
/// Both may be fractions (counts divided by a design effect): the incomplete beta function
/// `I_x(k, n - k + 1)` is continuous in them.
pub(crate) fn upper_tail(n: f64, k: f64, chance: Chance) -> f64 {
    if k <= 0.0 {
        return 1.0;
    }
    if k > n || chance.yes <= 0.0 {
        return 0.0;
    }
    if chance.no <= 0.0 {
        return 1.0;
    }
    let (hits, misses) = (k, n - k + 1.0);
    if k > (n + 1.0) * chance.yes {
        beta_tail(hits, misses, chance)
    } else {
        // P(successes >= k) = 1 - P(failures >= n - k + 1), whose point lies beyond its mean.
        1.0 - beta_tail(misses, hits, chance.flipped())
    }
}

/// The smallest `k` in `1..=n` with `P(successes >= k) <= alpha`; none when even `k = n` is
/// likelier, and for no trials.
///
/// `alpha` must be below one half.
pub(crate) fn critical_count(n: u64, chance: Chance, alpha: f64) -> Option<u64> {
    if n == 0 || !all_can_reach(n, chance, alpha) {
        return None;
    }
    // At or below floor(n * yes), a median of the count, the tail is at least one half.
    let mut below = ((n as f64 * chance.yes) as u64).min(n - 1);
    let mut enough = n;
    let hit = |k: u64| k == n || upper_tail(n as f64, k as f64, chance) <= alpha;
    let mut step = 1u64;
    let mut probe = normal_guess(n, chance, alpha).clamp(below + 1, n);
    // Gallop away from the guess until the answer is bracketed, then halve the bracket.
    if hit(probe) {
        enough = probe;
        while enough - below > 1 {
            probe = enough.saturating_sub(step).max(below + 1);
            if hit(probe) {
                enough = probe;
                step = step.saturating_mul(2);
            } else {
                below = probe;
                break;
            }
        }
    } else {
        below = probe;
        while enough - below > 1 {
            probe = below.saturating_add(step).min(n);
            if hit(probe) {
                enough = probe;
                break;
            }
            below = probe;
            step = step.saturating_mul(2);
        }
    }
    while enough - below > 1 {
        let middle = below + (enough - below) / 2;
        if hit(middle) {
            enough = middle;
        } else {
            below = middle;
        }
    }
    Some(enough)
}

/// Whether `n` successes in `n` trials have probability `alpha` or less.
pub(crate) fn all_can_reach(n: u64, chance: Chance, alpha: f64) -> bool {
    n as f64 * chance.ln_yes() <= alpha.ln()
}

/// A first guess of the critical count: normal quantile with the Cornish-Fisher skewness term.
fn normal_guess(n: u64, chance: Chance, alpha: f64) -> u64 {
    let mean = n as f64 * chance.yes;
    let sd = (mean * chance.no).sqrt();
    let z = upper_normal_quantile(alpha);
    let skew = (chance.no - chance.yes) * (z * z - 1.0) / 6.0;
    (mean + z * sd + skew + 0.5).ceil().max(0.0) as u64
}

/// A rough upper quantile of the normal distribution (Abramowitz and Stegun, 26.2.22); only steers the
/// first probe, so its error costs probes and no accuracy.
fn upper_normal_quantile(alpha: f64) -> f64 {
    let t = (-2.0 * alpha.ln()).sqrt();
    t - (2.307_53 + 0.270_61 * t) / (1.0 + t * (0.992_29 + 0.044_81 * t))
}

/// `I_x(a, b)` for `x` at or below the mean `a / (a + b)`: its front factor over a continued fraction.
fn beta_tail(a: f64, b: f64, chance: Chance) -> f64 {
    let (x, y) = (chance.yes, chance.no);
    if b == 1.0 {
        return (a * chance.ln_yes()).exp();
    }
    (front(a, b, chance) / beta_fraction(a, b, x, y)).min(1.0)
}

/// `x^a y^b / B(a, b)`: through the mass function for `b` above 2 and `a` of 1 or more, else by `ln_gamma`.
fn front(a: f64, b: f64, chance: Chance) -> f64 {
    let (n, k) = (a + b - 1.0, a);
    if b > 2.0 && k >= 1.0 {
        return mass(n, k, chance) * a * chance.no;
    }
    let log = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    (log + a * chance.ln_yes() + b * chance.flipped().ln_yes()).exp()
}

/// The denominator `f` in `I_x(a, b) = x^a y^b / (B(a, b) f)`, by the modified Lentz method.
fn beta_fraction(a: f64, b: f64, x: f64, y: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |v: f64| if v.abs() < TINY { TINY } else { v };
    let lambda = a * y - b * x;
    let mut f = guard(a * (lambda + 1.0) / (a + 1.0));
    let mut c = f;
    let mut d = 0.0;
    for m in 1..=MAX_ITERATIONS {
        let m = f64::from(m);
        let odd = a + 2.0 * m;
        let ratio = m * (b - m) * x / (odd - 1.0);
        let numerator = (a + m - 1.0) / (odd - 1.0) * (a + b + m - 1.0) * ratio * x;
        let denominator = m + ratio + (a + m) * (lambda + 1.0 + m * (1.0 + y)) / (odd + 1.0);
        d = 1.0 / guard(denominator + numerator * d);
        c = guard(denominator + numerator / c);
        let change = c * d;
        f *= change;
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    f
}

/// Probability of exactly `k` successes, `0 < k < n`; also for fractions.
fn mass(n: f64, k: f64, chance: Chance) -> f64 {
    let rest = n - k;
    let log = stirling_error(n)
        - stirling_error(k)
        - stirling_error(rest)
        - deviance(k, n * chance.yes)
        - deviance(rest, n * chance.no);
    (log - 0.5 * (2.0 * PI * k * (rest / n)).ln()).exp()
}

/// `ln x!` minus Stirling's `ln(sqrt(2 pi x) (x/e)^x)`, for `x` above 0.
fn stirling_error(x: f64) -> f64 {
    if x <= 15.0 {
        let factorial = match x.fract() == 0.0 {
            true => (2..=x as u32).map(f64::from).product::<f64>().ln(),
            false => ln_gamma(x + 1.0),
        };
        return factorial - (x + 0.5) * x.ln() + x - 0.5 * (2.0 * PI).ln();
    }
    let s = 1.0 / (x * x);
    let terms =
        1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0)));
    terms / x
}

/// `x ln(x/m) + m - x`, without cancellation when `x` is near `m`.
fn deviance(x: f64, m: f64) -> f64 {
    let gap = x - m;
    if gap.abs() >= 0.1 * (x + m) {
        return x * (x / m).ln() - gap;
    }
    // With v = (x - m)/(x + m): ln(x/m) = 2 (v + v^3/3 + v^5/5 + ...).
    let v = gap / (x + m);
    let square = v * v;
    let mut sum = gap * v;
    let mut term = 2.0 * x * v;
    let mut odd = 1.0;
    loop {
        term *= square;
        odd += 2.0;
        let next = sum + term / odd;
        if next == sum || odd > 100.0 {
            return next;
        }
        sum = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chance(yes: f64) -> Chance {
        Chance { yes, no: 1.0 - yes }
    }

    /// Adds the masses by their recurrence; slow, independent of the routine under test.
    fn naive_upper_tail(n: u64, k: u64, yes: f64) -> f64 {
        let mut masses = vec![1.0f64];
        for _ in 0..n {
            let mut next = vec![0.0; masses.len() + 1];
            for (i, m) in masses.iter().enumerate() {
                next[i] += m * (1.0 - yes);
                next[i + 1] += m * yes;
            }
            masses = next;
        }
        masses[k as usize..].iter().sum()
    }

    #[test]
    fn tails_equal_repeated_convolution() {
        for n in [1u64, 2, 5, 17, 60] {
            for yes in [0.001, 0.1, 0.37, 0.5, 0.9, 0.999] {
                for k in 0..=n {
                    let (a, b) =
                        (upper_tail(n as f64, k as f64, chance(yes)), naive_upper_tail(n, k, yes));
                    assert!((a - b).abs() <= 1e-12 * b + 1e-15, "n {n} k {k} p {yes}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn huge_samples_approach_the_normal_tail() {
        // P(Z > 1.959963985) = 0.025; without a half-step correction the error is of order 1/sqrt(n), here 2e-7.
        let n = 100_000_000_000u64;
        let sd = (n as f64 / 4.0).sqrt();
        let k = n / 2 + (1.959_963_985 * sd) as u64;
        let tail = upper_tail(n as f64, k as f64, chance(0.5));
        assert!((tail - 0.025).abs() < 1e-6, "{tail}");
    }

    #[test]
    fn fractions_lie_between_whole_numbers_as_the_beta_function_has_them() {
        for n in [0.3, 1.0, 2.5, 40.25, 3_000.7] {
            for k in [0.01, 0.4, 1.0, 1.7, 2.0, 12.3, n - 0.9, n - 0.3, n] {
                for yes in [0.0005, 0.2, 0.5, 0.93, 0.9999] {
                    if !(k > 0.0 && k <= n) {
                        continue;
                    }
                    let wanted = statrs::function::beta::beta_reg(k, n - k + 1.0, yes);
                    let got = upper_tail(n, k, chance(yes));
                    assert!((got - wanted).abs() <= 1e-9 * wanted + 1e-12, "{n} {k} {yes}");
                }
            }
        }
    }

    #[test]
    fn edges_are_defined() {
        assert_eq!(upper_tail(10.0, 0.0, chance(0.5)), 1.0);
        assert_eq!(upper_tail(10.0, 11.0, chance(0.5)), 0.0);
        assert_eq!(upper_tail(10.0, 1.0, chance(0.0)), 0.0);
        assert_eq!(upper_tail(10.0, 10.0, chance(1.0)), 1.0);
        assert_eq!(critical_count(0, chance(0.5), 0.025), None);
        assert_eq!(critical_count(5, chance(0.5), 0.025), None);
        assert_eq!(critical_count(6, chance(0.5), 0.025), Some(6));
        assert_eq!(critical_count(6, chance(0.0), 0.025), Some(1));
    }

    proptest! {
        #[test]
        fn critical_count_is_where_the_tail_crosses(
            n in 1u64..5_000_000_000, exponent in 0.01f64..9.0, flip: bool, alpha in 0.001f64..0.2,
        ) {
            let tail = 10f64.powf(-exponent);
            let rare = Chance { yes: tail, no: 1.0 - tail };
            let c = if flip { rare.flipped() } else { rare };
            match critical_count(n, c, alpha) {
                Some(k) => {
                    prop_assert!(k >= 1 && k <= n);
                    prop_assert!(upper_tail(n as f64, k as f64, c) <= alpha * (1.0 + 1e-9));
                    prop_assert!(upper_tail(n as f64, k as f64 - 1.0, c) > alpha * (1.0 - 1e-9));
                }
                None => prop_assert!(upper_tail(n as f64, n as f64, c) > alpha * (1.0 - 1e-9)),
            }
        }
    }
}
