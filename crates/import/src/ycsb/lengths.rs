//! YCSB's zipfian field lengths as weighted sizes: short fields are the most frequent.
//!
//! YCSB draws a length with its zipfian generator (Gray's method, theta 0.99) over the lengths from
//! the shortest to the longest. That generator is a function of one uniform number, so the share of
//! each length is the width of the part of 0..1 that leads to it. Checked against the published
//! shares of the generator.

/// Sum of the weights, nearly: the shares are exact to one part in this.
const WHOLE: f64 = 1e9;
/// YCSB's constant.
const THETA: f64 = 0.99;

/// The share of each of `n` lengths, the shortest first, `n` at least 2.
pub fn shares(n: u32) -> Vec<f64> {
    let items = f64::from(n);
    let zeta: f64 = (1..=n).map(|k| f64::from(k).powf(-THETA)).sum();
    let alpha = 1.0 / (1.0 - THETA);
    let two = 1.0 + 0.5f64.powf(THETA);
    let eta = (1.0 - (2.0 / items).powf(1.0 - THETA)) / (1.0 - two / zeta);
    // Below these the first and the second length are taken; above, a power decides.
    let (first, second) = (1.0 / zeta, two / zeta);
    let begins = |k: u32| {
        let u = ((f64::from(k) / items).powf(1.0 / alpha) - 1.0 + eta) / eta;
        // With two lengths the power is never reached, and is no number.
        if u.is_finite() { u.clamp(second.min(1.0), 1.0) } else { 1.0 }
    };
    let mut shares: Vec<f64> = (0..n).map(|k| begins(k + 1) - begins(k)).collect();
    // The power reaches item 0 only where its own begin is beyond `second`.
    shares[0] = first + (begins(1) - second).max(0.0);
    if let Some(share) = shares.get_mut(1) {
        *share += (second - first).min(1.0 - first);
    }
    shares
}

/// Sizes with whole weights; lengths too rare for a weight are left out.
pub fn weighted(min: u32, max: u32) -> Vec<(u32, u32)> {
    let shares = shares(max - min + 1);
    (min..=max)
        .zip(shares)
        .map(|(size, share)| (size, (share * WHOLE).round() as u32))
        .filter(|(_, weight)| *weight > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_ycsb_s_generator() {
        let shares = shares(1000);
        let percent = |n: usize| shares[n - 1] * 100.0;
        for (n, expected) in [
            (1, 12.938),
            (2, 6.514),
            (3, 5.104),
            (4, 3.634),
            (5, 2.826),
            (10, 1.344),
            (100, 0.1313),
        ] {
            let off = (percent(n) - expected).abs();
            assert!(off < 0.0006, "{n}: {} for {expected}", percent(n));
        }
        let top = |n: usize| shares[..n].iter().sum::<f64>() * 100.0;
        assert!((top(10) - 39.83).abs() < 0.006 && (top(100) - 69.57).abs() < 0.006);
        assert!((top(1000) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn every_length_is_there() {
        let sizes = weighted(1, 100);
        assert_eq!(sizes.len(), 100);
        assert_eq!(sizes[0].0, 1);
        assert!(sizes.windows(2).all(|w| w[0].1 >= w[1].1), "{sizes:?}");
        for n in [2, 3] {
            let sum: f64 = shares(n).iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{n}: {sum}");
        }
    }
}
