//! Whether a run has become steady, interval by interval (`run.steady`, fio's `steadystate`). The collector asks for
//! each closed interval; the run then ends as it does with a workload that ends it.

use std::collections::VecDeque;

use taillight_core::OpKind;
use taillight_core::plan::{Plan, SteadyEnd, SteadyEndRule, SteadyFigure};
use taillight_rundir::intervals::IntervalRow;

use crate::collector::ClosedInterval;

/// The newest intervals of a run, and whether they were steady once.
#[derive(Debug)]
pub struct SteadyWatch {
    asked: SteadyEnd,
    /// For each workload whether it is measured: others do not count.
    measured: Vec<bool>,
    window: usize,
    interval_ns: u64,
    values: VecDeque<f64>,
    /// When the run was steady, ns since the start of the measure phase, and what was compared with the limit then.
    reached: Option<(u64, f64)>,
    /// What was compared with the limit in the last whole window.
    last: Option<f64>,
}

impl SteadyWatch {
    /// `None` where the plan has no `run.steady`.
    pub fn of(plan: &Plan) -> Option<SteadyWatch> {
        let asked = plan.run.steady?;
        let window = asked.window.0.div_ceil(plan.run.interval.0.max(1)).max(2) as usize;
        let measured = plan.workloads.iter().map(|w| w.measured).collect();
        let values = VecDeque::new();
        let interval_ns = plan.run.interval.0;
        Some(SteadyWatch {
            asked,
            measured,
            window,
            interval_ns,
            values,
            reached: None,
            last: None,
        })
    }

    /// Takes a closed interval, which ends so long after the start of the measure phase.
    pub fn take(&mut self, closed: &ClosedInterval, elapsed_ns: u64) {
        let begins = elapsed_ns.saturating_sub(closed.length_ns);
        // The last one, where the run ended within it, is of another length.
        let whole = closed.length_ns.abs_diff(self.interval_ns) <= self.interval_ns / 10;
        if !closed.measured || !whole || self.reached.is_some() || begins < self.asked.ramp.0 {
            return;
        }
        self.push(self.figure(closed), elapsed_ns);
    }

    /// Whether the run is to end.
    pub fn is_reached(&self) -> bool {
        self.reached.is_some()
    }

    /// What was found, for the manifest.
    pub fn told(&self) -> String {
        let shown = |found: f64| match self.asked.absolute {
            true => format!("{found:.3}"),
            false => format!("{:.3} % of the mean", found * 100.0),
        };
        match (self.reached, self.last) {
            (Some((at, found)), _) => {
                format!("reached after {:.1} s: {}", at as f64 / 1e9, shown(found))
            }
            (None, Some(found)) => format!("not reached; in the end {}", shown(found)),
            (None, None) => "not reached: no whole window".to_owned(),
        }
    }

    fn figure(&self, closed: &ClosedInterval) -> f64 {
        let counts = |w: u16| self.measured.get(usize::from(w)).copied().unwrap_or(false);
        let data = |op: OpKind| op != OpKind::Fsync;
        let rows = || {
            let all = closed.ops.iter().map(|op| &op.row);
            all.filter(|row| counts(row.workload) && data(row.op))
        };
        let good = |row: &IntervalRow| row.ops - row.errors.min(row.ops);
        let seconds = closed.length_ns.max(1) as f64 / 1e9;
        match self.asked.figure {
            SteadyFigure::Iops => rows().map(good).sum::<u64>() as f64 / seconds,
            SteadyFigure::Bandwidth => rows().map(|row| row.bytes).sum::<u64>() as f64 / seconds,
            SteadyFigure::Latency => {
                let sum: f64 =
                    rows().map(|row| row.mean_ns.unwrap_or(0.0) * good(row) as f64).sum();
                sum / (rows().map(good).sum::<u64>() as f64).max(1.0)
            }
        }
    }

    fn push(&mut self, value: f64, elapsed_ns: u64) {
        if self.values.len() == self.window {
            self.values.pop_front();
        }
        self.values.push_back(value);
        if self.values.len() < self.window {
            return;
        }
        let found = judged(self.values.make_contiguous(), self.asked.rule);
        let mean = self.values.iter().sum::<f64>() / self.window as f64;
        // A share of nothing means nothing.
        let found = if self.asked.absolute { found } else { found / mean };
        self.last = Some(found);
        if mean > 0.0 && found <= self.asked.limit {
            self.reached = Some((elapsed_ns, found));
        }
    }
}

/// The largest distance from the mean, or the slope of the least-squares line for each interval, without sign.
fn judged(values: &[f64], rule: SteadyEndRule) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    match rule {
        SteadyEndRule::Deviation => values.iter().map(|v| (v - mean).abs()).fold(0.0, f64::max),
        SteadyEndRule::Slope => {
            let middle = (n - 1.0) / 2.0;
            let pairs = || values.iter().enumerate().map(|(x, y)| (x as f64 - middle, y - mean));
            let along: f64 = pairs().map(|(x, y)| x * y).sum();
            (along / pairs().map(|(x, _)| x * x).sum::<f64>()).abs()
        }
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::units::Span;

    use super::*;

    fn watch(rule: SteadyEndRule, limit: f64) -> SteadyWatch {
        let mut plan = crate::testing::plan();
        plan.run.interval = Span(1_000_000_000);
        let (figure, window, ramp) = (SteadyFigure::Iops, Span(3_000_000_000), Span(0));
        plan.run.steady = Some(SteadyEnd { figure, rule, limit, absolute: false, window, ramp });
        SteadyWatch::of(&plan).expect("asked")
    }

    fn steady_at(rule: SteadyEndRule, limit: f64, values: &[f64]) -> Option<usize> {
        let mut watch = watch(rule, limit);
        for (n, value) in values.iter().enumerate() {
            if !watch.is_reached() {
                watch.push(*value, n as u64);
            }
        }
        watch.reached.map(|(at, _)| at as usize)
    }

    #[test]
    fn the_first_window_within_the_limit_ends_the_run() {
        let values = [50.0, 100.0, 150.0, 110.0, 100.0, 90.0, 100.0, 200.0];
        // Means 100, 120, 120, 100: distances 50, 30, 30, 10.
        assert_eq!(steady_at(SteadyEndRule::Deviation, 0.1, &values), Some(5));
        assert_eq!(steady_at(SteadyEndRule::Deviation, 0.3, &values), Some(3));
        assert_eq!(steady_at(SteadyEndRule::Deviation, 0.01, &values), None);
        // Slopes 50, 5, -25, -10, 0.
        assert_eq!(steady_at(SteadyEndRule::Slope, 0.05, &values), Some(3));
        assert_eq!(steady_at(SteadyEndRule::Slope, 0.01, &values), Some(6));
        assert_eq!(steady_at(SteadyEndRule::Deviation, 1.0, &[1.0, 1.0]), None, "no whole window");
        assert_eq!(steady_at(SteadyEndRule::Deviation, 1.0, &[0.0; 5]), None, "nothing was done");
    }
}
