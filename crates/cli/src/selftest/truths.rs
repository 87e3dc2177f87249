//! The runs of the selftest: each a job, and what its summary must say.

use taillight_core::LatencyKind;
use taillight_report::format::duration_ns;
use taillight_rundir::Summary;
use taillight_rundir::latency::{Latency, LatencySource};

use super::SelftestCheck;

/// One run with a known result.
pub struct TruthCase {
    pub name: &'static str,
    pub job: &'static str,
    pub check: fn(&Summary) -> Vec<SelftestCheck>,
}

impl TruthCase {
    /// Its job file.
    pub fn text(&self) -> String {
        self.job.replace("[FORTY]", &format!("[{}]", [READ; 40].join(", ")))
    }
}

/// All of them.
pub const CASES: &[TruthCase] = &[
    TruthCase { name: "sim-constant", job: CONSTANT, check: constant },
    TruthCase { name: "sim-rare", job: RARE, check: rare },
    TruthCase { name: "sim-stall", job: STALL, check: stall },
    TruthCase { name: "sim-errors", job: ERRORS, check: errors },
    TruthCase { name: "sim-histogram", job: HISTOGRAM, check: histogram },
    TruthCase { name: "sim-intervals", job: INTERVALS, check: intervals },
    TruthCase { name: "null", job: NULL, check: null },
    TruthCase { name: "memory", job: MEMORY, check: memory },
];

const CONSTANT: &str = r#"
run = { name = "selftest", seed = 1, operations = 100000 }
target = { driver = "sim", options = { service = { kind = "constant", time = "100us" } } }
workload = [{ mix = "read", access = "random" }]
"#;

fn constant(summary: &Summary) -> Vec<SelftestCheck> {
    let totals = &summary.totals;
    let mut checks = vec![
        SelftestCheck::equal("I/Os", 100_000, totals.count),
        SelftestCheck::equal("measured time, ns", 10_000_000_000, totals.duration_ns),
    ];
    let service = service(summary);
    let of_percentiles = service.percentiles.iter().filter_map(|p| p.ns);
    let all: Vec<u64> =
        service.min_ns.into_iter().chain(of_percentiles).chain(service.max_ns).collect();
    let same = all.len() > 10 && all.iter().all(|ns| *ns == 100_000);
    let found = match same {
        true => time(Some(100_000)),
        false => format!("{all:?} ns"),
    };
    checks.push(SelftestCheck::new("every percentile, exactly", "100 us", found, same));
    checks
}

/// Exactly one in a thousand is slow: the first percentile that sees it is known.
const RARE: &str = r#"
run = { name = "selftest", seed = 1, operations = 100000 }
target = { driver = "sim", options = { service = { kind = "bimodal", common = "100us", rare = "10ms", every = 1000 } } }
workload = [{ mix = "read", access = "random" }]
qos = { ceilings = [{ ceiling = "1ms", at = "99" }] }
"#;

fn rare(summary: &Summary) -> Vec<SelftestCheck> {
    let at = |p: &str| percentile(service(summary), p);
    let above = summary.qos.first().map_or(0, |q| q.above);
    vec![
        SelftestCheck::same("p99.9", "100 us", time(at("99.9"))),
        SelftestCheck::same("p99.99", "10.0 ms", time(at("99.99"))),
        SelftestCheck::equal("I/Os above 1 ms", 100, above),
    ]
}

/// Coordinated omission: a stall of a second at a thousand requests a second.
const STALL: &str = r#"
run = { name = "selftest", seed = 1, duration = "10s" }
target = { driver = "sim", options = { service = { kind = "constant", time = "100us" }, stalls = [{ start = "2s", length = "1s" }] } }
workload = [{ mix = "read", access = "random", arrival = { kind = "constant", rate = "1000/s" } }]
qos = { ceilings = [{ ceiling = "500ms", at = "90" }] }
"#;

/// How many requests are answered later than `over_ns` after they were due, by the arithmetic of a queue.
fn stalled(over_ns: u64) -> u64 {
    const SERVICE_NS: u64 = 100_000;
    const STALL_NS: std::ops::Range<u64> = 2_000_000_000..3_000_000_000;
    let mut free_ns = 0;
    let slow = |request: &u64| {
        let due_ns = request * 1_000_000;
        let mut done_ns = free_ns.max(due_ns) + SERVICE_NS;
        if done_ns > STALL_NS.start && done_ns <= STALL_NS.end + SERVICE_NS {
            done_ns = done_ns.max(STALL_NS.end + SERVICE_NS);
        }
        free_ns = done_ns;
        done_ns - due_ns > over_ns
    };
    let slow: Vec<u64> = (0..10_000).filter(slow).collect();
    slow.len() as u64
}

fn stall(summary: &Summary) -> Vec<SelftestCheck> {
    let above = summary.qos.first().map_or(0, |q| q.above);
    let response = summary.totals.latencies.get(LatencyKind::Response);
    let longest = response.and_then(|r| r.max_ns);
    vec![
        SelftestCheck::equal("requests", 10_000, summary.totals.count),
        SelftestCheck::equal("longest response, ns", 1_000_100_000, longest.unwrap_or(0)),
        SelftestCheck::equal("responses above 500 ms", stalled(500_000_000), above),
    ]
}

const ERRORS: &str = r#"
run = { name = "selftest", seed = 1, operations = 50000 }
target = { driver = "sim", options = { errors = { every = 1000, errno = 5 } } }
workload = [{ queue_depth = 8, mix = "read", access = "random" }]
"#;

fn errors(summary: &Summary) -> Vec<SelftestCheck> {
    let good = service(summary).count;
    vec![
        SelftestCheck::equal("failed I/Os", 50, summary.errors.count),
        SelftestCheck::equal("I/Os in the latencies", 49_950, good),
    ]
}

/// Percentiles from a histogram, at values that are no edge of one of its buckets.
const HISTOGRAM: &str = r#"
run = { name = "selftest", seed = 1, operations = 200000 }
target = { driver = "sim", options = { service = { kind = "bimodal", common = "123457ns", rare = "7654321ns", every = 100 } } }
workload = [{ mix = "read", access = "random" }]
capture = { mode = "off" }
"#;

fn histogram(summary: &Summary) -> Vec<SelftestCheck> {
    let service = service(summary);
    let mut checks = vec![SelftestCheck::new(
        "where percentiles come from",
        "a histogram",
        format!("{:?}, within {} %", service.source, service.error * 100.0).to_lowercase(),
        service.source == LatencySource::Histogram && service.error <= 0.001,
    )];
    for (p, truth) in [("50", 123_457), ("99", 123_457), ("99.9", 7_654_321)] {
        let found = percentile(service, p);
        let off = found.map_or(f64::INFINITY, |ns| (ns as f64 / truth as f64 - 1.0).abs());
        let what = format!("p{p}, within its bound");
        let passed = off <= service.error;
        checks.push(SelftestCheck::new(&what, &time(Some(truth)), time(found), passed));
    }
    checks
}

/// Whether 95 % intervals of percentiles from p25 to below p99.5 hold the truth: 40 workloads, and 40 servers for them.
const INTERVALS: &str = r#"
run = { name = "selftest", seed = 1, duration = "1s" }
target = { driver = "sim", options = { channels = 40, service = { kind = "exponential", mean = "200us" } } }
workload = [FORTY]
"#;

const READ: &str = r#"{ mix = "read", access = "random" }"#;

fn intervals(summary: &Summary) -> Vec<SelftestCheck> {
    let mut held = (0_u32, 0_u32);
    for workload in &summary.workloads {
        let latency = workload.totals.latencies.get(LatencyKind::Service);
        for p in latency.into_iter().flat_map(|l| &l.percentiles) {
            let share = p.p.parse::<f64>().unwrap_or(0.0) / 100.0;
            let (Some(lo), Some(hi), true) = (p.lo_ns, p.hi_ns, (0.25..0.995).contains(&share))
            else {
                continue;
            };
            let truth = -(1.0 - share).ln() * 200_000.0;
            held.1 += 1;
            held.0 += u32::from((lo as f64 - 0.5..=hi as f64 + 0.5).contains(&truth));
        }
    }
    let share = 100.0 * f64::from(held.0) / f64::from(held.1.max(1));
    vec![SelftestCheck::new(
        "95 % intervals that hold the truth",
        "at least 92 %",
        format!("{share:.1} % of {}", held.1),
        held.1 >= 200 && share >= 92.0,
    )]
}

const NULL: &str = r#"
run = { name = "selftest", seed = 1, operations = 2000000 }
target = { driver = "null", size = "1GiB" }
workload = [{ queue_depth = 32, mix = { read = 50, write = 50 }, access = "random" }]
"#;

fn null(summary: &Summary) -> Vec<SelftestCheck> {
    let by_kind: u64 = summary.ops.values().map(|op| op.count).sum();
    vec![
        SelftestCheck::equal("I/Os", 2_000_000, summary.totals.count),
        SelftestCheck::equal("reads and writes", 2_000_000, by_kind),
        SelftestCheck::equal("I/Os in the latencies", 2_000_000, service(summary).count),
    ]
}

const MEMORY: &str = r#"
run = { name = "selftest", seed = 1, operations = 200000 }
target = { driver = "memory" }
workload = [{ workers = 2, mix = { get = 50, update = 50 }, block_size = "200B", access = "random", keys = { count = 10000 } }]
verify = { mode = "inline" }
"#;

fn memory(summary: &Summary) -> Vec<SelftestCheck> {
    let wrong = summary.verify.as_ref().map_or("not checked".to_owned(), |v| match v.failed() {
        true => "some".to_owned(),
        false => "none".to_owned(),
    });
    vec![
        SelftestCheck::equal("operations", 200_000, summary.totals.count),
        SelftestCheck::same("wrong values read", "none", wrong),
    ]
}

fn service(summary: &Summary) -> &Latency {
    // Every I/O has a service time.
    &summary.totals.latencies.service
}

fn percentile(latency: &Latency, p: &str) -> Option<u64> {
    latency.percentiles.iter().find(|entry| entry.p == p)?.ns
}

fn time(ns: Option<u64>) -> String {
    ns.map_or("none".to_owned(), duration_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_holds_a_known_number_of_requests() {
        // Request k of the stall is answered after 1 s - k x 0.9 ms + 0.1 ms.
        assert_eq!(stalled(500_000_000), 556);
        assert_eq!(stalled(2_000_000_000), 0);
    }
}
