//! Sizes of blocks: shares of uniform, log-uniform and weighted ones against their probabilities, histogram files, and
//! what is refused.

use proptest::prelude::*;
use rand::SeedableRng;
use taillight_core::ErrorKind;
use taillight_core::OpKind;
use taillight_core::block_size_file::parse as parse_histogram;

use super::super::Rng;
use super::*;

const DRAWS: usize = 400_000;

/// How often each of 0 to `most` came.
fn counts(sizes: &Sizes, most: u64) -> Vec<f64> {
    let mut rng = Rng::seed_from_u64(1);
    let mut counts = vec![0.0; most as usize + 1];
    (0..DRAWS).for_each(|_| counts[sizes.draw(&mut rng, OpKind::Read) as usize] += 1.0);
    counts
}

/// Each size within 5 sigma of its probability; sizes of probability 0 never.
fn assert_shares(sizes: &Sizes, expected: &[(u64, f64)]) {
    let most = expected.iter().map(|e| e.0).max().unwrap();
    let mut counts = counts(sizes, most);
    for (size, p) in expected {
        let seen = std::mem::take(&mut counts[*size as usize]) / DRAWS as f64;
        let sigma = (p * (1.0 - p) / DRAWS as f64).sqrt();
        assert!(seen > 0.0, "{size} never came");
        assert!((seen - p).abs() <= 5.0 * sigma, "{size}: {seen}, expected {p}");
    }
    assert!(counts.iter().all(|c| *c == 0.0), "a size that should not come");
}

#[test]
fn uniform_reaches_every_byte() {
    let sizes = Sizes::Range { min: 100, step: 1, count: 41 };
    let expected: Vec<_> = (100..=140).map(|s| (s, 1.0 / 41.0)).collect();
    assert_shares(&sizes, &expected);
    assert_eq!(sizes.bounds(), (100, 140));
}

#[test]
fn log_uniform_has_no_holes_and_the_right_density() {
    for (min, max, step) in [(1, 100, 1), (1000, 1050, 1), (512, 8192, 512), (7, 7, 3), (10, 25, 4)]
    {
        let sizes = Sizes::log_uniform(min, max, step).unwrap();
        let grid: Vec<u64> = (min..=max).step_by(step as usize).collect();
        let last = *grid.last().unwrap();
        let span = ((last + step) as f64 / min as f64).ln();
        let share = |s: u64| ((s + step) as f64 / s as f64).ln() / span;
        let expected: Vec<_> = grid.iter().map(|s| (*s, share(*s))).collect();
        assert_shares(&sizes, &expected);
        assert_eq!(sizes.bounds(), (min, last));
        assert_eq!(sizes.distinct(10_000), Some(grid));
    }
}

#[test]
fn octaves_of_a_log_uniform_are_alike() {
    let sizes = Sizes::log_uniform(1 << 10, (1 << 30) - 1, 1).unwrap();
    let mut rng = Rng::seed_from_u64(2);
    let mut octaves = [0f64; 31];
    (0..DRAWS).for_each(|_| octaves[sizes.draw(&mut rng, OpKind::Read).ilog2() as usize] += 1.0);
    let mean = DRAWS as f64 / 20.0;
    for (octave, count) in octaves.iter().enumerate() {
        let expected = if (10..30).contains(&octave) { mean } else { 0.0 };
        assert!((count - expected).abs() <= 5.0 * expected.sqrt(), "octave {octave}: {count}");
    }
}

#[test]
fn both_forms_of_a_histogram_are_read() {
    let ycsb = "BlockSize\t1000\n0\t3\n1\t0\n4\t7\n";
    assert_eq!(parse_histogram(ycsb).unwrap(), [(1000, 3), (2000, 0), (5000, 7)]);
    let plain = "# measured on Monday\nsize,count\n4KiB,70\n\n 65536 , 30 \n";
    let parts = parse_histogram(plain).unwrap();
    assert_eq!(parts, [(4096, 70), (65536, 30)]);
    assert_eq!(parse_histogram("512,1").unwrap(), [(512, 1)]);

    let sizes = Sizes::table(&parse_histogram(ycsb).unwrap()).unwrap();
    assert_shares(&sizes, &[(1000, 0.3), (5000, 0.7)]);
    assert_eq!(sizes.distinct(2), Some(vec![1000, 5000]));
    assert_eq!(sizes.distinct(1), None);
    assert_eq!(sizes.bounds(), (1000, 5000));
}

#[test]
fn a_histogram_of_many_sizes_keeps_its_shares() {
    let parts: Vec<(u64, u64)> = (1..=200).map(|s| (s, s % 7)).collect();
    let total: u64 = parts.iter().map(|p| p.1).sum();
    let expected: Vec<_> =
        parts.iter().filter(|p| p.1 > 0).map(|p| (p.0, p.1 as f64 / total as f64)).collect();
    assert_shares(&Sizes::table(&parts).unwrap(), &expected);
}

#[test]
fn what_cannot_be_read_says_where() {
    for (text, line) in [
        ("", None),
        ("# nothing\n", None),
        ("4KiB,70\nrubbish\n", Some(2)),
        ("4KiB;70\n", Some(1)),
        ("4KiB,-1\n", Some(1)),
        ("4 parsecs,1\n", Some(1)),
        ("BlockSize\tten\n0\t1\n", Some(1)),
        ("BlockSize\t10\n0\t1\n1,5\n", Some(3)),
        ("BlockSize\t10\n18446744073709551615\t1\n", Some(2)),
    ] {
        let error = parse_histogram(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.hint_text().is_some());
        if let Some(line) = line {
            assert!(error.to_string().contains(&format!("line: {line}")), "{error}");
        }
    }
}

#[test]
fn empty_ranges_and_tables_are_refused() {
    for bad in [
        Sizes::log_uniform(0, 10, 1),
        Sizes::log_uniform(1, 10, 0),
        Sizes::log_uniform(11, 10, 1),
        Sizes::log_uniform(1, u64::MAX, 1),
        Sizes::table(&[]),
        Sizes::table(&[(5, 0)]),
        Sizes::table(&[(0, 5)]),
        Sizes::table(&[(5, 1), (5, 2)]),
    ] {
        let error = bad.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.hint_text().is_some(), "{error}");
    }
}

proptest! {
    #[test]
    fn log_uniform_stays_on_its_grid(min in 1u64..1 << 50, width in 0u64..1 << 50,
                                     step in 1u64..1 << 20, seed: u64) {
        let sizes = Sizes::log_uniform(min, min + width, step).unwrap();
        let mut rng = Rng::seed_from_u64(seed);
        for _ in 0..50 {
            let size = sizes.draw(&mut rng, OpKind::Read);
            prop_assert!(size >= min && size <= min + width && (size - min).is_multiple_of(step));
        }
    }
}
