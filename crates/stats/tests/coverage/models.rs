//! Simulated runs of queues, bursts, stalls and drifts, on virtual time: start and latency of each I/O.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Start, s, and latency, s, of every I/O.
pub type Run = Vec<(f64, f64)>;

pub struct Random(Xoshiro256PlusPlus);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }
    /// In (0, 1].
    pub fn uniform(&mut self) -> f64 {
        1.0 - self.0.random::<f64>()
    }
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.uniform().ln() * mean
    }
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// A kind of run. Services take 1 ms in the mean where nothing else is said.
#[derive(Clone, Copy)]
pub enum RunModel {
    /// Latencies drawn one by one.
    Independent,
    /// Poisson arrivals at this share of what exponential servers do together, 1,000 a second: servers, load.
    Exponential(usize, f64),
    /// Poisson arrivals at this load of one server with constant service.
    Constant(f64),
    /// One server of 0.5 ms; arrivals at 1,500 and 100 a second in turns of this mean length, s.
    OnOff(f64),
    /// A server of 0.3 ms that stands still for 20 ms, this often apart, s.
    Stalls(f64),
    /// 1,000 a second whose level changes each second, correlated by this, by 2 %.
    Drift(f64),
    /// A server of 0.3 ms that stands still every second, for 5 ms at least with a tail of Pareto, 1.5.
    HeavyStalls,
    /// Independent ones of which 32 in a row are 50 times slower, this often apart, s.
    Clumps(f64),
    /// `Drift` by 0.8 where 16 to 64 I/Os in a row take some 5 ms longer, once in 10 s in the mean; the level
    /// of a whole run varies by this besides.
    Nightly(f64),
}

impl RunModel {
    pub fn run(self, seed: u64, seconds: f64) -> Run {
        let r = &mut Random::new(seed);
        match self {
            RunModel::Independent => {
                let mut at = 0.0;
                std::iter::from_fn(|| {
                    at += r.exponential(1e-3);
                    (at < seconds).then(|| (at, r.exponential(1e-3)))
                })
                .collect()
            }
            RunModel::Exponential(servers, load) => {
                let mean = 1e-3 * servers as f64;
                queue(r, seconds, servers, 1e3 * load, |r| r.exponential(mean), |at| at)
            }
            RunModel::Constant(load) => queue(r, seconds, 1, 1e3 * load, |_| 1e-3, |at| at),
            RunModel::OnOff(turn) => on_off(r, seconds, turn),
            RunModel::Stalls(apart) => queue(
                r,
                seconds,
                1,
                1e3,
                |r| 0.3e-3 * (0.3 * r.normal()).exp(),
                |at| at + (0.02 - at.rem_euclid(apart)).max(0.0),
            ),
            RunModel::HeavyStalls => heavy_stalls(r, seconds),
            RunModel::Clumps(apart) => clumps(r, seconds, apart),
            RunModel::Drift(correlation) => drift(r, seconds, correlation),
            RunModel::Nightly(varies) => {
                let effect = (varies * r.normal()).exp();
                let mut run = drift(r, seconds, 0.8);
                run.iter_mut().for_each(|io| io.1 *= effect);
                let mut at = r.exponential(10.0);
                while at < seconds {
                    let from = (at * 1e3) as usize;
                    let ios = 16 + (49.0 * r.uniform()) as usize;
                    let to = (from + ios).min(run.len());
                    run[from..to].iter_mut().for_each(|io| io.1 += 5e-3 * (0.2 * r.normal()).exp());
                    at += r.exponential(10.0);
                }
                run
            }
        }
    }
}

fn heavy_stalls(r: &mut Random, seconds: f64) -> Run {
    let (mut at, mut free, mut next, mut run) = (-5.0, -5.0f64, -4.5, Run::new());
    while at < seconds {
        at += r.exponential(1e-3);
        let start = free.max(at);
        let mut service = 0.3e-3 * (0.1 * r.normal()).exp();
        if start >= next {
            service += (5e-3 * r.uniform().powf(-1.0 / 1.5)).min(5.0);
            next = start.floor() + 1.5;
        }
        free = start + service;
        if (0.0..seconds).contains(&at) {
            run.push((at, free - at));
        }
    }
    run
}

fn clumps(r: &mut Random, seconds: f64, apart: f64) -> Run {
    let mut run: Run = RunModel::Independent.run((r.uniform() * 1e15) as u64, seconds);
    let mut at = r.exponential(apart);
    while at < seconds {
        let from = run.partition_point(|io| io.0 < at);
        let slower = 50.0 * (0.2 * r.normal()).exp();
        run.iter_mut().skip(from).take(32).for_each(|io| io.1 *= slower);
        at += r.exponential(apart);
    }
    run
}

/// Poisson arrivals at `rate` to the server that is free first; five seconds pass before the run.
/// `begin` says when a service that could begin at a time does.
pub fn queue(
    r: &mut Random,
    seconds: f64,
    servers: usize,
    rate: f64,
    mut service: impl FnMut(&mut Random) -> f64,
    begin: impl Fn(f64) -> f64,
) -> Run {
    let (mut at, mut run) = (-5.0, Run::new());
    let mut free = vec![at; servers];
    loop {
        at += r.exponential(1.0 / rate);
        if at >= seconds {
            return run;
        }
        let first = free.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("a server");
        *first = begin(first.max(at)) + service(r);
        if at >= 0.0 {
            run.push((at, *first - at));
        }
    }
}

fn on_off(r: &mut Random, seconds: f64, turn: f64) -> Run {
    let (mut at, mut free, mut run) = (-5.0, -5.0f64, Run::new());
    let mut on = r.uniform() < 0.5;
    let mut until = at + r.exponential(turn);
    while at < seconds {
        let next = at + r.exponential(if on { 1.0 / 1_500.0 } else { 1.0 / 100.0 });
        if next > until {
            (at, on) = (until, !on);
            until = at + r.exponential(turn);
            continue;
        }
        at = next;
        free = free.max(at) + r.exponential(0.5e-3);
        if (0.0..seconds).contains(&at) {
            run.push((at, free - at));
        }
    }
    run
}

fn drift(r: &mut Random, seconds: f64, correlation: f64) -> Run {
    let mut level = 0.02 * r.normal();
    let step = 0.02 * (1.0 - correlation * correlation).sqrt();
    let count = (seconds * 1e3) as u64;
    let io = |i| {
        if i > 0 && i % 1_000 == 0 {
            level = correlation * level + step * r.normal();
        }
        (i as f64 * 1e-3, 1e-3 * (level + 0.3 * r.normal()).exp())
    };
    (0..count).map(io).collect()
}
