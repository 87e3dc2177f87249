//! Paired measurement: every round runs every arm once, in the same order (A B A B ...), so that
//! slow changes of the machine hit all arms alike. Ratios are taken inside a round.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// Figures of one run of one arm, by name (`iops`, `cpu_ns`, `p50_ns`, `mean_ns`, ...).
pub type Figures = BTreeMap<&'static str, f64>;

/// One side of a comparison.
pub struct BenchArm<'a> {
    /// Short name in tables.
    pub name: &'static str,
    /// What a person would type for the same.
    pub command: String,
    pub run: Box<dyn FnMut() -> Result<Figures> + 'a>,
}

/// All rounds of one arm.
pub struct PairedRounds {
    /// Short name in tables.
    pub name: &'static str,
    /// What a person would type for the same.
    pub command: String,
    /// One sample a round.
    pub samples: Vec<Figures>,
}

/// What is asked of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// The median must not be smaller.
    AtLeast(f64),
    /// The median must not be larger.
    AtMost(f64),
    None,
}

/// A figure over the rounds, with what is asked of it.
pub struct BoundCheck {
    pub what: String,
    /// Unit; `x` for ratios.
    pub unit: &'static str,
    /// One value a round.
    pub values: Vec<f64>,
    pub bound: Bound,
}

impl BoundCheck {
    /// Whether the median keeps the bound.
    pub fn met(&self) -> bool {
        let middle = median(&self.values);
        match self.bound {
            Bound::AtLeast(least) => middle >= least,
            Bound::AtMost(most) => middle <= most,
            Bound::None => true,
        }
    }
}

/// Outcome of a case.
#[derive(Default)]
pub struct Comparison {
    pub title: String,
    /// Arms, in the order they ran.
    pub arms: Vec<PairedRounds>,
    /// Ratios and single figures.
    pub checks: Vec<BoundCheck>,
    /// What a reader must know to judge them.
    pub notes: Vec<String>,
}

impl Comparison {
    /// A report with its heading.
    pub fn titled(title: &str) -> Comparison {
        Comparison { title: title.into(), ..Comparison::default() }
    }
    /// `metric` of arm `over` divided by that of arm `under`, round by round.
    pub fn ratio(
        &mut self,
        metric: &'static str,
        over: &str,
        under: &str,
        bound: Bound,
    ) -> Result<()> {
        let (top, bottom) = (self.column(over, metric)?, self.column(under, metric)?);
        let values = top.iter().zip(&bottom).map(|(a, b)| a / b).collect();
        self.checks.push(BoundCheck {
            what: format!("{metric}: {over} / {under}"),
            unit: "x",
            values,
            bound,
        });
        Ok(())
    }
    /// `metric` of an arm over all rounds.
    pub fn column(&self, arm: &str, metric: &str) -> Result<Vec<f64>> {
        let arm = self.arms.iter().find(|a| a.name == arm).context("no such arm")?;
        let values = arm.samples.iter().map(|s| s.get(metric).copied());
        values
            .collect::<Option<Vec<f64>>>()
            .with_context(|| format!("{} has no {metric}", arm.name))
    }
}

/// A command as anybody may read it: the home directory is `~`.
fn abbreviate_home(command: &str) -> String {
    let home = std::env::var("HOME").ok().filter(|home| home.len() > 1);
    home.map_or(command.to_owned(), |home| command.replace(&home, "~"))
}

/// Runs all arms `rounds` times, turn by turn.
pub fn run(rounds: usize, arms: Vec<BenchArm<'_>>) -> Result<Vec<PairedRounds>> {
    let mut results: Vec<PairedRounds> = arms
        .iter()
        .map(|arm| PairedRounds {
            name: arm.name,
            command: abbreviate_home(&arm.command),
            samples: Vec::with_capacity(rounds),
        })
        .collect();
    let mut arms = arms;
    for round in 1..=rounds {
        for (arm, result) in arms.iter_mut().zip(&mut results) {
            let sample = (arm.run)().with_context(|| format!("arm {}", arm.name))?;
            let shown: Vec<String> = sample.iter().map(|(k, v)| format!("{k} {v:.4}")).collect();
            println!("  round {round} {:<18} {}", arm.name, shown.join("  "));
            result.samples.push(sample);
        }
    }
    Ok(results)
}

/// The middle value; the mean of the two middle ones for an even count. NaN for nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Smallest and largest value.
pub fn spread(values: &[f64]) -> (f64, f64) {
    values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let arm = |name, values: [f64; 3]| {
            let mut values = values.into_iter();
            BenchArm {
                name,
                command: String::new(),
                run: Box::new(move || Ok(Figures::from([("iops", values.next().unwrap())]))),
            }
        };
        let mut report = Comparison::titled("t");
        report.arms = run(3, vec![arm("a", [10., 40., 90.]), arm("b", [5., 10., 30.])]).unwrap();
        report.ratio("iops", "a", "b", Bound::AtLeast(3.0)).unwrap();
        assert_eq!(report.checks[0].values, [2.0, 4.0, 3.0]);
        assert!(report.checks[0].met());
        assert_eq!(spread(&report.checks[0].values), (2.0, 4.0));
        assert!(report.ratio("iops", "a", "c", Bound::None).is_err());
        assert!(report.ratio("none", "a", "b", Bound::None).is_err());
    }

    #[test]
    fn the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
