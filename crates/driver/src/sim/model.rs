//! The model: when an operation that arrives now is done. Exact and deterministic.

use rand::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use taillight_core::units::Span;
use taillight_core::{Op, OpKind, Stamp, Status};

use super::aging::{Aging, DeviceUse};
use super::options::{InjectedErrors, ServiceTime, SimOptions, SimulatedStall};

/// How an operation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulatedOutcome {
    pub at: Stamp,
    pub status: Status,
    /// Time of its sync.
    pub sync_ns: Option<u64>,
}

/// Servers, their stalls, and the draws.
pub struct DeviceModel {
    free_at: Vec<Stamp>,
    service: ServiceTime,
    sync_ns: u64,
    stalls: Vec<SimulatedStall>,
    errors: InjectedErrors,
    rng: Xoshiro256PlusPlus,
    served: u64,
    /// Whether the last operation was in a slow stretch; none before the first.
    in_clump: Option<bool>,
    aging: Aging,
    size: u64,
    /// What it has been through since it was last discarded whole: writes of this run count at once, its time once
    /// it has ended.
    pub used: DeviceUse,
}

impl DeviceModel {
    /// A model of `size` bytes with all servers free.
    pub fn new(options: &SimOptions, seed: u64, size: u64, used: DeviceUse) -> DeviceModel {
        DeviceModel {
            free_at: vec![Stamp(0); options.channels as usize],
            service: options.service,
            sync_ns: options.sync.0,
            stalls: options.stalls.clone(),
            errors: options.errors,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x51D0_51D0),
            served: 0,
            in_clump: None,
            aging: options.aging,
            size,
            used,
        }
    }

    /// Serves `op`, which arrives at `now`.
    pub fn serve(&mut self, now: Stamp, op: &Op) -> SimulatedOutcome {
        self.served += 1;
        let sync = op.sync.is_some() || op.kind == OpKind::Fsync;
        let sync_ns = if sync { self.sync_ns } else { 0 };
        let own = if op.kind == OpKind::Fsync { 0 } else { self.draw() };
        // The first server to be free; ties go to the lowest number.
        let server = (0..self.free_at.len()).min_by_key(|s| self.free_at[*s]).unwrap_or(0);
        let start = self.free_at[server].max(now);
        let busy = self.free_at.iter().max().copied().unwrap_or(start);
        let idle_ns = start.since(busy).max(0) as u64;
        let factor = self.used.factor(self.aging, start, idle_ns, op, self.size);
        let own = if factor == 1.0 { own } else { (own as f64 * factor).round() as u64 };
        // At least 1 ns: without it virtual time would stand still between two operations.
        let at = self.work(start, (own + sync_ns).max(1));
        self.free_at[server] = at;
        let fails = self.errors.every > 0 && self.served.is_multiple_of(self.errors.every);
        let status = if fails { Status::errno(i32::from(self.errors.errno)) } else { Status::OK };
        SimulatedOutcome { at, status, sync_ns: op.sync.map(|_| sync_ns) }
    }

    fn draw(&mut self) -> u64 {
        match self.service {
            ServiceTime::Constant { time } => time.0,
            ServiceTime::Uniform { min, max } => self.uniform(min, max),
            ServiceTime::Exponential { mean } => self.exponential(mean),
            ServiceTime::Clumps { common, from, to, share, length } => {
                let chance = match self.in_clump {
                    None => share,
                    Some(true) => 1.0 - 1.0 / length,
                    Some(false) => share / (1.0 - share) / length,
                };
                let slow = self.fraction() <= chance;
                self.in_clump = Some(slow);
                if slow { self.uniform(from, to) } else { self.exponential(common) }
            }
            ServiceTime::Bimodal { common, rare, every } => {
                if self.served.is_multiple_of(every) {
                    rare.0
                } else {
                    common.0
                }
            }
        }
    }

    /// In (0, 1], from 53 random bits.
    fn fraction(&mut self) -> f64 {
        ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: Span) -> u64 {
        (-self.fraction().ln() * mean.0 as f64).round() as u64
    }

    fn uniform(&mut self, min: Span, max: Span) -> u64 {
        let span = u128::from(max.0 - min.0) + 1;
        min.0 + ((u128::from(self.rng.next_u64()) * span) >> 64) as u64
    }

    /// The end of `work` ns of service begun at `start`, stalls left out.
    fn work(&self, start: Stamp, work: u64) -> Stamp {
        let (mut at, mut left) = (start, work);
        loop {
            let Some((from, until)) = self.next_stall(at) else {
                return at.plus(left);
            };
            if from > at {
                let room = from.since(at) as u64;
                if left <= room {
                    return at.plus(left);
                }
                left -= room;
            }
            at = until;
        }
    }

    /// The stall that holds `at`, or the next one after it.
    fn next_stall(&self, at: Stamp) -> Option<(Stamp, Stamp)> {
        let windows = self.stalls.iter().filter_map(|s| {
            let start = s.start.0 as i64;
            let length = s.length.0;
            let first = match s.period {
                Some(p) if at.0 >= start => start + (at.0 - start) / p.0 as i64 * p.0 as i64,
                _ => start,
            };
            let window = |from: i64| (Stamp(from), Stamp(from).plus(length));
            let (from, until) = window(first);
            if until > at {
                return Some((from, until));
            }
            s.period.map(|p| window(first + p.0 as i64))
        });
        windows.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read() -> Op {
        Op::block(OpKind::Read, 0, 0, 4096)
    }

    fn options(service: ServiceTime) -> SimOptions {
        SimOptions { service, ..SimOptions::default() }
    }

    #[test]
    fn one_channel_queues_and_two_do_not() {
        let mut o = options(ServiceTime::Constant { time: Span(100) });
        let mut m = DeviceModel::new(&o, 1, 1 << 30, DeviceUse::default());
        let ends: Vec<i64> = (0..3).map(|_| m.serve(Stamp(10), &read()).at.0).collect();
        assert_eq!(ends, [110, 210, 310]);
        o.channels = 2;
        let mut m = DeviceModel::new(&o, 1, 1 << 30, DeviceUse::default());
        let ends: Vec<i64> = (0..3).map(|_| m.serve(Stamp(10), &read()).at.0).collect();
        assert_eq!(ends, [110, 110, 210]);
    }

    #[test]
    fn stalls_delay_by_exactly_their_overlap() {
        let mut o = options(ServiceTime::Constant { time: Span(100) });
        o.stalls =
            vec![SimulatedStall { start: Span(50), length: Span(1000), period: Some(Span(5000)) }];
        let mut m = DeviceModel::new(&o, 1, 1 << 30, DeviceUse::default());
        assert_eq!(m.serve(Stamp(0), &read()).at, Stamp(1100));
        assert_eq!(m.serve(Stamp(2000), &read()).at, Stamp(2100));
        // Begins inside the second stall (5050..6050).
        assert_eq!(m.serve(Stamp(5500), &read()).at, Stamp(6150));
        // Begins before the third and ends in it.
        assert_eq!(m.serve(Stamp(10_000), &read()).at, Stamp(11_100));
    }

    #[test]
    fn no_service_is_free() {
        let mut m = DeviceModel::new(
            &options(ServiceTime::Constant { time: Span(0) }),
            1,
            1 << 30,
            DeviceUse::default(),
        );
        assert_eq!(m.serve(Stamp(10), &read()).at, Stamp(11));
    }

    #[test]
    fn every_third_fails() {
        let mut o = options(ServiceTime::Constant { time: Span(1) });
        o.errors = InjectedErrors { every: 3, errno: 28 };
        let mut m = DeviceModel::new(&o, 1, 1 << 30, DeviceUse::default());
        let s: Vec<i32> = (0..6).map(|_| m.serve(Stamp(0), &read()).status.0).collect();
        assert_eq!(s, [0, 0, 28, 0, 0, 28]);
    }

    #[test]
    fn exponential_mean_is_within_five_sigma() {
        let mut m = DeviceModel::new(
            &options(ServiceTime::Exponential { mean: Span(1_000_000) }),
            9,
            1 << 30,
            DeviceUse::default(),
        );
        let n = 40_000u64;
        let sum: u64 = (0..n).map(|_| m.draw()).sum();
        assert!((sum as f64 / n as f64 / 1e6 - 1.0).abs() < 5.0 / (n as f64).sqrt());
    }

    #[test]
    fn clumps_have_their_share_and_length() {
        let (share, length) = (0.02, 20.0);
        let (from, to) = (Span(1_000_000), Span(2_000_000));
        let clumps = ServiceTime::Clumps { common: Span(10), from, to, share, length };
        let mut m = DeviceModel::new(&options(clumps), 3, 1 << 30, DeviceUse::default());
        let slow: Vec<bool> = (0..2_000_000).map(|_| m.draw() >= 1_000_000).collect();
        let all = slow.iter().filter(|s| **s).count() as f64;
        let begins = slow.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        // 2,000 stretches: five standard deviations are a ninth of either.
        assert!((all / 2e6 / share - 1.0).abs() < 0.16, "{all}");
        assert!((all / begins / length - 1.0).abs() < 0.12, "{all} in {begins}");
    }
}
