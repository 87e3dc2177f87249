//! What an exact merge costs: 8, 16, 32 and 64 ranks of this process, a million latencies each. Prints time, bytes and
//! memory; run it with `cargo run --release -p taillight-scale --example merge_cost`.

use std::time::{Duration, Instant};

use taillight_core::Percentile;
use taillight_scale::{LocalGroup, MergeCost, Patience, merged_percentiles};
use taillight_stats::Dist;

const EACH: u64 = 1_000_000;

fn main() {
    let asked = taillight_core::plan::QosPlan::default().percentiles;
    let mut before = None;
    for ranks in [8u32, 16, 32, 64] {
        let dists: Vec<Dist> = (0..ranks).map(|rank| latencies(u64::from(rank))).collect();
        let begin = Instant::now();
        let costs = merge(&dists, &asked);
        let time = begin.elapsed();
        let times = before.map_or(String::new(), |was: Duration| {
            format!(", {:.2} times", time.as_secs_f64() / was.as_secs_f64())
        });
        before = Some(time);
        let bytes = costs.iter().map(|cost| cost.bytes).max().unwrap_or(0);
        println!(
            "{ranks} ranks: {:.3} s{times}, {bytes} B at most a rank, {} rounds, {} kB resident at most",
            time.as_secs_f64(),
            costs.first().map_or(0, |c| c.rounds),
            peak_kb()
        );
    }
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
