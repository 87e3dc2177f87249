//! Ranks in this process and in others of this machine. What an exact merge costs is a proof: `cargo xtask proof merge`
//! makes the table of `docs/hosts.md` from it.

mod clocks;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;
use taillight_core::Percentile;
use taillight_scale::{LocalGroup, MergeCost, Patience, merged_percentiles};
use taillight_stats::Dist;

/// Latencies of each rank.
const EACH: u64 = 1_000_000;
/// What a doubling of the ranks may cost, and what a merge may take in time and memory.
const DOUBLING: f64 = 2.4;
const MOST: Duration = Duration::from_secs(10);
const MOST_KB: u64 = 1 << 20;
/// Merges of each number of ranks: the fastest counts, which foreign load disturbs least.
const TIMES: usize = 30;

#[test]
#[ignore = "a proof: cargo xtask proof merge"]
fn proof() {
    let path = std::env::var("PROOF_RESULTS").expect("PROOF_RESULTS");
    let asked = taillight_core::plan::QosPlan::default().percentiles;
    let (mut lines, mut before) = (String::new(), None);
    for ranks in [8u32, 16, 32, 64] {
        let dists: Vec<Dist> = (0..ranks).map(|rank| latencies(u64::from(rank))).collect();
        let mut tries = (0..TIMES).map(|_| {
            let begin = Instant::now();
            let costs = merge(&dists, &asked);
            assert_eq!(costs.len(), ranks as usize, "every rank has the figures");
            (begin.elapsed(), costs)
        });
        let first = tries.next().expect("a merge");
        let (time, costs) = tries.fold(first, |a, b| if b.0 < a.0 { b } else { a });
        let times = before.map(|was: Duration| time.as_secs_f64() / was.as_secs_f64());
        let bytes = costs.iter().map(|cost| cost.bytes).max().unwrap_or(0);
        let memory = peak_kb();
        let line = json!({
            "ranks": ranks, "ms": time.as_secs_f64() * 1e3, "times": times, "bytes": bytes,
            "rounds": costs.first().map_or(0, |c| c.rounds), "mib": memory >> 10,
            "build": if cfg!(debug_assertions) { "unoptimised" } else { "release" },
        });
        println!("{line}");
        writeln!(lines, "{line}").expect("a string");
        assert!(times.is_none_or(|times| times <= DOUBLING), "{ranks} ranks: {times:?}");
        assert!(time <= MOST && memory <= MOST_KB, "{ranks} ranks: {time:?}, {memory} kB");
        assert!(bytes < 1 << 20, "{ranks} ranks: {bytes} B");
        before = Some(time);
    }
    std::fs::write(path, lines).expect("results");
}

/// Some 100 us with a tail, spread over nanoseconds.
fn latencies(seed: u64) -> Dist {
    let mut x = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let next = |_| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let u = ((x >> 33) as f64 + 1.0) / (1u64 << 31) as f64;
        (80_000.0 - 20_000.0 * u.min(1.0).ln()) as u64
    };
    Dist::from_values((0..EACH).map(next).collect())
}

fn merge(dists: &[Dist], asked: &[Percentile]) -> Vec<MergeCost> {
    std::thread::scope(|scope| {
        let ranks = LocalGroup::of(dists.len() as u32, 1).into_iter().zip(dists);
        let threads: Vec<_> = ranks
            .map(|(mut rank, own)| {
                scope.spawn(move || {
                    let patience = Patience::of(Duration::from_secs(60));
                    merged_percentiles(&mut rank, own, asked, patience).ok().flatten().map(|m| m.2)
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
    })
}

fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}
