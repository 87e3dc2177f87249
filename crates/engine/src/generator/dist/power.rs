//! `(a + b u)^p` for u in [0, 1) without a logarithm: Taylor polynomials over [`ROWS`] equal parts.
//!
//! A row is one cache line: seven terms around the middle of its part, and a bound of the relative
//! error, infinite where the series is of no use (near a zero of `a + b u`). Who needs the very
//! item that `powf` gives asks it whenever the error could reach a whole number. Callers: YCSB's
//! zipfian, Pareto.

/// Parts of [0, 1): 16 KiB, half of a first-level cache.
const ROWS: usize = 256;
/// What rounding may add, relative: in the terms here, and in `powf` of a rounded base with the
/// exponent of 100 that YCSB has (its base is off by 1e-16, the power then by 1e-14).
const ROUNDING: f64 = 1e-12;

/// One part.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
struct Row {
    terms: [f64; 7],
    error: f64,
}

/// A power of a linear function, tabulated.
#[derive(Debug, Clone, PartialEq)]
pub struct Power {
    rows: Box<[Row; ROWS]>,
}

impl Power {
    /// `(a + b u)^p`.
    pub fn new(a: f64, b: f64, p: f64) -> Power {
        let row = |i: usize| {
            let middle = a + b * (i as f64 + 0.5) / ROWS as f64;
            // The part is middle * (1 + step * t) for t in [-1, 1).
            let step = b * 0.5 / ROWS as f64 / middle;
            let mut terms = [middle.powf(p); 7];
            let mut term = terms[0];
            for k in 1..=7 {
                term *= (p - (k - 1) as f64) / k as f64 * step;
                if let Some(place) = terms.get_mut(k) {
                    *place = term;
                }
            }
            // The first term left out, twice: the rest is a small part of it. NaN is no good either.
            let good = step.abs() < 0.05 && (p * step).abs() < 0.3;
            let error = match good {
                true => 2.0 * (term / terms[0]).abs() + ROUNDING,
                false => f64::INFINITY,
            };
            Row { terms, error }
        };
        let mut rows = Box::new([row(0); ROWS]);
        (1..ROWS).for_each(|i| rows[i] = row(i));
        Power { rows }
    }

    /// The power at `u` in [0, 1), and the bound of its relative error.
    #[inline]
    pub fn at(&self, u: f64) -> (f64, f64) {
        let scaled = u * ROWS as f64;
        let i = scaled as i32;
        let Row { terms, error } = self.rows[i as usize % ROWS];
        let t = (scaled - f64::from(i)) * 2.0 - 1.0;
        // In pairs, so that the CPU need not wait for one term after the other.
        let (square, [a, b, c, d, e, f, g]) = (t * t, terms);
        let low = (a + b * t) + (c + d * t) * square;
        let high = (e + f * t) + g * square;
        (low + high * (square * square), error)
    }
}
