//! From the points of a series to the charts of its sweep: figures over rounds by setting, the field that is
//! demand (queue depth, workers or rate), curves of rate by demand, and their knees in words and as decisions.
//! The rule of a knee is `taillight_stats::knee`.

use std::collections::BTreeMap;

use serde_json::Value;
use taillight_report::format::{duration, rate};
use taillight_report::sweep::{
    DemandCurve, DemandResult, RoundSpread, SweepAxis, SweepData, SweepPoint,
};
use taillight_rundir::series::{Axis, Decision};
use taillight_stats::{DemandPoint, Knee, knee};

use crate::axis;
use crate::figures;
use crate::method::PointResult;

/// Last parts of paths whose values are demand.
const DEMANDS: [&str; 3] = ["queue_depth", "workers", RATE];
/// The one of them that a run may not reach.
const RATE: &str = "rate";
/// Largest over smallest value from which an axis is logarithmic.
const WIDE: f64 = 8.0;

/// An axis with the place of each of its values.
struct PlacedAxis {
    path: String,
    values: Vec<Value>,
    numbers: Option<Vec<f64>>,
}

impl PlacedAxis {
    /// Values in rising order where they are numbers.
    fn new(axis: &Axis) -> PlacedAxis {
        let mut values = axis.values.clone();
        let mut numbers = axis::numbers(values.iter()).map(|(_, numbers)| numbers);
        if let Some(unsorted) = &mut numbers {
            let mut pairs: Vec<(f64, Value)> = unsorted.drain(..).zip(values.drain(..)).collect();
            pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
            (*unsorted, values) = pairs.into_iter().unzip();
        }
        PlacedAxis { path: axis.path.clone(), values, numbers }
    }

    /// The last part of its path.
    fn field(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    fn position(&self, result: &PointResult) -> Option<usize> {
        let value = result.point.coordinates.get(&self.path)?;
        self.values.iter().position(|v| v == value)
    }

    fn sweep_axis(&self, name: String) -> SweepAxis {
        let places = || (0..self.values.len()).map(|n| n as f64).collect::<Vec<_>>();
        let numbers = self.numbers.clone();
        let wide = |n: &Vec<f64>| {
            let (first, last) = (n.first().copied(), n.last().copied());
            first.zip(last).is_some_and(|(a, b)| a > 0.0 && b / a >= WIDE)
        };
        SweepAxis {
            name,
            labels: self.values.iter().map(axis::value_text).collect(),
            log: numbers.as_ref().is_some_and(wide),
            positions: numbers.unwrap_or_else(places),
        }
    }
}

/// What the charts of a series show, from its complete points; none where no field takes several values.
pub fn sweep_data<'a>(
    axes: &[Axis],
    done: impl IntoIterator<Item = &'a PointResult>,
) -> Option<SweepData> {
    let axes: Vec<PlacedAxis> =
        axes.iter().filter(|a| a.values.len() > 1).map(PlacedAxis::new).collect();
    if axes.is_empty() {
        return None;
    }
    let paths: Vec<&str> = axes.iter().map(|a| a.path.as_str()).collect();
    let names: Vec<String> = paths.iter().map(|path| axis::name(path, &paths)).collect();
    let placed: Vec<(Vec<usize>, &PointResult)> = done
        .into_iter()
        .filter(|r| r.complete())
        .filter_map(|r| Some((axes.iter().map(|a| a.position(r)).collect::<Option<_>>()?, r)))
        .collect();
    let shown = axes.iter().zip(&names).map(|(a, name)| a.sweep_axis(name.clone())).collect();
    let curves = curves(&axes, &names, &placed);
    Some(SweepData { axes: shown, points: points(&placed), curves, ..SweepData::default() })
}

/// Figures of an operation in all rounds of a setting.
#[derive(Default)]
struct RoundFigures {
    iops: Vec<f64>,
    ops: Vec<f64>,
    mean_ns: Vec<f64>,
    p99_ns: Vec<f64>,
    cpu_percent: Vec<f64>,
}

fn points(placed: &[(Vec<usize>, &PointResult)]) -> Vec<SweepPoint> {
    let mut rounds: BTreeMap<(Vec<usize>, String), RoundFigures> = BTreeMap::new();
    let ops = |result: &PointResult| -> usize {
        result.summary.iter().flat_map(|s| &s.workloads).map(|w| w.ops.len()).sum()
    };
    // All together is a line over every setting, also those with one operation.
    let several = placed.iter().any(|(_, result)| ops(result) != 1);
    for (at, result) in placed {
        let mut add = |series: String, [iops, ops, mean, p99, cpu]: [Option<f64>; 5]| {
            let figures = rounds.entry((at.clone(), series)).or_default();
            figures.iops.extend(iops);
            figures.ops.extend(ops);
            figures.mean_ns.extend(mean);
            figures.p99_ns.extend(p99);
            figures.cpu_percent.extend(cpu);
        };
        let workloads = result.summary.as_ref().map_or(&[][..], |s| &s.workloads);
        let value = |name: &str| result.values.get(name).copied();
        if several {
            let all = ["iops", "ops", "mean_ns", "p99_ns", "cpu_percent"].map(value);
            add("all".to_owned(), all);
        }
        for workload in workloads {
            for (op, totals) in &workload.ops {
                let series = match workloads.len() {
                    1 => op.name().to_owned(),
                    _ => format!("{} {}", workload.name, op.name()),
                };
                let main = totals.latencies.main();
                let p99 = main.nines.iter().find(|n| n.k == 2).and_then(|n| n.ns);
                let cpu = value("cpu_percent").filter(|_| !several);
                let p99 = p99.map(|ns| ns as f64);
                let count = Some(totals.count as f64);
                add(series, [Some(totals.iops), count, main.mean_ns, p99, cpu]);
            }
        }
    }
    let point = |((at, series), figures): ((Vec<usize>, String), RoundFigures)| {
        Some(SweepPoint {
            at,
            series,
            iops: spread("iops", &figures.iops, &figures.ops)?,
            mean_ns: spread("mean_ns", &figures.mean_ns, &figures.ops),
            p99_ns: spread("p99_ns", &figures.p99_ns, &figures.ops),
            cpu_percent: spread("cpu_percent", &figures.cpu_percent, &figures.ops),
        })
    };
    rounds.into_iter().filter_map(point).collect()
}

fn spread(name: &str, values: &[f64], ops: &[f64]) -> Option<RoundSpread> {
    let value = figures::of_rounds(name, values, ops)?;
    let (min, max) = (values.iter().copied().fold(value, f64::min), values.iter().copied());
    Some(RoundSpread { value, min, max: max.fold(value, f64::max) })
}

/// What the rounds of one place of a curve gave.
#[derive(Default)]
struct CurveRounds<'a> {
    results: Vec<&'a PointResult>,
    /// Rounds in which the rate asked for was not reached.
    missed: usize,
}

const NO_DEMAND: &str = "no knee: a schedule sets the rate, and the sweep does not change it";

/// One curve for each setting of the other fields, over the field that is demand and has the most
/// values.
fn curves(
    axes: &[PlacedAxis],
    names: &[String],
    placed: &[(Vec<usize>, &PointResult)],
) -> Vec<DemandCurve> {
    let demand =
        |(_, a): &(usize, &PlacedAxis)| a.numbers.is_some() && DEMANDS.contains(&a.field());
    let found = axes.iter().enumerate().filter(demand).max_by_key(|(_, a)| a.values.len());
    let Some((along, axis)) = found else {
        return Vec::new();
    };
    let mut groups: BTreeMap<Vec<usize>, BTreeMap<usize, CurveRounds<'_>>> = BTreeMap::new();
    for (at, result) in placed {
        let mut others = at.clone();
        others.remove(along);
        let rounds = groups.entry(others).or_default().entry(at[along]).or_default();
        rounds.results.push(*result);
        let saturated = result.summary.as_ref().is_some_and(|s| s.saturation.saturated);
        rounds.missed += usize::from(saturated && axis.field() == RATE);
    }
    let label = |place: usize| axis.values.get(place).map_or(String::new(), axis::value_text);
    let curve = |(others, points): (Vec<usize>, BTreeMap<usize, CurveRounds<'_>>)| {
        let rest = axes.iter().zip(names).enumerate().filter(|(i, _)| *i != along);
        let words = rest.zip(&others).filter_map(|((_, (axis, name)), at)| {
            Some(format!("{name} {}", axis::value_text(axis.values.get(*at)?)))
        });
        let result = |place: usize, rounds: &CurveRounds<'_>| {
            Some(DemandResult {
                label: label(place),
                demand: *axis.numbers.as_ref()?.get(place)?,
                outstanding: rounds.results.last()?.point.plan.outstanding(),
                rate: figures::over_rounds("iops", &rounds.results)?,
                mean_ns: figures::over_rounds("mean_ns", &rounds.results)?,
            })
        };
        let (mut found, mut lacking) = (Vec::new(), Vec::new());
        for place in 0..axis.values.len() {
            let missed = |rounds: &CurveRounds<'_>| rounds.missed * 2 > rounds.results.len();
            match points.get(&place).and_then(|r| Some((result(place, r)?, missed(r)))) {
                Some(point) => found.push(point),
                None => lacking.push(label(place)),
            }
        }
        let mut curve = described(words.collect::<Vec<_>>().join(", "), &names[along], found);
        let open_loop =
            |r: &&PointResult| r.point.plan.workloads.iter().any(|w| !w.arrival.is_closed());
        // How much may be in flight is no demand where a schedule sets the rate.
        if axis.field() != RATE && points.values().flat_map(|r| &r.results).any(open_loop) {
            (curve.knee, curve.text) = (None, NO_DEMAND.to_owned());
        }
        if !lacking.is_empty() {
            curve.text.push_str(&format!("; no result at {}", lacking.join(", ")));
        }
        curve
    };
    groups.into_iter().map(curve).collect()
}

/// A curve of points, each with whether its rate was missed.
fn described(name: String, demand: &str, points: Vec<(DemandResult, bool)>) -> DemandCurve {
    let of = |(p, missed): &(DemandResult, bool)| DemandPoint {
        demand: p.demand,
        rate: p.rate,
        missed: *missed,
    };
    let found = knee(&points.iter().map(of).collect::<Vec<_>>());
    let (points, missed): (Vec<DemandResult>, Vec<bool>) = points.into_iter().unzip();
    let label = |at: Option<&DemandResult>| at.map_or(String::new(), |p| p.label.clone());
    let first_missed = points.iter().zip(&missed).find(|(_, missed)| **missed).map(|(p, _)| p);
    let what = match found {
        Knee::At(at) => points.get(at).map_or(String::new(), |p| {
            let time = duration(p.mean_ns);
            let rate = rate(p.rate);
            let above =
                first_missed.map_or(String::new(), |p| format!("; {} was not reached", p.label));
            let at = if at == 0 && first_missed.is_none() { "at or below" } else { "at" };
            format!("knee {at} {demand} {}: {rate} a second, {time} on average{above}", p.label)
        }),
        Knee::TooFew => "no knee: three demands or more would show one".to_owned(),
        Knee::BelowRange => {
            format!("no knee: {demand} {} was not reached", label(points.first()))
        }
        Knee::AboveRange => {
            format!("no knee: the rate still rises up to {demand} {}", label(points.last()))
        }
    };
    let text = if name.is_empty() { what } else { format!("{name}: {what}") };
    let knee = match found {
        Knee::At(at) => Some(at),
        _ => None,
    };
    DemandCurve { name, demand: demand.to_owned(), points, knee, text }
}

/// What the curves say, for `series.json`.
pub fn decisions(data: &SweepData, round: u32) -> Vec<Decision> {
    let decision = |curve: &DemandCurve| {
        let at = curve.knee.and_then(|at| curve.points.get(at));
        let figures = |p: &DemandResult| {
            let named = [("demand", p.demand), ("rate_per_s", p.rate), ("mean_ns", p.mean_ns)];
            named.map(|(name, value)| (name.to_owned(), value)).into()
        };
        Decision {
            points: Vec::new(),
            rule: "knee".to_owned(),
            round,
            values: at.map(figures).unwrap_or_default(),
            verdict: if at.is_some() { "knee" } else { "none" }.to_owned(),
            text: curve.text.clone(),
        }
    };
    data.curves.iter().map(decision).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use taillight_core::exit::Exit;
    use taillight_core::plan::{Arrival, Plan};
    use taillight_rundir::series::{PointRole, PointStatus};

    use super::*;
    use crate::method::Point;

    fn axis(path: &str, values: &[Value]) -> Axis {
        Axis { path: path.to_owned(), unit: None, values: values.to_vec() }
    }

    fn result(coordinates: &[(&str, Value)], iops: f64, mean_ns: f64) -> PointResult {
        let point = Point::new("p".to_owned(), PointRole::Sweep, Plan::default(), None);
        let coordinates = coordinates.iter().map(|(path, v)| ((*path).to_owned(), v.clone()));
        let values = [("iops", iops), ("ops", iops), ("mean_ns", mean_ns)];
        PointResult {
            point: Point { coordinates: coordinates.collect(), ..point },
            dir: "p".into(),
            exit: Exit::Ok,
            status: PointStatus::Complete,
            summary: None,
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    const DEPTH: &str = "workload.0.queue_depth";
    const SIZE: &str = "workload.0.block_size";

    #[test]
    fn each_combination_of_the_others_has_a_curve_in_order_of_demand() {
        let depths = [json!(16), json!(1), json!(4), json!(8)];
        let axes = [
            axis(DEPTH, &depths),
            axis(SIZE, &[json!("4KiB"), json!("64KiB")]),
            axis("run.seed", &[json!(1)]),
        ];
        let mut done = Vec::new();
        for (size, channels) in [("4KiB", 4.0), ("64KiB", 100.0)] {
            for depth in [16.0, 1.0, 4.0, 8.0] {
                let rate = 1_000.0 * f64::min(depth, channels);
                let at = [(DEPTH, json!(depth as u32)), (SIZE, json!(size))];
                // Two rounds: the average is between them.
                done.push(result(&at, rate * 0.9, 1e9 * depth / rate));
                done.push(result(&at, rate * 1.1, 1e9 * depth / rate));
            }
        }
        let data = sweep_data(&axes, &done).expect("a sweep");
        assert_eq!(data.axes[0].labels, ["1", "4", "8", "16"], "an axis of one value is none");
        assert_eq!((data.axes.len(), data.axes[0].log), (2, true));
        assert_eq!(data.axes[1].positions, [4096.0, 65536.0]);
        assert_eq!(data.points.len(), 8);
        let spread = RoundSpread { value: 1_000.0, min: 900.0, max: 1_100.0 };
        assert_eq!((data.points[0].iops, data.points[0].p99_ns), (spread, None));
        let texts: Vec<&str> = data.curves.iter().map(|c| c.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "block_size 4KiB: knee at queue_depth 4: 4,000 a second, 1.00 ms on average",
                "block_size 64KiB: no knee: the rate still rises up to queue_depth 16",
            ]
        );
        let decided = decisions(&data, 2);
        assert_eq!((decided[0].verdict.as_str(), decided[0].values["demand"]), ("knee", 4.0));
        assert_eq!((decided[1].verdict.as_str(), decided[1].values.len()), ("none", 0));
    }

    #[test]
    fn a_rate_that_is_flat_from_the_start_has_its_knee_there() {
        let axes = [axis(DEPTH, &[json!(1), json!(4), json!(16)])];
        let of =
            |(depth, rate)| result(&[(DEPTH, json!(depth))], rate, 1e9 * f64::from(depth) / rate);
        // A throttle: what differs is less than 2 %.
        let done: Vec<PointResult> = [(1, 495.0), (4, 500.0), (16, 502.0)].map(of).into();
        let data = sweep_data(&axes, &done).expect("a sweep");
        let text = "knee at or below queue_depth 1: 495 a second, 2.02 ms on average";
        assert_eq!((data.curves[0].knee, data.curves[0].text.as_str()), (Some(0), text));
    }

    #[test]
    fn a_schedule_that_sets_the_rate_is_no_knee() {
        let axes = [axis(DEPTH, &[json!(1), json!(4), json!(16)])];
        let of = |depth: u32| {
            let mut result = result(&[(DEPTH, json!(depth))], 500.0, 1e6);
            let mut plan = taillight_rundir::fixture::plan();
            let rate = "500/s".parse().expect("a rate");
            plan.workloads[0].arrival = Arrival::Constant { rate };
            result.point.plan = plan;
            result
        };
        let data = sweep_data(&axes, &[1, 4, 16].map(of)).expect("a sweep");
        assert_eq!((data.curves[0].knee, data.curves[0].text.as_str()), (None, NO_DEMAND));
    }

    #[test]
    fn demands_without_a_result_are_named() {
        let axes = [axis(DEPTH, &[json!(1), json!(2), json!(4), json!(8), json!(16)])];
        let done = |rates: &[(u32, f64)]| -> Vec<PointResult> {
            rates.iter().map(|(d, rate)| result(&[(DEPTH, json!(d))], *rate, 1e6)).collect()
        };
        let text = |rates: &[(u32, f64)]| {
            sweep_data(&axes, &done(rates)).expect("a sweep").curves[0].text.clone()
        };
        assert_eq!(
            text(&[(1, 1e3), (2, 2e3), (4, 4e3)]),
            "no knee: the rate still rises up to queue_depth 4; no result at 8, 16"
        );
        assert_eq!(
            text(&[(1, 1e3), (2, 2e3), (8, 2e3)]),
            "knee at queue_depth 2: 2,000 a second, 1.00 ms on average; no result at 4, 16"
        );
    }

    #[test]
    fn a_field_that_is_no_demand_has_no_curve() {
        let axes = [axis(SIZE, &[json!("64KiB"), json!("4KiB"), json!("1MiB")])];
        let done = ["4KiB", "64KiB", "1MiB"].map(|s| result(&[(SIZE, json!(s))], 5.0, 1.0));
        let data = sweep_data(&axes, &done).expect("a sweep");
        assert_eq!((data.curves.len(), data.points.len()), (0, 3));
        assert_eq!(data.axes[0].labels, ["4KiB", "64KiB", "1MiB"], "in order of size");
        assert!(sweep_data(&[], &done).is_none());
    }

    #[test]
    fn names_are_as_short_as_they_can_be() {
        let two = [json!(1), json!(2)];
        let axes = [axis("workload.0.workers", &two), axis("workload.1.workers", &two)];
        let data = sweep_data(&axes, &[]).expect("a sweep");
        let names: Vec<&str> = data.axes.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["0.workers", "1.workers"]);
    }
}
