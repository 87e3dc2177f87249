//! Schedules of every kind: exact instants and counts, shares of workers, joining, warm-up; of Poisson the distribution
//! of gaps.

use super::*;
use crate::testing::plan;
use proptest::prelude::*;
use taillight_core::plan::{BlockSize, BlockSizePart, RateStep};
use taillight_core::units::{ByteSize, Span};

fn worker_index(index: u32, of: u32) -> WorkerIndex {
    WorkerIndex { worker: index as u16, index, of }
}

fn schedule_of(arrival: &Arrival, at: WorkerIndex, warmup_ns: u64, join: Option<u64>) -> Schedule {
    let join = join.map(|join| warmup_ns + join);
    let mut w = plan().workloads.remove(0);
    w.arrival = arrival.clone();
    let all = Schedules::new(&w, 7, warmup_ns).unwrap();
    all.of(at, join).unwrap()
}

fn schedule(arrival: &Arrival, index: u32, of: u32) -> Schedule {
    schedule_of(arrival, worker_index(index, of), 0, None)
}

fn constant(rate: &str) -> Arrival {
    Arrival::Constant { rate: rate.parse().unwrap() }
}
fn poisson(rate: &str) -> Arrival {
    Arrival::Poisson { rate: rate.parse().unwrap() }
}
fn bursts(rate: &str, on: &str, off: &str) -> Arrival {
    Arrival::Bursts {
        rate: rate.parse().unwrap(),
        on: on.parse().unwrap(),
        off: off.parse().unwrap(),
    }
}
fn steps(list: &[(&str, &str)]) -> Arrival {
    let step = |(rate, time): &(&str, &str)| RateStep {
        rate: rate.parse().unwrap(),
        time: time.parse().unwrap(),
    };
    Arrival::Steps { steps: list.iter().map(step).collect() }
}
fn ramp(from: &str, to: &str, over: &str) -> Arrival {
    Arrival::Ramp {
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        over: over.parse().unwrap(),
    }
}

fn times(mut s: Schedule, n: usize) -> Vec<i64> {
    (0..n)
        .map(|_| {
            let t = s.peek().unwrap().0;
            s.advance();
            t
        })
        .collect()
}

fn before(mut s: Schedule, until: i64) -> Vec<i64> {
    let mut all = Vec::new();
    while s.peek().unwrap().0 < until {
        all.push(s.peek().unwrap().0);
        s.advance();
    }
    all
}

/// Kinds with awkward numbers.
fn kinds() -> Vec<Arrival> {
    vec![
        constant("3/s"),
        constant("999983/s"),
        poisson("70000/s"),
        bursts("1001/s", "7ms", "5ms"),
        bursts("3/s", "500ms", "250ms"),
        steps(&[("100/s", "33ms"), ("7/s", "700ms"), ("1777/s", "1s")]),
        ramp("10/s", "1000/s", "900ms"),
        ramp("1000/s", "1/s", "900ms"),
        ramp("50/s", "50/s", "100ms"),
    ]
}

const SECOND: i64 = 1_000_000_000;

#[test]
fn three_a_second_over_five_workers_is_three_a_second() {
    let mut all: Vec<i64> =
        (0..5).flat_map(|k| times(schedule(&constant("3/s"), k, 5), 6)).collect();
    all.sort_unstable();
    let expected: Vec<i64> = (0..30).map(|i| i * SECOND / 3).collect();
    assert_eq!(all, expected);
}

#[test]
fn workers_together_are_the_workloads_schedule() {
    for arrival in kinds() {
        if matches!(arrival, Arrival::Poisson { .. }) {
            continue; // streams of their own: tested by their gaps
        }
        let whole = before(schedule(&arrival, 0, 1), 3 * SECOND);
        for of in [2, 5] {
            let mut all: Vec<i64> =
                (0..of).flat_map(|k| before(schedule(&arrival, k, of), 3 * SECOND)).collect();
            all.sort_unstable();
            assert_eq!(all, whole, "{arrival} over {of}");
        }
    }
}

#[test]
fn byte_rates_are_exact() {
    // 0.5 MiB/s of 4 KiB blocks: 128 per second.
    assert_eq!(times(schedule(&constant("0.5MiB/s"), 0, 1), 3), [0, 7_812_500, 15_625_000]);
    // 0.5 MiB/s of 1 MiB blocks: one every two seconds.
    let mut w = plan().workloads.remove(0);
    w.block_size = BlockSize::Fixed(ByteSize(1 << 20));
    w.arrival = constant("0.5MiB/s");
    let s = Schedules::new(&w, 7, 0).unwrap().of(worker_index(0, 1), None);
    assert_eq!(times(s.unwrap(), 3), [0, 2 * SECOND, 4 * SECOND]);
}

#[test]
fn mixed_sizes_meet_a_byte_rate() {
    let mut p = plan();
    let part = |size: u64, weight| BlockSizePart { size: ByteSize(size), weight };
    p.workloads[0].block_size =
        BlockSize::Split(vec![part(4096, 7), part(16384, 2), part(65536, 1)]);
    p.workloads[0].access.align = ByteSize(4096);
    p.workloads[0].arrival = constant("100MB/s");
    let w = &p.workloads[0];
    let s = Schedules::new(w, 7, 0).unwrap().of(worker_index(0, 1), None);
    let n = before(s.unwrap(), 60 * SECOND).len();
    let shape = taillight_driver::Geometry { files: 1, file_size: 1 << 30, align: 1 };
    let mut generator =
        crate::generator::Generator::new(&p, w, shape, worker_index(0, 1), None).unwrap();
    let bytes: u64 = (0..n).map(|_| generator.next().size).sum();
    let rate = bytes as f64 / 60.0;
    // The mean of n sizes: 4 standard errors of this mix are below 0.6 %.
    assert!((rate / 100e6 - 1.0).abs() < 0.006, "{rate}");
}

#[test]
fn bursts_are_exact_at_their_edges() {
    // 10 in each burst of 10 ms, the first at its first nanosecond; none at its end.
    let all = times(schedule(&bursts("1000/s", "10ms", "90ms"), 0, 1), 30);
    let expected: Vec<i64> = (0..30).map(|i| i / 10 * 100_000_000 + i % 10 * 1_000_000).collect();
    assert_eq!(all, expected);
    // 1.5 operations a burst: two and one in turns.
    let all = before(schedule(&bursts("3/s", "500ms", "500ms"), 0, 1), 4 * SECOND);
    let first = 333_333_333;
    let third = SECOND + 166_666_666;
    assert_eq!(all, [0, first, third, 2 * SECOND, 2 * SECOND + first, 2 * SECOND + third]);
}

#[test]
fn steps_change_at_their_edges() {
    let arrival = steps(&[("1000/s", "1s"), ("10/s", "2s"), ("100/s", "1s")]);
    let all = before(schedule(&arrival, 0, 1), 5 * SECOND);
    let in_step = |from: i64, to: i64| {
        let of: Vec<i64> =
            all.iter().copied().filter(|t| (from * SECOND..to * SECOND).contains(t)).collect();
        (of.len(), of[0])
    };
    assert_eq!(in_step(0, 1), (1000, 0));
    assert_eq!(in_step(1, 3), (20, SECOND));
    // The last one stays past its time.
    assert_eq!(in_step(3, 5), (200, 3 * SECOND));
    // What a step leaves of an operation counts in the next: 1.5 + 1.5 = 3.
    let halves = steps(&[("3/s", "500ms"), ("1.5/s", "1s"), ("1/s", "1s")]);
    let all = before(schedule(&halves, 0, 1), 1_500_000_000);
    assert_eq!(all, [0, 333_333_333, 833_333_333]);
}

#[test]
fn a_ramp_is_the_inverse_of_its_integral() {
    // 0+ to 1000/s in 2 s is 1000 operations (the start is 1/s, hence 1001).
    let up = before(schedule(&ramp("1/s", "1000/s", "2s"), 0, 1), 2 * SECOND);
    assert_eq!(up.len(), 1001);
    // Half of the time, a quarter of the operations: i(t) = t + 999/4 t^2, t in seconds.
    for (i, t) in up.iter().enumerate() {
        let at = |ns: i64| {
            let t = ns as f64 / 1e9;
            t + 999.0 / 4.0 * t * t
        };
        assert!(at(*t) <= i as f64 + 1e-6, "{i}: {t}");
        assert!(at(*t + 1) > i as f64 - 1e-6, "{i}: {t}");
    }
    assert!(up.windows(2).all(|w| w[0] < w[1]));
    // Down is up seen from the end: the same number of operations.
    let down = before(schedule(&ramp("1000/s", "1/s", "2s"), 0, 1), 2 * SECOND);
    assert_eq!(down.len(), 1001);
    // Then it stays.
    let after = before(schedule(&ramp("1/s", "1000/s", "2s"), 0, 1), 5 * SECOND);
    assert_eq!(after.len(), 1001 + 3000);
}

#[test]
fn long_runs_of_odd_rates_do_not_overflow() {
    let mut w = plan().workloads.remove(0);
    let part = |size: u64, weight| BlockSizePart { size: ByteSize(size), weight };
    w.block_size = BlockSize::Split(vec![part(512, 2), part(4096, 1)]);
    w.arrival = ramp("0.37MB/s", "953.1MiB/s", "100h");
    let mut s = Schedules::new(&w, 7, 0).unwrap().of(worker_index(0, 1), None).unwrap();
    let hour = 3600 * SECOND;
    let (half, whole) = (s.due(Stamp(50 * hour)), s.due(Stamp(100 * hour)));
    assert!((whole as f64 / half as f64 - 4.0).abs() < 0.01, "{half} {whole}");
    s.skip(99 * hour);
    let at = s.peek().unwrap().0;
    assert!((99 * hour..99 * hour + 2000).contains(&at), "{at}");
}

#[test]
fn profiles_begin_with_the_measure_phase() {
    for arrival in kinds() {
        let plain = before(schedule(&arrival, 0, 1), SECOND);
        let warm = schedule_of(&arrival, worker_index(0, 1), 777_777_777, None);
        let all = before(warm, SECOND + 777_777_777);
        let after: Vec<i64> =
            all.iter().filter(|t| **t >= 777_777_777).map(|t| t - 777_777_777).collect();
        match arrival {
            Arrival::Constant { .. } | Arrival::Poisson { .. } => {}
            _ => {
                assert_eq!(after, plain, "{arrival}");
                assert!(all.len() > after.len(), "{arrival}: nothing to warm up");
            }
        }
    }
}

#[test]
fn a_worker_that_joins_late_leaves_its_share_out() {
    for arrival in kinds() {
        let join = 600_000_000;
        let late = before(schedule_of(&arrival, worker_index(1, 3), 0, Some(join)), SECOND);
        let all = before(schedule(&arrival, 1, 3), SECOND);
        if matches!(arrival, Arrival::Poisson { .. }) {
            assert!(late.iter().all(|t| *t >= join as i64));
            continue;
        }
        let expected: Vec<i64> = all.into_iter().filter(|t| *t >= join as i64).collect();
        assert_eq!(late, expected, "{arrival}");
    }
}

/// Kolmogorov and Smirnov's distance between gaps and the exponential distribution.
fn distance(times: &[i64], mean: f64) -> f64 {
    let mut gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let far = |(i, gap): (usize, &f64)| {
        let expected = 1.0 - (-gap / mean).exp();
        let (low, high) = (i as f64 / n, (i + 1) as f64 / n);
        (expected - low).abs().max((expected - high).abs())
    };
    gaps.iter().enumerate().map(far).fold(0.0, f64::max)
}

#[test]
fn poisson_gaps_are_exponential() {
    // 1.63 / sqrt(n): what a true sample exceeds once in a hundred times. Seeds are fixed.
    for (rate, mean) in [("1000/s", 1e6), ("70000/s", 1e9 / 70e3)] {
        let one = times(schedule(&poisson(rate), 0, 1), 100_001);
        assert!(distance(&one, mean) < 1.63 / 100_000f64.sqrt(), "{rate}");
        // Streams of five workers together.
        let until = (mean * 100_000.0) as i64;
        let mut all: Vec<i64> =
            (0..5).flat_map(|k| before(schedule(&poisson(rate), k, 5), until)).collect();
        all.sort_unstable();
        let n = all.len() as f64;
        assert!((n - 100_000.0).abs() < 4.0 * 100_000f64.sqrt(), "{n}");
        assert!(distance(&all, mean) < 1.63 / n.sqrt(), "{rate} of five");
    }
    // An even schedule fails the same test.
    let even = times(schedule(&constant("1000/s"), 0, 1), 10_001);
    assert!(distance(&even, 1e6) > 0.3);
}

#[test]
fn poisson_keeps_its_rate_where_a_gap_is_a_few_ns() {
    let n = before(schedule(&poisson("200000000/s"), 0, 1), 5_000_000).len() as f64;
    assert!((n - 1e6).abs() < 4.0 * 1000.0, "{n}");
}

#[test]
fn rates_out_of_range_are_refused() {
    let mut w = plan().workloads.remove(0);
    for rate in ["5000000000/s", "5/ns"] {
        for arrival in [constant(rate), ramp("1/s", rate, "1s"), steps(&[(rate, "1s")])] {
            w.arrival = arrival;
            let all = Schedules::new(&w, 7, 0).unwrap();
            assert!(all.of(worker_index(0, 1), None).is_err(), "{rate}");
        }
    }
}

#[test]
fn recorded_times_are_shared_in_turns_and_end() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("times.txt");
    std::fs::write(&file, "# a comment\n0s\n1.5ms\n\n1.5ms\n2 ms\n1s\n").unwrap();
    let arrival = Arrival::Replay { file: file.display().to_string() };
    assert_eq!(before(schedule(&arrival, 0, 2), i64::MAX), [0, 1_500_000, SECOND]);
    let mut second = schedule(&arrival, 1, 2);
    assert_eq!(second.due(Stamp(SECOND)), 2);
    assert_eq!(before(second.clone(), i64::MAX), [1_500_000, 2_000_000]);
    (0..2).for_each(|_| second.advance());
    assert_eq!(second.peek(), Some(Stamp::NEVER));
    assert_eq!(second.due(Stamp::NEVER), 0);
}

#[test]
fn the_times_of_a_block_trace_are_replayed_to_the_nanosecond() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("anything");
    let rows = "128166372003061629,usr,0,Read,8192,4096,9\n128166372013061630,usr,0,Write,0,512,9\n\
                128166372013061631,usr,0,Read,0,512,9\n";
    std::fs::write(&file, rows).unwrap();
    let arrival = Arrival::Replay { file: file.display().to_string() };
    assert_eq!(before(schedule(&arrival, 0, 1), i64::MAX), [0, SECOND + 100, SECOND + 200]);
    std::fs::write(&file, format!("{rows}128166372013061632,usr,0,Read,0,")).unwrap();
    let said = replay::read(&file.display().to_string()).unwrap_err().to_string();
    assert!(said.contains("line: 4"), "{said}");
}

#[test]
fn bad_recorded_times_are_named_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("times.txt");
    for (text, complaint) in [
        ("1ms\n2\n", "line: 2"),
        ("1ms\n3ms\n2ms\n", "line: 3"),
        ("1ms\nlater\n", "line: 2"),
        ("# none\n", "no recorded time"),
    ] {
        std::fs::write(&file, text).unwrap();
        let said = replay::read(&file.display().to_string()).unwrap_err();
        let said = said.to_string();
        assert!(said.contains(complaint), "{said}");
    }
    let missing = replay::read("no/such/file").unwrap_err().to_string();
    assert!(missing.contains("no/such/file"), "{missing}");
}

proptest! {
    #[test]
    fn due_counts_what_peek_shows(kind in 0usize..9, of in 1u32..4, until in -5i64..2_000_000_000, skip in 0usize..9) {
        let mut s = schedule(&kinds()[kind], of - 1, of);
        (0..skip).for_each(|_| s.advance());
        let due = s.due(Stamp(until));
        // Asking again, and for less in between, changes nothing.
        let _ = s.due(Stamp(until / 2));
        prop_assert_eq!(s.due(Stamp(until)), due);
        prop_assert_eq!(due, before(s, until).len() as u64);
    }

    #[test]
    fn constant_never_drifts(rate in 1u64..1_000_000_000, workers in 1u32..7, i in 0u64..5000) {
        let s = schedule(&constant(&format!("{rate}/s")), 1 % workers, workers);
        let t = *times(s, i as usize + 1).last().unwrap();
        let index = u128::from(i) * u128::from(workers) + u128::from(1 % workers);
        prop_assert_eq!(t as u128, index * 1_000_000_000 / u128::from(rate));
    }

    #[test]
    fn ramps_count_what_their_area_says(from in 1u64..100_000, to in 1u64..100_000, ms in 1u64..60_000) {
        let arrival = Arrival::Ramp {
            from: format!("{from}/s").parse().unwrap(),
            to: format!("{to}/s").parse().unwrap(),
            over: Span(ms * 1_000_000),
        };
        let n = schedule(&arrival, 0, 1).due(Stamp((ms * 1_000_000) as i64));
        // (from + to) / 2 * ms / 1000, rounded up: operation 0 comes at once.
        prop_assert_eq!(n, ((from + to) * ms).div_ceil(2000));
    }
}
