//! `(a + b x)^p` without a logarithm: Taylor polynomials around [`ROWS`] + 1 evenly spaced points.
//!
//! A row is one cache line: seven terms around its point, and a bound of the relative error,
//! infinite where the series is of no use (near a zero of `a + b x`). A caller that needs exactly the item
//! that `powf` gives calls `powf` wherever the error could reach a whole number. Callers: YCSB's zipfian,
//! Pareto.

/// Rows for x from 0 to 1: 16 KiB, half of a first-level cache.
pub const ROWS: usize = 256;
/// Room for indices: the first power of two above the last row, so that none needs a check.
const ROOM: usize = 2 * ROWS;
/// Added to a double from 0 to 2^51, rounds it to a whole number, which then stands in the low
/// bits. Much cheaper than a conversion that has to answer for all doubles.
pub const WHOLE: f64 = (1u64 << 52) as f64;
/// What rounding may add, relative: in the terms here, and in `powf` of a rounded base with the
/// exponent of 100 that YCSB has (its base is off by 1e-16, the power then by 1e-14).
const ROUNDING: f64 = 1e-12;

/// What belongs to one point.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
struct TaylorRow {
    terms: [f64; 7],
    error: f64,
}

/// A power of a linear function, tabulated.
#[derive(Debug, Clone, PartialEq)]
pub struct Power {
    rows: Box<[TaylorRow; ROOM]>,
}

impl Power {
    /// `(a + b x)^p`.
    pub fn new(a: f64, b: f64, p: f64) -> Power {
        let row = |i: usize| {
            let middle = a + b * i as f64 / ROWS as f64;
            // Around the point it is middle * (1 + step * t) for t in [-1/2, 1/2].
            let step = b / ROWS as f64 / middle;
            let mut terms = [middle.powf(p); 7];
            let mut term = terms[0];
            for k in 1..=7 {
                term *= (p - (k - 1) as f64) / k as f64 * step;
                if let Some(place) = terms.get_mut(k) {
                    *place = term;
                }
            }
            // The first term left out, twice: the rest is a small part of it. NaN is no good either.
            let good = step.abs() < 0.1 && (p * step).abs() < 0.6;
            let error = match good {
                true => 2.0 * (term * 0.5f64.powi(7) / terms[0]).abs() + ROUNDING,
                false => f64::INFINITY,
            };
            TaylorRow { terms, error }
        };
        let none = TaylorRow { terms: [0.0; 7], error: f64::INFINITY };
        let mut rows = Box::new([none; ROOM]);
        (0..=ROWS).for_each(|i| rows[i] = row(i));
        Power { rows }
    }

    /// The power at `x = scaled / ROWS` in [0, 1], and the bound of its relative error. NaN gives
    /// NaN.
    #[inline]
    pub fn at(&self, scaled: f64) -> (f64, f64) {
        let near = scaled + WHOLE;
        let TaylorRow { terms, error } = &self.rows[near.to_bits() as usize % ROOM];
        let t = scaled - (near - WHOLE);
        // In pairs, so that the CPU need not wait for one term after the other.
        let (square, [a, b, c, d, e, f, g]) = (t * t, *terms);
        let low = (a + b * t) + (c + d * t) * square;
        let high = (e + f * t) + g * square;
        (low + high * (square * square), *error)
    }
}
