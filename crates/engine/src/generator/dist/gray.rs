//! YCSB's zipfian: the approximation of Gray et al. ("Quickly Generating Billion-Record Synthetic
//! Databases", SIGMOD 1994), with YCSB's constants and YCSB's way of growing.
//!
//! Kept as YCSB computes it, term by term: the third rank comes 17 % too often, and after growth
//! eta still has the first number of items in it. Results users compare with depend on both. The
//! power is looked up; the item is the same, which a test checks.

use super::super::Rng;
use super::power::{Power, ROWS, WHOLE};
use super::unit;

/// YCSB's exponent; it has no property for another.
pub const YCSB_THETA: f64 = 0.99;

/// Zeta is summed term by term, as YCSB does, up to here; beyond by the Euler-Maclaurin formula,
/// whose error there is far below the rounding error of the long sum.
const SUMMED: u64 = 1 << 21;

/// A zipfian over ranks, item 0 the hottest.
#[derive(Debug, Clone, PartialEq)]
pub struct Gray {
    theta: f64,
    alpha: f64,
    /// zeta(2).
    two: f64,
    /// Where the first two ranks end, `1 + 0.5^theta`.
    first_two: f64,
    /// `1 - (2 / items)^(1 - theta)` with the first number of items.
    spanned: f64,
    eta: f64,
    /// Items that zeta covers.
    counted: u64,
    zeta: f64,
    /// `(1 - first eta * x)^alpha`.
    power: Power,
    first_eta: f64,
    /// Takes `1 - u` to a place in the table: what eta has become of the first one, times its rows.
    scale: f64,
}

impl Gray {
    /// With YCSB's exponent over `0..n`.
    pub fn ycsb(n: u64) -> Gray {
        Gray::with_zeta(n, YCSB_THETA, zeta(0, n, YCSB_THETA, 0.0))
    }

    /// With a zeta known beforehand.
    pub fn with_zeta(n: u64, theta: f64, zeta_n: f64) -> Gray {
        let alpha = 1.0 / (1.0 - theta);
        let two = zeta(0, 2, theta, 0.0);
        let spanned = 1.0 - (2.0 / n as f64).powf(1.0 - theta);
        let eta = spanned / (1.0 - two / zeta_n);
        Gray {
            theta,
            alpha,
            two,
            first_two: 1.0 + 0.5f64.powf(theta),
            spanned,
            eta,
            counted: n,
            zeta: zeta_n,
            power: Power::new(1.0, -eta, alpha),
            first_eta: eta,
            scale: ROWS as f64,
        }
    }

    /// Zeta, alpha and eta, for comparison with YCSB's.
    #[cfg(test)]
    pub fn constants(&self) -> (f64, f64, f64) {
        (self.zeta, self.alpha, self.eta)
    }

    /// Takes new items in. Fewer items are ignored, as YCSB does.
    #[inline]
    pub fn grow(&mut self, items: u64) {
        if items > self.counted {
            self.extend(items);
        }
    }

    // Never inlined: the compiler would move its powers in front of the test and into every draw.
    #[cold]
    #[inline(never)]
    fn extend(&mut self, items: u64) {
        self.zeta = zeta(self.counted, items, self.theta, self.zeta);
        self.counted = items;
        self.eta = self.spanned / (1.0 - self.two / self.zeta);
        // eta falls as items come, so that the first table goes on serving. From one or two items it
        // does not (YCSB's formula breaks down there); NaN sends every draw to `powf` then.
        let part = self.eta / self.first_eta;
        let serves = (0.0..=1.0).contains(&part);
        self.scale = if serves { part * ROWS as f64 } else { f64::NAN };
    }

    /// The item for `u` in [0, 1) among `items`. For u within a rounding error of 1 it may be
    /// `items` itself, as in YCSB; callers redraw.
    #[inline]
    pub fn at(&self, u: f64, items: u64) -> u64 {
        let (power, error) = self.power.at((1.0 - u) * self.scale);
        // Below 2^63, and signed conversions are the cheap ones.
        let place = items as i64 as f64 * power;
        let near = place + WHOLE;
        let off = place - (near - WHOLE);
        // Near a whole number the error could reach it; NaN is doubt, too. What is drawn cannot be
        // predicted, so the first two ranks are selected below, not branched on: only doubt is rare.
        let sure = off.abs() > place * error;
        if !sure {
            return self.by_powf(u, items);
        }
        let item = near.to_bits() - WHOLE.to_bits() - u64::from(off < 0.0);
        let reached = u * self.zeta;
        let head = u64::from(reached >= 1.0);
        if reached < self.first_two { head } else { item }
    }

    /// The same as YCSB computes it: what [`Gray::at`] must give.
    #[cold]
    pub fn by_powf(&self, u: f64, items: u64) -> u64 {
        let reached = u * self.zeta;
        if reached < self.first_two {
            return u64::from(reached >= 1.0);
        }
        (items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64
    }

    /// One item among the `items` there are now.
    #[inline]
    pub fn draw(&mut self, rng: &mut Rng, items: u64) -> u64 {
        self.grow(items);
        self.at(unit(rng), items)
    }
}

/// `sum` plus the terms `from + 1 ..= to` of the zeta series.
pub fn zeta(from: u64, to: u64, theta: f64, sum: f64) -> f64 {
    let summed = to.min(from.saturating_add(SUMMED));
    let sum = (from..summed).fold(sum, |sum, i| sum + 1.0 / ((i + 1) as f64).powf(theta));
    if summed == to {
        return sum;
    }
    let (a, b) = (summed as f64, to as f64);
    let q = 1.0 - theta;
    // The integral of x^-theta from a to b, without cancellation for theta near 1.
    let integral =
        if q == 0.0 { (b / a).ln() } else { a.powf(q) * (q * (b / a).ln()).exp_m1() / q };
    let ends = (b.powf(-theta) - a.powf(-theta)) / 2.0;
    let slopes = theta * (a.powf(-theta - 1.0) - b.powf(-theta - 1.0)) / 12.0;
    sum + integral + ends + slopes
}
