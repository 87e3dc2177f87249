//! Which item of many: the distributions behind block positions and key numbers, as seeded draws over `0..n`, or
//! over a space that grows from there. Adding one: a file here, a line in [`DistributionSpec`], a line in
//! `DistributionKind` and its arms, a line in `keyed::dist`. What the items are (offsets, keys) is the generator's.
//!
//! Numbers above 2^53 are reached by the integer distributions (uniform, Zipf, hot spot, zoned);
//! those that scale a double (Pareto, normal, YCSB's) have its 53 bits of resolution.

pub mod alias;
mod exponential;
mod gray;
mod hotspot;
mod latest;
mod lengths;
mod normal;
mod pareto;
mod power;
mod scrambled;
mod uniform;
mod zipf;
mod zoned;

use rand::Rng as _;
use taillight_core::{Error, Result};

use super::Rng;
use super::permute::{Permutation, below};
use exponential::Exponential;
pub use gray::Gray;
use hotspot::Hotspot;
use latest::Latest;
pub use lengths::ScanLengths;
use normal::Normal;
use pareto::Pareto;
use scrambled::Scrambled;
use uniform::Uniform;
use zipf::Zipf;
pub use zoned::ZoneShare;
use zoned::Zoned;

/// What a shape answers when its draw fell outside the space: above every item.
const OUTSIDE: u64 = u64::MAX;

/// Largest number of items: room for sums in 64 bits.
const MOST_ITEMS: u64 = 1 << 62;

/// Redraws in a row before a draw falls back to uniform over what exists. Reached when almost nothing that
/// the distribution draws exists yet.
const MOST_REDRAWS: u32 = 4096;

/// A distribution as asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum DistributionSpec {
    Uniform,
    /// Rank k (from 1) in proportion to `k^-theta`, exact; item 0 is the hottest.
    Zipf {
        /// The exponent, above 0; 1 and more are allowed.
        theta: f64,
    },
    /// YCSB's zipfian: Gray's approximation, theta 0.99, item 0 hottest; grows with the space.
    YcsbZipfian,
    /// YCSB's `requestdistribution=zipfian`: a zipfian over 10^10 ranks, hashed onto the keys.
    YcsbScrambled {
        /// Keys the run is expected to add: YCSB takes 2 x operations x share of inserts.
        new_keys: u64,
    },
    /// YCSB's latest: a zipfian distance back from the newest key.
    Latest,
    /// The first items get a fixed share of the draws, the others the rest.
    Hotspot {
        /// Share of the items that is hot, in (0, 1].
        data: f64,
        /// Share of the draws that goes there, in (0, 1].
        ops: f64,
    },
    /// YCSB's exponential: an exponential distance back from the newest key.
    Exponential {
        /// This share of the draws, percent, between 0 and 100 ...
        percentile: f64,
        /// ... falls into this newest share of the items, in (0, 1].
        frac: f64,
    },
    /// fio's pareto: a share `h` of the items gets `1 - h` of the draws, at every scale.
    Pareto {
        /// Between 0 and 1; 0.2 is the 80/20 rule.
        h: f64,
    },
    /// Normal around a place; draws outside the space are redrawn.
    Normal {
        /// Where the middle is, as a share of the space, 0 to 1.
        centre: f64,
        /// Standard deviation as a share of the space, 1e-12 to 1.
        deviation: f64,
    },
    /// fio's zoned: ranges one after the other, each with its share of the draws.
    Zoned(Vec<ZoneShare>),
}

/// Every distribution, ready to draw: the one visible list.
#[derive(Debug, Clone)]
enum DistributionKind {
    Uniform(Uniform),
    Zipf(Zipf),
    Gray(Gray),
    Scrambled(Scrambled),
    Latest(Latest),
    Hotspot(Hotspot),
    Exponential(Exponential),
    Pareto(Pareto),
    Normal(Normal),
    Zoned(Zoned),
}

/// A seeded source of item numbers. One per worker.
#[derive(Debug, Clone)]
pub struct ItemDistribution {
    shape: DistributionKind,
    spread: Option<Permutation>,
    /// No item above this, whatever exists: the last of a fixed space, or 2^62 where the space grows.
    top: u64,
    redrawn: u64,
}

impl ItemDistribution {
    /// The distribution `spec` over `0..n`. Errors: `Usage` when n is 0 or above 2^62, or a
    /// parameter makes no sense.
    pub fn new(spec: &DistributionSpec, n: u64) -> Result<ItemDistribution> {
        if n == 0 || n > MOST_ITEMS {
            return Err(Error::usage("a distribution needs between 1 and 2^62 items")
                .with("items", n)
                .hint("make the extent or the number of records larger (or smaller)"));
        }
        let shape = match spec {
            DistributionSpec::Uniform => DistributionKind::Uniform(Uniform::new(n)),
            DistributionSpec::Zipf { theta } => DistributionKind::Zipf(Zipf::new(n, *theta)?),
            DistributionSpec::YcsbZipfian => DistributionKind::Gray(Gray::ycsb(n)),
            DistributionSpec::YcsbScrambled { new_keys } => {
                DistributionKind::Scrambled(Scrambled::new(n, *new_keys))
            }
            DistributionSpec::Latest => DistributionKind::Latest(Latest::new(n)),
            DistributionSpec::Hotspot { data, ops } => {
                DistributionKind::Hotspot(Hotspot::new(n, *data, *ops)?)
            }
            DistributionSpec::Exponential { percentile, frac } => {
                DistributionKind::Exponential(Exponential::new(n, *percentile, *frac)?)
            }
            DistributionSpec::Pareto { h } => DistributionKind::Pareto(Pareto::new(n, *h)?),
            DistributionSpec::Normal { centre, deviation } => {
                DistributionKind::Normal(Normal::new(n, *centre, *deviation)?)
            }
            DistributionSpec::Zoned(zones) => DistributionKind::Zoned(Zoned::new(n, zones)?),
        };
        let top = match &shape {
            DistributionKind::Gray(_)
            | DistributionKind::Latest(_)
            | DistributionKind::Exponential(_) => MOST_ITEMS,
            DistributionKind::Scrambled(s) => s.items() - 1,
            _ => n - 1,
        };
        Ok(ItemDistribution { shape, spread: None, top, redrawn: 0 })
    }

    /// The same popularity, the hot items scattered over the space in an order named by `key`.
    /// Errors: `Usage` for YCSB's zipfian, scrambled, latest and exponential, which grow or scatter by themselves.
    pub fn spread(mut self, key: u64) -> Result<ItemDistribution> {
        let fixed = !matches!(
            self.shape,
            DistributionKind::Gray(_)
                | DistributionKind::Scrambled(_)
                | DistributionKind::Latest(_)
                | DistributionKind::Exponential(_)
        );
        if !fixed {
            return Err(Error::usage("this distribution cannot be spread: its space grows").hint(
                "use zipf, pareto, normal, hotspot or zoned; \
                     YCSB's scrambled zipfian is spread already",
            ));
        }
        self.spread = Some(Permutation::new(self.top + 1, key));
        Ok(self)
    }

    /// One item, at most `last`: the highest item that exists now (n - 1 for a fixed space, the
    /// last acknowledged key for a growing one). Draws above it are redrawn and counted; after `MOST_REDRAWS` of
    /// them the item is a uniform one.
    #[inline]
    pub fn draw(&mut self, rng: &mut Rng, last: u64) -> u64 {
        let limit = last.min(self.top);
        let item = self.raw(rng, limit);
        if item <= limit {
            return item;
        }
        self.again(rng, limit)
    }

    /// Redraws after a miss. Apart from the first draw, so that the caller's loop stays small.
    #[cold]
    #[inline(never)]
    fn again(&mut self, rng: &mut Rng, limit: u64) -> u64 {
        for _ in 0..MOST_REDRAWS {
            self.redrawn += 1;
            let item = self.raw(rng, limit);
            if item <= limit {
                return item;
            }
        }
        below(rng.next_u64(), limit + 1)
    }

    /// Draws thrown away so far because they fell outside what exists.
    pub fn redrawn(&self) -> u64 {
        self.redrawn
    }

    // Always: called twice, it would otherwise be a function of its own, which costs each draw a
    // nanosecond and more.
    #[inline(always)]
    fn raw(&mut self, rng: &mut Rng, last: u64) -> u64 {
        let item = match &mut self.shape {
            // Uniform below n, redrawn above `last`, is uniform up to `last`; not so when spread.
            DistributionKind::Uniform(_) if self.spread.is_none() => {
                below(rng.next_u64(), last + 1)
            }
            DistributionKind::Uniform(d) => d.draw(rng),
            DistributionKind::Zipf(d) => d.draw(rng),
            DistributionKind::Gray(d) => d.draw(rng, last + 1),
            DistributionKind::Scrambled(d) => d.draw(rng),
            DistributionKind::Latest(d) => d.draw(rng, last),
            DistributionKind::Hotspot(d) => d.draw(rng),
            DistributionKind::Exponential(d) => d.draw(rng, last),
            DistributionKind::Pareto(d) => d.draw(rng),
            DistributionKind::Normal(d) => d.draw(rng),
            DistributionKind::Zoned(d) => d.draw(rng),
        };
        match &self.spread {
            Some(order) if item <= self.top => order.at(item),
            _ => item,
        }
    }
}

/// A double in [0, 1) of 53 random bits: what Java's `nextDouble` gives, too.
#[inline]
pub(super) fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

fn share(name: &'static str, value: f64) -> Result<f64> {
    if value > 0.0 && value <= 1.0 {
        return Ok(value);
    }
    Err(Error::usage("a share must be above 0 and at most 1")
        .with(name, value)
        .hint("write 0.2 for 20 %"))
}

#[cfg(test)]
mod tests;
