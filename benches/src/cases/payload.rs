//! What writes carry: bytes made per second by one core, for each kind and some block sizes, and blocks sealed and
//! checked for verification.
//!
//! Calls the engine itself: a run would add the storage's time to every figure.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use taillight_core::{Op, OpKind, Stamp};
use taillight_engine::payload::{ContentKind, Filler, PayloadSpec};
use taillight_engine::verify::{Checker, LEDGER_BUDGET, VerifiedArea, VerifySpec, VerifyState};

use crate::BenchSetup;
use crate::pairs::{Bound, BoundCheck, Comparison};

/// Block sizes, bytes.
const SIZES: [(usize, &str); 3] = [(4 << 10, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")];
/// Buffers used in turn, as a queue of this depth does.
const BUFFERS: usize = 8;
/// Time of one measurement.
const TIME: Duration = Duration::from_millis(100);
/// Asked of every kind, bytes per ns.
const LEAST: f64 = 10.0;

/// Runs `each` over the buffers for a while; GB a second.
fn rate(size: usize, mut each: impl FnMut(u64, &mut [u8])) -> f64 {
    let mut buffers = vec![vec![1u8; size]; BUFFERS];
    let mut number = 0;
    let mut turn = |least: Duration| {
        let (began, first) = (Instant::now(), number);
        while began.elapsed() < least {
            // Few looks at the clock for small blocks.
            for _ in 0..(1 << 20) / size {
                let buffer = &mut buffers[number as usize % BUFFERS];
                each(number, buffer);
                black_box(&*buffer);
                number += 1;
            }
        }
        (number - first) as f64 * size as f64 / began.elapsed().as_nanos() as f64
    };
    turn(TIME / 10);
    turn(TIME)
}

/// Name, kind, compressible and duplicate percent, whether reads use the buffers too.
fn kinds() -> Vec<(&'static str, ContentKind, u32, u32, bool)> {
    vec![
        ("random, the buffers only written from", ContentKind::Random, 0, 0, false),
        ("random, the buffers read into too", ContentKind::Random, 0, 0, true),
        ("random, 50 % compressible", ContentKind::Random, 50, 0, true),
        ("random, 30 % duplicates", ContentKind::Random, 0, 30, true),
        ("zero, the buffers read into too", ContentKind::Zero, 0, 0, true),
        ("pattern of 7 bytes", ContentKind::Pattern(b"storage".to_vec()), 0, 0, true),
        ("text", ContentKind::Text, 0, 0, true),
    ]
}

/// Each kind, by itself.
pub fn run(setup: &BenchSetup) -> Result<Comparison> {
    let mut report = Comparison::titled("Payload and verification, one core");
    let kinds = kinds();
    for (size, shown) in SIZES {
        let mut check = |what: String, bound, mut once: Box<dyn FnMut() -> f64>| {
            let values: Vec<f64> = (0..setup.pairs).map(|_| once()).collect();
            report.checks.push(BoundCheck { what, unit: "GB/s", values, bound });
        };
        for (name, kind, compressible, duplicate, reads) in &kinds {
            let spec = PayloadSpec::new(kind.clone(), *compressible, *duplicate)
                .map_err(|e| anyhow!(e.to_string()))?;
            let mut filler = Filler::new(&spec, 1, *reads);
            check(
                format!("{shown}: {name}"),
                Bound::AtLeast(LEAST),
                Box::new(move || rate(size, |_, block| filler.fill(block))),
            );
        }
        let source = vec![7u8; size];
        check(
            format!("{shown}: copying as much, for comparison"),
            Bound::None,
            Box::new(move || rate(size, |_, block| block.copy_from_slice(&source))),
        );
        let mut seal = checker(size)?;
        check(
            format!("{shown}: verify, random blocks sealed"),
            Bound::None,
            Box::new(move || rate(size, |n, block| sealed(&mut seal, n, block))),
        );
        let mut judge = checker(size)?;
        check(
            format!("{shown}: verify, blocks checked"),
            Bound::None,
            Box::new(move || {
                let mut block = vec![0; size];
                sealed(&mut judge, 0, &mut block);
                let op = op(OpKind::Read, 0, size);
                rate(size, |_, _| {
                    judge.on_read(0, &op);
                    let right = judge.on_read_done(0, &op, &block, Stamp(0));
                    assert!(right, "a sealed block was not found right");
                })
            }),
        );
    }
    Ok(report)
}

/// Blocks in the ledger of these measurements: 8 MiB of it, more than the cache near the core.
const BLOCKS: u64 = 1 << 20;

fn checker(size: usize) -> Result<Checker> {
    let shared = VerifyState::new(&VerifySpec {
        run_id: "bench",
        target: 0,
        prior: None,
        area: VerifiedArea {
            unit: size as u64,
            first: 0,
            blocks: BLOCKS,
            file_size: u64::MAX,
            keyed: false,
        },
        payloads: &[
            PayloadSpec::new(ContentKind::Random, 0, 0).map_err(|e| anyhow!(e.to_string()))?
        ],
        outstanding: 1,
        whole_writes: true,
        inline: true,
        budget: LEDGER_BUDGET,
    });
    let shared: Arc<VerifyState> = shared.map_err(|e| anyhow!(e.to_string()))?;
    Ok(Checker::new(shared, 0, None, 1, size as u64))
}

fn op(kind: OpKind, block: u64, size: usize) -> Op {
    Op::block(kind, 0, block * size as u64, size as u64)
}

fn sealed(checker: &mut Checker, number: u64, block: &mut [u8]) {
    // Anywhere, as random writes do.
    let place = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
    let op = op(OpKind::Write, place % BLOCKS, block.len());
    checker.on_write(&op, block);
    checker.on_write_done(&op, true);
}
