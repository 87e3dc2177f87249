//! The model as metric families: the one list of names, labels and units of `/metrics`, whatever the format.
//! Base units (seconds, bytes); the run's id is a label of `taillight_run_info` alone, which is joined. Listed for
//! users in docs/live.md.

use taillight_core::LatencyKind;
use taillight_rundir::manifest::LiveViewCost;

use crate::classic;
use crate::model::{LiveModel, OpSoFar, progressed};
use crate::native::NativeHistogram;

/// Type of a family, as Prometheus has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    Counter,
    Gauge,
    Histogram,
}

/// A histogram in both forms that scrapers ask for: classic buckets, and a native histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramValue {
    /// Values in all, also those too large for a bucket.
    pub count: u64,
    /// Sum of the values, seconds.
    pub sum: f64,
    /// Upper edge in seconds, and how many values are up to it; without +Inf.
    pub classic: Vec<(f64, u64)>,
    pub native: NativeHistogram,
}

/// The value of a sample: a number for counters and gauges, else a histogram.
#[derive(Debug, Clone, PartialEq)]
pub enum SampleValue {
    Number(f64),
    Histogram(HistogramValue),
}

/// Names and values of labels, in the order in which they are written.
pub type Labels = Vec<(&'static str, String)>;

/// One series of a family, now.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample {
    pub labels: Labels,
    pub value: SampleValue,
}

/// Samples that share a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Without `_total`, which samples of a counter have behind it.
    pub name: &'static str,
    pub kind: FamilyKind,
    /// `seconds`, `bytes` or `ratio`, with which the name ends; none for plain counts.
    pub unit: Option<&'static str>,
    pub help: &'static str,
    pub samples: Vec<MetricSample>,
}

impl Family {
    /// A family with one sample that has no labels, and without a unit.
    pub fn new(name: &'static str, kind: FamilyKind, help: &'static str, value: f64) -> Family {
        let family = Family { name, kind, unit: None, help, samples: Vec::new() };
        family.with(Vec::new(), value)
    }

    /// A family without samples, to which [`Family::with`] adds them.
    fn of(name: &'static str, kind: FamilyKind, help: &'static str) -> Family {
        Family { name, kind, unit: None, help, samples: Vec::new() }
    }

    /// With another sample, a number.
    fn with(mut self, labels: Labels, value: f64) -> Family {
        self.samples.push(MetricSample { labels, value: SampleValue::Number(value) });
        self
    }

    /// With this unit.
    fn unit(self, unit: &'static str) -> Family {
        Family { unit: Some(unit), ..self }
    }

    /// The name of its samples: a counter's ends in `_total`.
    pub fn sample_name(&self) -> String {
        match self.kind {
            FamilyKind::Counter => format!("{}_total", self.name),
            _ => self.name.to_owned(),
        }
    }
}

const COUNTER: FamilyKind = FamilyKind::Counter;
const GAUGE: FamilyKind = FamilyKind::Gauge;

/// The families of a model and of what its views `used`, those that have a sample.
pub fn families(model: &LiveModel, used: &LiveViewCost) -> Vec<Family> {
    let mut all = run_families(model);
    all.extend(io_families(model));
    all.extend(load_families(model));
    all.extend(machine_families(model));
    all.push(
        Family::new(
            "taillight_live_cpu_seconds",
            COUNTER,
            "CPU time of the live view itself.",
            used.cpu_s,
        )
        .unit("seconds"),
    );
    let help = "Answers to scrapes.";
    all.push(Family::new("taillight_live_scrapes", COUNTER, help, used.scrapes as f64));
    all.retain(|family| !family.samples.is_empty());
    all
}

/// What runs, what it does now, and how far it is; the last only once an interval is over.
fn run_families(model: &LiveModel) -> Vec<Family> {
    let mut all = vec![info(model)];
    let mut phase = Family::of("taillight_phase", GAUGE, "1 for what the run does now.");
    let known = ["prepare", "warmup", "measure", "overtime", "ended"];
    let others = (!known.contains(&model.phase.as_str())).then_some(model.phase.as_str());
    for name in known.into_iter().chain(others) {
        phase = phase.with(vec![("phase", name.to_owned())], f64::from(name == model.phase));
    }
    all.push(phase);
    let Some(view) = &model.last else { return all };
    let seconds =
        |name, help, ns: u64| Family::new(name, GAUGE, help, ns as f64 / 1e9).unit("seconds");
    let elapsed = "Measured time.";
    all.push(seconds("taillight_elapsed_seconds", elapsed, view.elapsed_ns));
    if let Some(planned) = view.planned_ns {
        all.push(seconds("taillight_planned_seconds", "Measured time of the plan.", planned));
    }
    if let Some(far) = progressed(view) {
        let share = far.done as f64 / far.all.max(1) as f64;
        let help = "Part of the measure phase that is done.";
        all.push(
            Family::new("taillight_progress_ratio", GAUGE, help, share.min(1.0)).unit("ratio"),
        );
    }
    all
}

/// The run with its id, plan, driver and place in a series as labels of one sample; no sample before the run is known.
fn info(model: &LiveModel) -> Family {
    let help = "What runs; 1. Join it: the other series have no run.";
    let family = Family::of("taillight_run_info", GAUGE, help);
    let Some(facts) = &model.facts else { return family };
    let mut labels = vec![
        ("run", facts.run_id.clone()),
        ("plan", facts.plan.run.name.clone()),
        ("driver", facts.plan.target.driver.clone()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    labels.extend(facts.host.clone().map(|host| ("host", host)));
    if let Some(point) = &facts.series {
        labels.push(("point", point.id.clone()));
        labels.push(("round", point.round.to_string()));
    }
    family.with(labels, 1.0)
}

/// The labels of an operation: its workload, and its kind.
fn labels(model: &LiveModel, op: &OpSoFar) -> Labels {
    vec![("workload", model.workload(op.workload)), ("op", op.op.name().to_owned())]
}

/// The kinds of latency that are published, each with name and help of its family.
const HISTOGRAMS: [(LatencyKind, &str, &str); 3] = [
    (LatencyKind::Service, "taillight_io_service_seconds", "Submit to completion, of successes."),
    (
        LatencyKind::Response,
        "taillight_io_response_seconds",
        "Intended start to completion, of successes; with a schedule only.",
    ),
    (
        LatencyKind::EndToEnd,
        "taillight_io_end_to_end_seconds",
        "The writer's stamp to completion of the read; of stamped data only.",
    ),
];

/// Latencies, bytes, errors and resolved nines of each operation so far, parts of composed ones included.
fn io_families(model: &LiveModel) -> Vec<Family> {
    let facts = model.facts.as_ref();
    let edges = classic::edges_ns(facts.map_or(&[][..], |f| &f.plan.qos.ceilings));
    let histogram = |(kind, name, help): &(LatencyKind, &'static str, &'static str)| {
        let mut family = Family::of(name, FamilyKind::Histogram, help).unit("seconds");
        for op in &model.ops {
            let held = op.latencies.as_ref().and_then(|l| l.get(*kind));
            let Some(held) = held else { continue };
            let beyond = op.beyond(*kind, held);
            let sum = op.sums_ns.get(*kind).copied().unwrap_or(0);
            let value = SampleValue::Histogram(HistogramValue {
                count: op.count(*kind, held),
                sum: sum as f64 / 1e9,
                classic: classic::cumulative(held, &edges),
                native: NativeHistogram::new(held, beyond),
            });
            family.samples.push(MetricSample { labels: labels(model, op), value });
        }
        family
    };
    let mut all: Vec<Family> = HISTOGRAMS.iter().map(histogram).collect();
    let mut bytes =
        Family::of("taillight_io_bytes", COUNTER, "Bytes moved by successes.").unit("bytes");
    let mut errors = Family::of("taillight_io_errors", COUNTER, "Failed I/Os by what they said.");
    let help = "Nines of a percentile that so many I/Os resolve, were each independent.";
    let mut nines = Family::of("taillight_nines_resolved", GAUGE, help);
    for op in &model.ops {
        bytes = bytes.with(labels(model, op), op.bytes as f64);
        for (status, count) in &op.errors {
            let mut labels = labels(model, op);
            labels.push(("status", taillight_core::Status(*status).to_string()));
            errors = errors.with(labels, *count as f64);
        }
        nines = nines.with(labels(model, op), f64::from(op.nines()));
    }
    all.extend([bytes, errors, nines]);
    all
}

/// What is due, in flight and waiting for each workload, the age of the oldest I/O, and the ceilings of the plan with
/// the share that kept them. In flight and waiting are those at the end of the last interval that is closed.
fn load_families(model: &LiveModel) -> Vec<Family> {
    let of_workload = |w: u16| vec![("workload", model.workload(w))];
    let help = "Operations that were due by the schedule; beside the count of response times.";
    let mut due = Family::of("taillight_io_due", COUNTER, help);
    for (workload, count) in &model.due {
        due = due.with(of_workload(*workload), *count as f64);
    }
    let mut in_flight =
        Family::of("taillight_io_in_flight", GAUGE, "In flight at the end of the last interval.");
    let mut backlog = Family::of("taillight_io_backlog", GAUGE, "Due and not yet sent.");
    if let Some(view) = model.last.as_ref().filter(|view| !view.provisional) {
        for (workload, held) in (0..).zip(&view.closed.in_flight) {
            in_flight = in_flight.with(of_workload(workload), f64::from(held.count));
            let row = view.rows().find(|row| row.workload == workload);
            if let Some(waiting) = row.and_then(|row| row.backlog) {
                backlog = backlog.with(of_workload(workload), waiting as f64);
            }
        }
    }
    let help = "Age of the oldest I/O in flight; of a stall that goes on, at least.";
    let mut oldest = Family::of("taillight_oldest_io_seconds", GAUGE, help).unit("seconds");
    if let Some(ns) = model.oldest_ns() {
        oldest = oldest.with(Vec::new(), ns as f64 / 1e9);
    }
    let help = "A ceiling of the plan.";
    let mut asked = Family::of("taillight_ceiling_seconds", GAUGE, help).unit("seconds");
    let help = "Share of successes so far that kept a ceiling.";
    let mut share = Family::of("taillight_ceiling_kept_ratio", GAUGE, help).unit("ratio");
    for so_far in model.ceilings() {
        let ceiling = &so_far.ceiling;
        let seconds = ceiling.ceiling.0 as f64 / 1e9;
        let mut labels = vec![("at", ceiling.at.to_string())];
        labels.extend(ceiling.workload.clone().map(|name| ("workload", name)));
        labels.extend(ceiling.fanout.map(|n| ("fanout", n.to_string())));
        labels.push(("ceiling", format!("{seconds:?}")));
        asked = asked.with(labels.clone(), seconds);
        if let Some(kept) = so_far.share() {
            share = share.with(labels, kept);
        }
    }
    vec![due, in_flight, backlog, oldest, asked, share]
}

/// What disks, CPUs and pressure were in the last sample of the machine, and the layers that held slow I/Os: as judged
/// while the run goes on, or by the report where nothing was judged before.
fn machine_families(model: &LiveModel) -> Vec<Family> {
    let help = "Share of the last sample in which a disk below the target had a request in flight.";
    let mut disks = Family::of("taillight_host_disk_busy_ratio", GAUGE, help).unit("ratio");
    for (disk, percent) in model.host_figure("disk", "%util") {
        let disk = disk.unwrap_or_default().to_owned();
        disks = disks.with(vec![("disk", disk)], percent / 100.0);
    }
    let help = "Share of the last sample in which the CPUs were not idle.";
    let mut cpus = Family::of("taillight_host_cpu_busy_ratio", GAUGE, help).unit("ratio");
    for (_, idle) in model.host_figure("cpu", "%idle") {
        cpus = cpus.with(Vec::new(), 1.0 - idle / 100.0);
    }
    let help = "Share of the last sample in which some task waited for a resource (pressure).";
    let mut pressure = Family::of("taillight_host_pressure_ratio", GAUGE, help).unit("ratio");
    for resource in ["cpu", "io", "memory"] {
        for (_, percent) in model.host_figure("psi", &format!("{resource}_some")) {
            pressure = pressure.with(vec![("resource", resource.to_owned())], percent / 100.0);
        }
    }
    let help =
        "Slow I/Os by the layer that held them, of a traced run, as judged while it goes on.";
    let mut slow = Family::of("taillight_slow_io", COUNTER, help);
    // A counter never falls: what the report judges with everything has its own place.
    let at_end = || model.end.as_ref()?.slow.as_ref();
    let so_far = Some(&model.slow).filter(|slow| !slow.is_empty());
    for cause in so_far.or_else(at_end).into_iter().flatten() {
        slow = slow.with(vec![("layer", cause.layer.clone())], cause.outliers as f64);
    }
    vec![disks, cpus, pressure, slow]
}

#[cfg(test)]
mod tests {
    use taillight_rundir::host::HostRow;
    use taillight_rundir::summary::Cause;

    use super::*;
    use crate::feed::{LiveEnd, LiveEvent};
    use crate::model::tests::{begun, interval};
    use crate::openmetrics::{TextFormat, text};

    fn scraped(model: &LiveModel) -> String {
        text(&families(model, &LiveViewCost::default()), TextFormat::Prometheus, None)
    }

    #[test]
    fn a_scrape_in_overtime_says_so_and_has_all_that_was_done() {
        let mut model = begun();
        model.take(LiveEvent::Phase("measure".to_owned()));
        model.take(interval(0, &[(500_000, 90)], 2, (7, 3, 100)));
        model.take(LiveEvent::Overtime);
        let text = scraped(&model);
        assert!(text.contains("taillight_phase{phase=\"overtime\"} 1.0"), "{text}");
        assert!(text.contains("taillight_phase{phase=\"measure\"} 0.0"), "{text}");
        assert!(
            text.contains("taillight_io_service_seconds_count{workload=\"w\",op=\"read\"} 90.0")
        );
        assert!(text.contains("taillight_io_backlog{workload=\"w\"} 7.0"), "{text}");
    }

    #[test]
    fn the_machine_is_in_ratios_and_layers_come_with_the_end() {
        let mut model = begun();
        let row = |source: &str, metric: &str, item: Option<&str>, value| HostRow {
            source: source.into(),
            metric: metric.into(),
            item: item.map(Into::into),
            value,
            ..HostRow::default()
        };
        let sample = vec![
            row("disk", "%util", Some("vda"), 50.0),
            row("cpu", "%idle", None, 75.0),
            row("psi", "io_some", None, 12.5),
        ];
        model.take(LiveEvent::Host(sample));
        let before = scraped(&model);
        for line in [
            "taillight_host_disk_busy_ratio{disk=\"vda\"} 0.5\n",
            "taillight_host_cpu_busy_ratio 0.25\n",
            "taillight_host_pressure_ratio{resource=\"io\"} 0.125\n",
        ] {
            assert!(before.contains(line), "{line}{before}");
        }
        assert!(!before.contains("taillight_slow_io"), "unknown is no zero");
        let cause = Cause { layer: "device".to_owned(), outliers: 3, excess_ns: 9, sure: true };
        model.take(LiveEvent::End(Box::new(LiveEnd {
            status: "complete".to_owned(),
            report: None,
            verdict: None,
            word: None,
            slow: Some(vec![cause]),
        })));
        assert!(scraped(&model).contains("taillight_slow_io_total{layer=\"device\"} 3.0\n"));
    }
}
