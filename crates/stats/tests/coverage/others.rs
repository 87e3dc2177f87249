//! Simulated runs that the constants of `dependence` were not set on: heavier services, closed loops, collections.

use crate::models::{Random, Run, queue};

/// A kind of run, 1,000 I/Os a second or so.
#[derive(Clone, Copy)]
pub enum OtherModel {
    /// One server at this load; one service in twenty is 19 times as long as the others in the mean.
    Hyperexponential(f64),
    /// One server at this load whose services are lognormal, sigma 1.
    Lognormal(f64),
    /// A closed loop of so many on a server that is five times slower for 0.2 s of each 2 s, at random.
    ClosedLoop(usize),
    /// A server of 0.3 ms that serves eight times slower for some 30 ms, this often apart, s, with jitter.
    Collections(f64),
    /// Independent ones around one of two levels that are 16 % apart and change after this mean time, s.
    TwoLevels(f64),
    /// Independent ones of which some are slower: centres this often apart, s, with a geometric number of
    /// I/Os, 12 in the mean, within 50 ms (Neyman and Scott).
    Clusters(f64),
}

impl OtherModel {
    pub fn run(self, seed: u64, seconds: f64) -> Run {
        let r = &mut Random::new(seed ^ 0x5EED_0000_0000);
        match self {
            OtherModel::Hyperexponential(load) => {
                let (long, short) = (load * 1e-2, load * 0.5e-3 / 0.95);
                let service = move |r: &mut Random| {
                    let mean = if r.uniform() < 0.05 { long } else { short };
                    r.exponential(mean)
                };
                queue(r, seconds, 1, 1e3, service, |at| at)
            }
            OtherModel::Lognormal(load) => {
                let service = move |r: &mut Random| load * 1e-3 * (r.normal() - 0.5).exp();
                queue(r, seconds, 1, 1e3, service, |at| at)
            }
            OtherModel::ClosedLoop(outstanding) => closed_loop(r, seconds, outstanding),
            OtherModel::Collections(apart) => collections(r, seconds, apart),
            OtherModel::TwoLevels(stay) => two_levels(r, seconds, stay),
            OtherModel::Clusters(apart) => clusters(r, seconds, apart),
        }
    }
}

fn closed_loop(r: &mut Random, seconds: f64, outstanding: usize) -> Run {
    let mut sent: std::collections::VecDeque<f64> = vec![0.0; outstanding].into();
    let mut slow = r.uniform() < 0.1;
    let stay = move |r: &mut Random, slow: bool| r.exponential(if slow { 0.2 } else { 1.8 });
    let (mut free, mut until, mut run) = (0.0, stay(r, slow), Run::new());
    while free < seconds {
        while free > until {
            slow = !slow;
            until += stay(r, slow);
        }
        free += r.exponential(if slow { 4e-3 } else { 0.8e-3 });
        let at = sent.pop_front().expect("some are outstanding");
        run.push((at, free - at));
        sent.push_back(free);
    }
    run
}

fn collections(r: &mut Random, seconds: f64, apart: f64) -> Run {
    let (mut at, mut free, mut run) = (-5.0, -5.0f64, Run::new());
    let mut next = at + r.uniform() * apart;
    let mut end = next + 0.03 * (0.5 * r.normal()).exp();
    while at < seconds {
        at += r.exponential(1e-3);
        let start = free.max(at);
        while start > end {
            next += apart * (0.7 + 0.6 * r.uniform());
            end = next + 0.03 * (0.5 * r.normal()).exp();
        }
        free = start + r.exponential(0.3e-3) * if start > next { 8.0 } else { 1.0 };
        if (0.0..seconds).contains(&at) {
            run.push((at, free - at));
        }
    }
    run
}

fn two_levels(r: &mut Random, seconds: f64, stay: f64) -> Run {
    let (mut at, mut high, mut run) = (0.0, r.uniform() < 0.5, Run::new());
    let mut until = r.exponential(stay);
    loop {
        at += r.exponential(1e-3);
        if at >= seconds {
            return run;
        }
        while at > until {
            high = !high;
            until += r.exponential(stay);
        }
        let level = if high { 0.15 } else { 0.0 };
        run.push((at, 1e-3 * (level + 0.4 * r.normal()).exp()));
    }
}

fn clusters(r: &mut Random, seconds: f64, apart: f64) -> Run {
    let mut run = Run::new();
    let mut at = r.exponential(1e-3);
    while at < seconds {
        run.push((at, 1e-3 * (0.3 * r.normal()).exp()));
        at += r.exponential(1e-3);
    }
    let mut centre = r.exponential(apart);
    while centre < seconds {
        let ios = 1 + (r.uniform().ln() / (1.0f64 - 1.0 / 12.0).ln()) as usize;
        for _ in 0..ios {
            let near = centre + 0.05 * r.uniform();
            let io = run.partition_point(|io| io.0 < near);
            // Each once: two in one place are the next as well.
            if let Some(io) = run.iter_mut().skip(io).find(|io| io.1 < 5e-3) {
                io.1 *= 20.0 * (0.5 * r.normal()).exp();
            }
        }
        centre += r.exponential(apart);
    }
    run
}
