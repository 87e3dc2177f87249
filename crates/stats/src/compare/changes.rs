//! When a figure of a series of runs, one a night, changed. The series may have outliers, and neighbouring
//! nights may be alike. The newest night alone is never more than a suspect.
//!
//! Method: logarithms, clipped to a running median; candidates by E-divisive (Matteson and James, JASA
//! 109, 2014) in windows; each confirmed by a t-test whose variance allows for what neighbours share; the
//! weakest taken away until all that are left are certain (Fleming et al., "Hunter", ICPE 2023).

use super::{LogDifference, quantile};

/// Nights over which the running median is taken.
const MEDIAN_OVER: usize = 31;
/// Values are clipped at three standard deviations from the median; 1.4826 median absolute deviations are one.
const CLIP: f64 = 3.0 * 1.4826;
/// The p-value of a candidate may be so many times that of a change.
const FIRST_PASS: f64 = 10.0;
/// Most nights that the band of the newest one is taken from: the last ones before it.
const BAND_OVER: usize = 20;
/// Share of nights outside of the band where nothing changed.
const BAND_ALPHA: f64 = 0.01;

/// How certain a change has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangeRule {
    /// Largest p-value of a change.
    pub p: f64,
    /// Nights looked at together.
    pub window: usize,
    /// Fewest nights on either side.
    pub least: usize,
}

impl ChangeRule {
    /// For so many series looked at together: changes where there are none in 3 of 100 such groups of 100 nights,
    /// in 9 where neighbours correlate by 0.5.
    #[must_use]
    pub fn over(series: usize) -> ChangeRule {
        ChangeRule { p: 0.001 / series.max(1) as f64, window: 50, least: 3 }
    }
}

/// A change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Place of the first night after it.
    pub at: usize,
    /// Geometric means of the nights before, back to the change before, and after, up to the next one.
    pub before: f64,
    pub after: f64,
    /// The difference between them.
    pub difference: LogDifference,
}

/// The changes of a series of positive values, in order of time. None where a value is not positive or not finite.
#[must_use]
pub fn changes(values: &[f64], rule: &ChangeRule) -> Option<Vec<Change>> {
    if values.iter().any(|v| !(v.is_finite() && *v > 0.0)) {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let near = clipped(&logs);
    let found = certain(&near, candidates(&near, rule), rule);
    let points: Vec<usize> = found.into_iter().map(|(at, _)| at).collect();
    // The running median hides part of a step until most of its nights lie after it: what a step measures is
    // taken from nights clipped to their own level.
    let logs = clipped_to_levels(&logs, &points);
    let found = certain(&logs, points, rule);
    let points: Vec<usize> = found.iter().map(|(at, _)| *at).collect();
    let change = |(at, difference): (usize, LogDifference)| {
        let (before, after) = around(&logs, &points, at);
        Change { at, before: mean(before).exp(), after: mean(after).exp(), difference }
    };
    Some(found.into_iter().map(change).collect())
}

/// The places that are left when the weakest is taken away until all are certain, each with its step.
fn certain(logs: &[f64], mut points: Vec<usize>, rule: &ChangeRule) -> Vec<(usize, LogDifference)> {
    loop {
        let rho = lag_one(&residuals(logs, &points));
        let tested: Vec<(usize, LogDifference)> =
            points.iter().filter_map(|at| Some((*at, step(logs, &points, *at, rho)?))).collect();
        let weakest = tested.iter().max_by(|a, b| a.1.p_value().total_cmp(&b.1.p_value()));
        match weakest {
            Some((at, found)) if found.p_value() >= rule.p => points.retain(|p| p != at),
            _ => return tested,
        }
    }
}

/// Whether the newest night lies outside of what the nights before it lead to expect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suspect {
    /// The band that holds 99 % of nights where nothing changed.
    pub lo: f64,
    pub hi: f64,
    pub is_outside: bool,
}

/// Judges the newest value by the last 20 of its segment before it. None with fewer than five of them, or
/// where one of these values is not positive or not finite.
#[must_use]
pub fn suspect(before: &[f64], newest: f64) -> Option<Suspect> {
    let last = &before[before.len().saturating_sub(BAND_OVER)..];
    if last.len() < 5 || last.iter().chain([&newest]).any(|v| !(v.is_finite() && *v > 0.0)) {
        return None;
    }
    let logs: Vec<f64> = last.iter().map(|v| v.ln()).collect();
    let n = logs.len() as f64;
    let around = mean(&logs);
    let variance = logs.iter().map(|v| (v - around).powi(2)).sum::<f64>() / (n - 1.0);
    let half = quantile(n - 1.0, 1.0 - BAND_ALPHA / 2.0) * (variance * (1.0 + 1.0 / n)).sqrt();
    // Nights that are all the same have a band of no width, but for rounding.
    let half = half + 1e-9;
    let (lo, hi) = ((around - half).exp(), (around + half).exp());
    Some(Suspect { lo, hi, is_outside: !(lo..=hi).contains(&newest) })
}

/// Values no further from the running median than outliers begin.
fn clipped(logs: &[f64]) -> Vec<f64> {
    let near = |at: usize| {
        let from = at.saturating_sub(MEDIAN_OVER / 2).min(logs.len().saturating_sub(MEDIAN_OVER));
        &logs[from..(from + MEDIAN_OVER).min(logs.len())]
    };
    let clip = |(at, value): (usize, &f64)| {
        let middle = median(near(at).to_vec());
        let off = outlying(near(at).iter().map(|v| (v - middle).abs()).collect());
        value.clamp(middle - off, middle + off)
    };
    logs.iter().enumerate().map(clip).collect()
}

/// Values no further from the median of their level than outliers begin, by the deviations of all levels.
fn clipped_to_levels(logs: &[f64], points: &[usize]) -> Vec<f64> {
    let ends = points.iter().copied().chain([logs.len()]);
    let mut from = 0;
    let mut middles = Vec::with_capacity(logs.len());
    for to in ends {
        let middle = median(logs[from..to].to_vec());
        middles.resize(to, middle);
        from = to;
    }
    let each = || logs.iter().zip(&middles);
    let off = outlying(each().map(|(v, middle)| (v - middle).abs()).collect());
    each().map(|(v, middle)| v.clamp(middle - off, middle + off)).collect()
}

/// How far from the middle outliers begin; infinite where most nights are the same to the last digit.
fn outlying(deviations: Vec<f64>) -> f64 {
    match CLIP * median(deviations) {
        off if off > 0.0 => off,
        _ => f64::INFINITY,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    if n == 0 { 0.0 } else { (values[(n - 1) / 2] + values[n / 2]) / 2.0 }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Places where the series may have changed, from windows that overlap by half.
fn candidates(logs: &[f64], rule: &ChangeRule) -> Vec<usize> {
    let mut found = Vec::new();
    let step = (rule.window / 2).max(1);
    let mut from = 0;
    loop {
        let to = (from + rule.window).min(logs.len());
        split(logs, (from, to), rule, &mut found);
        if to == logs.len() {
            break;
        }
        from += step;
    }
    found.sort_unstable();
    found.dedup();
    // Overlapping windows place one change a night or two apart: the most certain of these stays.
    let mut points: Vec<usize> = Vec::new();
    for at in found {
        match points.last().copied() {
            Some(last) if at - last < rule.least => {
                let weight = |at: usize| {
                    divergence(
                        &logs[at.saturating_sub(step)..(at + step).min(logs.len())],
                        at.min(step),
                    )
                };
                if weight(at) > weight(last) {
                    points.pop();
                    points.push(at);
                }
            }
            _ => points.push(at),
        }
    }
    points
}

/// Splits a part of the series where its two sides diverge most, and each side again.
fn split(logs: &[f64], (from, to): (usize, usize), rule: &ChangeRule, found: &mut Vec<usize>) {
    let part = &logs[from..to];
    if part.len() < 2 * rule.least {
        return;
    }
    let places = rule.least..=part.len() - rule.least;
    let best = places.map(|at| (at, divergence(part, at))).max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((at, _)) = best else { return };
    let rho = lag_one(&residuals(part, &[at]));
    let certain = step(part, &[at], at, rho).is_some_and(|d| d.p_value() < FIRST_PASS * rule.p);
    if certain {
        found.push(from + at);
        split(logs, (from, from + at), rule, found);
        split(logs, (from + at, to), rule, found);
    }
}

/// How far two sides are apart: energy distance times their harmonic size.
fn divergence(part: &[f64], at: usize) -> f64 {
    let (a, b) = part.split_at(at);
    let between = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().flat_map(|x| b.iter().map(move |y| (x - y).abs())).sum()
    };
    let (n, m) = (a.len() as f64, b.len() as f64);
    let within =
        |side: &[f64], n: f64| if n > 1.0 { between(side, side) / (n * (n - 1.0)) } else { 0.0 };
    n * m / (n + m) * (2.0 * between(a, b) / (n * m) - within(a, n) - within(b, m))
}

/// The nights between the change before `at` and `at`, and between `at` and the next one.
fn around<'a>(logs: &'a [f64], points: &[usize], at: usize) -> (&'a [f64], &'a [f64]) {
    let from = points.iter().copied().filter(|p| *p < at).max().unwrap_or(0);
    let to = points.iter().copied().filter(|p| *p > at).min().unwrap_or(logs.len());
    (&logs[from..at], &logs[at..to])
}

/// The step at a place, with its t-interval; neighbours correlate by `rho`. None with fewer than two nights on a side.
fn step(logs: &[f64], points: &[usize], at: usize, rho: f64) -> Option<LogDifference> {
    let (before, after) = around(logs, points, at);
    let (n, m) = (before.len() as f64, after.len() as f64);
    if n < 2.0 || m < 2.0 {
        return None;
    }
    let squares = |side: &[f64]| {
        let middle = mean(side);
        side.iter().map(|v| (v - middle).powi(2)).sum::<f64>()
    };
    let variance = (squares(before) + squares(after)) / (n + m - 2.0);
    let shared = (1.0 + rho) / (1.0 - rho);
    let freedom = ((n + m) / shared - 2.0).max(1.0);
    let error = (variance * shared * (1.0 / n + 1.0 / m)).sqrt();
    Some(LogDifference::from_t(mean(after) - mean(before), error, freedom, variance))
}

/// What is left of each night after the mean of its segment.
fn residuals(logs: &[f64], points: &[usize]) -> Vec<f64> {
    let ends = points.iter().copied().chain([logs.len()]);
    let mut from = 0;
    let mut left = Vec::with_capacity(logs.len());
    for to in ends {
        let part = &logs[from..to];
        let middle = mean(part);
        left.extend(part.iter().map(|v| v - middle));
        from = to;
    }
    left
}

/// Correlation of neighbours, without its bias in short series (Kendall, Biometrika 41, 1954), held between 0
/// and 0.9.
fn lag_one(residuals: &[f64]) -> f64 {
    let n = residuals.len() as f64;
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    if squares <= 0.0 {
        return 0.0;
    }
    let products: f64 = residuals.windows(2).map(|w| w[0] * w[1]).sum();
    let rho = products / squares;
    (rho + (1.0 + 3.0 * rho) / n).clamp(0.0, 0.9)
}

#[cfg(test)]
mod tests {
    use super::super::ALPHA;
    use super::*;

    #[test]
    fn a_night_like_all_before_is_no_suspect() {
        for value in 1..2000 {
            let value = f64::from(value) * 0.37;
            assert!(super::suspect(&[value; 7], value).is_some_and(|s| !s.is_outside), "{value}");
        }
    }

    /// So many nights of each level, with noise that is the same each time.
    fn nights(levels: &[(usize, f64)]) -> Vec<f64> {
        let mut state = 1u64;
        let mut noise = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1u32 << 31) - 0.5
        };
        let level = |(n, level): &(usize, f64)| vec![*level; *n];
        levels.iter().flat_map(level).map(|v| v * (1.0 + 0.05 * noise())).collect()
    }

    #[test]
    fn a_step_is_found_where_it_is_and_as_large_as_it_is() {
        let found = changes(&nights(&[(40, 100.0), (30, 110.0), (30, 90.0)]), &ChangeRule::over(1));
        let found = found.expect("positive");
        assert_eq!(found.len(), 2, "{found:?}");
        for (change, at, ratio) in [(found[0], 40, 1.1), (found[1], 70, 90.0 / 110.0)] {
            assert!(change.at.abs_diff(at) <= 1, "{change:?}");
            let (lo, hi) = change.difference.interval(ALPHA);
            assert!(lo < ratio && ratio < hi, "{change:?}");
            assert!((change.after / change.before / change.difference.ratio() - 1.0).abs() < 1e-9);
        }
    }

    /// Also while most of the nights that the running median is of lie before the step.
    #[test]
    fn a_young_step_is_measured_whole() {
        for young in [4, 8, 12] {
            let found = changes(&nights(&[(30, 100.0), (young, 120.0)]), &ChangeRule::over(1));
            let found = found.expect("positive");
            let [change] = found.as_slice() else { panic!("{young}: {found:?}") };
            let (lo, hi) = change.difference.interval(ALPHA);
            assert!(change.at == 30 && lo < 1.2 && 1.2 < hi, "{young}: {lo} to {hi}");
        }
    }

    #[test]
    fn short_and_constant_series_have_no_change() {
        for values in [&[][..], &[1.0], &[1.0, 2.0], &[5.0; 100]] {
            assert_eq!(changes(values, &ChangeRule::over(1)), Some(Vec::new()));
        }
        assert_eq!(changes(&[1.0, 0.0], &ChangeRule::over(1)), None);
        assert_eq!(changes(&[1.0, f64::INFINITY], &ChangeRule::over(1)), None);
    }

    /// Also where one of the levels has five nights only.
    #[test]
    fn a_step_without_noise_is_a_change() {
        for (before, after) in [(20, 20), (8, 5), (5, 8)] {
            let values = [vec![100.0; before], vec![120.0; after]].concat();
            let found = changes(&values, &ChangeRule::over(1)).expect("positive");
            assert_eq!(found.iter().map(|c| c.at).collect::<Vec<_>>(), [before]);
        }
    }

    #[test]
    fn one_night_far_off_is_no_change() {
        let mut values = nights(&[(60, 100.0)]);
        values[30] = 400.0;
        assert_eq!(changes(&values, &ChangeRule::over(1)), Some(Vec::new()));
        assert!(suspect(&values[40..], 130.0).is_some_and(|s| s.is_outside));
        assert!(suspect(&values[40..], 100.0).is_some_and(|s| !s.is_outside));
        assert_eq!(suspect(&values[..4], 100.0), None);
    }
}
