//! Draws block sizes: fixed, weighted, a range of multiples of a step, log-uniform, or from a histogram that
//! was read when the job was resolved.

use rand::Rng as _;
use taillight_core::plan::{BlockSize, SizeSpread};
use taillight_core::{Error, OpKind, Result};

use super::dist::alias::Alias;
use super::dist::unit;
use super::permute::below;

/// Up to so many sizes are searched one by one, more through a table.
const FEW: usize = 16;

/// Draws block sizes, bytes.
#[derive(Debug, Clone)]
pub enum Sizes {
    Fixed(u64),
    /// Cumulative bounds of 2^32 and sizes.
    Split(Vec<(u64, u64)>),
    /// `min + step * k`, k below `count`.
    Range {
        min: u64,
        step: u64,
        count: u64,
    },
    /// `min + step * k`, k below `count`, as likely as its step is wide on a logarithmic scale.
    Log {
        /// Smallest, at least 1.
        min: u64,
        step: u64,
        count: u64,
        /// `ln((largest + step) / min)`.
        span: f64,
    },
    /// Sizes with weights, many of them.
    Table {
        choice: Alias,
        sizes: Box<[u64]>,
    },
    /// Each operation's own.
    ByOp(Box<[(OpKind, Sizes)]>),
}

impl Sizes {
    /// From the plan. Errors: `Usage` for sizes that cannot be drawn from, and for a size that comes twice among more
    /// than 16 weighted ones.
    pub fn new(plan: &BlockSize) -> Result<Sizes> {
        Ok(match plan {
            BlockSize::Fixed(b) => Sizes::Fixed(b.0),
            BlockSize::Split(parts) if parts.len() > FEW => {
                let parts: Vec<_> = parts.iter().map(|p| (p.size.0, p.weight.into())).collect();
                return Sizes::table(&parts);
            }
            BlockSize::Split(parts) => {
                let total: u64 = parts.iter().map(|p| u64::from(p.weight)).sum();
                let mut sum = 0u64;
                let bounds = parts.iter().map(|p| {
                    sum += u64::from(p.weight);
                    (((u128::from(sum) << 32) / u128::from(total.max(1))) as u64, p.size.0)
                });
                Sizes::Split(bounds.collect())
            }
            BlockSize::Range(r) if r.spread == SizeSpread::Log => {
                return Sizes::log_uniform(r.min.0, r.max.0, r.step.0);
            }
            BlockSize::ByOp(sizes) => {
                let own = sizes.iter().map(|(op, of)| Ok((*op, Sizes::new(of)?)));
                Sizes::ByOp(own.collect::<Result<_>>()?)
            }
            BlockSize::Range(r) => Sizes::Range {
                min: r.min.0,
                step: r.step.0,
                count: (r.max.0 - r.min.0) / r.step.0.max(1) + 1,
            },
        })
    }

    /// Log-uniform from `min` to `max`: each octave is as likely as any other. Sizes are
    /// `min + step * k` without holes; a size stands for all up to the next one, so it comes with
    /// probability `ln((size + step) / size)` over `ln((largest + step) / min)`. With a step of 1
    /// every byte count is possible; a `max` off the grid is rounded down to it. Errors: `Usage`
    /// when `min` or `step` is 0, `min` above `max`, or `max` above 2^62.
    pub fn log_uniform(min: u64, max: u64, step: u64) -> Result<Sizes> {
        let count = steps(min, max, step)?;
        let end = min as f64 + count as f64 * step as f64;
        Ok(Sizes::Log { min, step, count, span: (end / min as f64).ln() })
    }

    /// Sizes with counts, as from [`taillight_core::block_size_file::parse`]. Errors: `Usage` when
    /// a size is 0 or comes twice, or no count is above 0.
    pub fn table(parts: &[(u64, u64)]) -> Result<Sizes> {
        let mut parts: Vec<(u64, u64)> = parts.iter().copied().filter(|p| p.1 > 0).collect();
        parts.sort_unstable();
        let twice = parts.windows(2).find(|pair| pair[0].0 == pair[1].0);
        if let Some(pair) = twice {
            return Err(Error::usage("a size comes twice in the histogram")
                .with("size", pair[0].0)
                .hint("add the two counts up in one line"));
        }
        if parts.first().is_some_and(|p| p.0 == 0) {
            return Err(Error::usage("a size of 0 cannot be drawn")
                .hint("remove that line of the histogram"));
        }
        let counts: Vec<f64> = parts.iter().map(|p| p.1 as f64).collect();
        Ok(Sizes::Table {
            choice: Alias::new(&counts)?,
            sizes: parts.iter().map(|p| p.0).collect(),
        })
    }

    /// Smallest and largest size it can draw, bytes.
    pub fn bounds(&self) -> (u64, u64) {
        match self {
            Sizes::Fixed(b) => (*b, *b),
            Sizes::Split(parts) => {
                let sizes = || parts.iter().map(|p| p.1);
                (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
            }
            Sizes::Range { min, step, count } | Sizes::Log { min, step, count, .. } => {
                (*min, min + (count - 1) * step)
            }
            Sizes::Table { sizes, .. } => (sizes[0], sizes[sizes.len() - 1]),
            Sizes::ByOp(own) => {
                let ends = || own.iter().map(|(_, of)| of.bounds());
                (ends().map(|e| e.0).min().unwrap_or(0), ends().map(|e| e.1).max().unwrap_or(0))
            }
        }
    }

    /// Every size it can draw, `None` when there are more than `most`; for the capture's size table.
    pub fn distinct(&self, most: usize) -> Option<Vec<u64>> {
        match self {
            Sizes::Fixed(b) => Some(vec![*b]),
            Sizes::Split(parts) if parts.len() <= most => Some(parts.iter().map(|p| p.1).collect()),
            Sizes::Range { min, step, count } | Sizes::Log { min, step, count, .. }
                if *count <= most as u64 =>
            {
                Some((0..*count).map(|k| min + k * step).collect())
            }
            Sizes::Table { sizes, .. } if sizes.len() <= most => Some(sizes.to_vec()),
            Sizes::ByOp(own) => {
                let each: Option<Vec<_>> = own.iter().map(|(_, of)| of.distinct(most)).collect();
                let mut all = each?.concat();
                all.sort_unstable();
                all.dedup();
                Some(all).filter(|all| all.len() <= most)
            }
            _ => None,
        }
    }

    /// One draw, for an operation.
    ///
    /// One size stands in the hot loop itself; the others are a call.
    #[inline(always)]
    pub fn draw(&self, rng: &mut super::Rng, op: OpKind) -> u64 {
        if let Sizes::Fixed(b) = self {
            return *b;
        }
        self.draw_of_many(rng, op)
    }

    fn draw_of_many(&self, rng: &mut super::Rng, op: OpKind) -> u64 {
        match self {
            Sizes::Fixed(b) => *b,
            Sizes::Split(parts) => {
                let x = u64::from(rng.next_u32());
                parts.iter().find(|(bound, _)| x < *bound).map_or(parts[0].1, |p| p.1)
            }
            Sizes::Range { min, step, count } => min + below(rng.next_u64(), *count) * step,
            Sizes::Log { min, step, count, span } => {
                // How far above min, exact for small distances too.
                let above = *min as f64 * (unit(rng) * span).exp_m1();
                // Rounding may take u close to 1 to the end itself.
                min + ((above / *step as f64) as u64).min(count - 1) * step
            }
            Sizes::Table { choice, sizes } => sizes[choice.pick(rng.next_u64())],
            Sizes::ByOp(own) => {
                own.iter().find(|(of, _)| *of == op).map_or(0, |(_, sizes)| sizes.draw(rng, op))
            }
        }
    }
}

/// How many sizes `min`, `min + step`, ... there are up to `max`.
fn steps(min: u64, max: u64, step: u64) -> Result<u64> {
    if min == 0 || step == 0 || min > max || max > 1 << 62 {
        return Err(Error::usage("the range of sizes is empty")
            .with("min", min)
            .with("max", max)
            .with("step", step)
            .hint("min and step must be at least 1 B, and max not below min"));
    }
    Ok((max - min) / step + 1)
}

#[cfg(test)]
mod tests;
