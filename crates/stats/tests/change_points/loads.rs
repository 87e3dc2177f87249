//! Simulated loads for the tests of changes inside a run: steady ones that the constants were set on or not, whose
//! latency doubles from a given second on.

use crate::models::{Random, Run, RunModel};

/// A load without a change of its level. I/Os come 1,000 a second where nothing else is said.
#[derive(Clone, Copy)]
pub enum SteadyLoad {
    Known(RunModel),
    /// 32 I/Os in a row 50 times as slow, once in 7 s.
    Clumps,
    /// One server at 60 %: nine of ten services of 0.5 ms, the tenth of 5.5 ms.
    HyperExponential,
    /// A server of 0.3 ms that stands still for 10 to 40 ms, 1.05 to 1.95 s after the last time.
    Collections,
    /// The level jumps between 1, 1.3 and 2 ms, for 0.2 s in the mean.
    Levels,
    /// Twice a second 15 I/Os in the mean within some 5 ms that are 20 times as slow.
    Clusters,
    /// A closed loop of 8 I/Os before one server, of 0.2 or 0.6 ms for 0.3 s in the mean each.
    Closed,
    /// A closed loop of one I/O whose service stalls for 15 ms, once in 400 I/Os in the mean.
    ClosedStalls,
}

impl SteadyLoad {
    pub fn is_closed(self) -> bool {
        matches!(self, SteadyLoad::Closed | SteadyLoad::ClosedStalls)
    }

    /// I/Os of a run whose latencies double from `from` seconds on; steady where that is its length.
    pub fn run(self, seed: u64, seconds: f64, from: f64) -> Run {
        let r = &mut Random::new(seed);
        let mut run = match self {
            SteadyLoad::Known(model) => model.run(seed, seconds),
            SteadyLoad::HyperExponential => queue(r, seconds, 600.0, |r| {
                let mean = if r.uniform() < 0.9 { 0.5e-3 } else { 5.5e-3 };
                exponential(r, mean)
            }),
            SteadyLoad::Collections => collections(r, seconds),
            SteadyLoad::Clumps | SteadyLoad::Levels | SteadyLoad::Clusters => {
                self.drawn(r, seconds)
            }
            SteadyLoad::Closed | SteadyLoad::ClosedStalls => return self.closed(r, seconds, from),
        };
        run.iter_mut().filter(|io| io.0 >= from).for_each(|io| io.1 *= 2.0);
        run
    }

    /// I/Os that do not wait for each other.
    fn drawn(self, r: &mut Random, seconds: f64) -> Run {
        let (mut at, mut run) = (exponential(r, 1e-3), Run::new());
        let (mut level, mut until) = (1.0, 0.0);
        let clump = |r: &mut Random, at: f64| match self {
            SteadyLoad::Clusters => at + exponential(r, 0.5),
            _ => at + exponential(r, 7.0),
        };
        let mut next = clump(r, 0.0);
        let (mut left, mut slow) = (0.0, 1.0);
        while at < seconds {
            if matches!(self, SteadyLoad::Levels) && at >= until {
                level = [1.0, 1.3, 2.0][((r.uniform() * 3.0) as usize).min(2)];
                until = at + exponential(r, 0.2);
            }
            if !matches!(self, SteadyLoad::Levels) && at >= next {
                (left, slow) = match self {
                    SteadyLoad::Clusters => (1.0 + exponential(r, 14.0).floor(), 20.0),
                    _ => (32.0, 50.0),
                };
                next = clump(r, at);
            }
            let times = if left >= 1.0 { slow } else { 1.0 };
            left -= 1.0;
            run.push((at, 1e-3 * level * times * (0.3 * r.normal()).exp()));
            let gap =
                if left >= 1.0 && matches!(self, SteadyLoad::Clusters) { 0.33e-3 } else { 1e-3 };
            at += exponential(r, gap);
        }
        run
    }

    /// Completions of a closed loop.
    fn closed(self, r: &mut Random, seconds: f64, from: f64) -> Run {
        let (mut at, mut run, mut until, mut fast) = (0.0, Run::new(), 0.0, false);
        let depth = if matches!(self, SteadyLoad::Closed) { 8 } else { 1 };
        while at < seconds {
            if at >= until {
                (fast, until) = (!fast, at + exponential(r, 0.3));
            }
            let service = match self {
                SteadyLoad::Closed => exponential(r, if fast { 0.2e-3 } else { 0.6e-3 }),
                _ if r.uniform() < 1.0 / 400.0 => 15e-3,
                _ => 0.5e-3 * (0.3 * r.normal()).exp(),
            };
            at += if at >= from { 2.0 * service } else { service };
            let before = run.len().checked_sub(depth).map_or(0.0, |i| run[i].0);
            run.push((at, at - before));
        }
        run
    }
}

fn exponential(r: &mut Random, mean: f64) -> f64 {
    -r.uniform().ln() * mean
}

/// Poisson arrivals to one server; five seconds pass before the run.
fn queue(r: &mut Random, seconds: f64, rate: f64, service: impl Fn(&mut Random) -> f64) -> Run {
    let (mut at, mut free, mut run) = (-5.0, -5.0f64, Run::new());
    while at < seconds {
        free = free.max(at) + service(r);
        if at >= 0.0 {
            run.push((at, free - at));
        }
        at += exponential(r, 1.0 / rate);
    }
    run
}

fn collections(r: &mut Random, seconds: f64) -> Run {
    let (mut at, mut free, mut run) = (-5.0, -5.0f64, Run::new());
    let mut pause = -5.0 + 1.5 * r.uniform();
    while at < seconds {
        free = free.max(at);
        if free >= pause {
            free = free.max(pause + 0.01 + 0.03 * r.uniform());
            pause += 1.05 + 0.9 * r.uniform();
        }
        free += 0.3e-3 * (0.3 * r.normal()).exp();
        if at >= 0.0 {
            run.push((at, free - at));
        }
        at += exponential(r, 1e-3);
    }
    run
}
