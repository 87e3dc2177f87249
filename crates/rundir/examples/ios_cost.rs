//! What `ios.parquet` costs: bytes per I/O and rows per second, on made-up but realistic I/Os.
//!
//! `cargo run --release -p taillight-rundir --example ios_cost -- [ROWS]`

use std::time::Instant;

use taillight_core::{OpKind, Record, Result, Stamp, Status};
use taillight_rundir::ios::{Columns, IosFile, IosWriter, RowKey};
use taillight_rundir::{RunDir, fixture};

/// A tiny generator of pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Depth1,
    Depth32,
    Mixed,
    Sequential,
    Disk,
}

fn record(shape: Shape, i: u64, now: &mut i64, batch: &mut i64, random: &mut Random) -> Record {
    let slow = if random.next(5000) == 0 {
        random.next(20_000) as i64
    } else {
        0
    };
    let (submit, issued, complete) = match shape {
        Shape::Depth1 | Shape::Mixed | Shape::Sequential => {
            *now += 30 + random.next(31) as i64 + slow;
            (*now, None, *now + 30 + random.next(71) as i64)
        }
        Shape::Disk => {
            *now += 2_000 + random.next(8_000) as i64 + slow;
            let issued = *now + 300 + random.next(400) as i64;
            (
                *now,
                Some(issued),
                issued + 60_000 + random.next(60_000) as i64,
            )
        }
        Shape::Depth32 => {
            *now += 20 + random.next(11) as i64 + slow;
            if i.is_multiple_of(32) {
                *batch = *now + 32 * 25 + 40 + random.next(100) as i64;
            }
            let done = *batch + 60 + (i as i64 / 32) % 7;
            (*now, Some(*batch), done)
        }
    };
    let write = matches!(shape, Shape::Mixed) && random.next(10) < 3;
    let size = if matches!(shape, Shape::Mixed) && random.next(4) == 0 {
        65536
    } else {
        4096
    };
    let block = if matches!(shape, Shape::Sequential) {
        i % 262_144
    } else {
        random.next(262_144)
    };
    Record {
        op: if write { OpKind::Write } else { OpKind::Read },
        target: 0,
        offset: Some(block * 4096),
        key: None,
        size,
        moved: None,
        count: None,
        intended: None,
        origin: None,
        submit: Stamp(submit),
        issued: issued.map(Stamp),
        first: None,
        complete: Stamp(complete),
        sync_ns: None,
        retries: None,
        status: Status::OK,
    }
}

fn measure(name: &str, shape: Shape, rows: u64) -> Result<()> {
    let root = std::env::temp_dir().join(format!("taillight-ios-cost-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let dir = RunDir::create(&root, &fixture::manifest("cost"))?;
    let (mut random, mut now, mut batch) = (Random(7), 1_000_000_000_000i64, 0);
    let block: Vec<Record> = (0..rows.min(1 << 20))
        .map(|i| record(shape, i, &mut now, &mut batch, &mut random))
        .collect();
    let shift = now - 1_000_000_000_000;
    let start = Instant::now();
    let mut writer = IosWriter::create(&dir)?;
    let key = RowKey {
        phase: "measure",
        workload: 0,
        worker: 0,
    };
    for i in 0..rows {
        let mut r = block[(i % block.len() as u64) as usize];
        let by = shift * (i / block.len() as u64) as i64;
        r.submit.0 += by;
        r.complete.0 += by;
        if let Some(issued) = &mut r.issued {
            issued.0 += by;
        }
        writer.push(key, &r)?;
    }
    writer.finish()?;
    let write = start.elapsed().as_secs_f64();
    let file = IosFile::open(&dir.file("ios.parquet"))?;
    let bytes = std::fs::metadata(dir.file("ios.parquet")).map_or(0, |m| m.len());
    let (few, all) = (
        Columns::OP | Columns::SUBMIT | Columns::COMPLETE | Columns::STATUS,
        Columns::ALL,
    );
    let time = |columns| {
        let start = Instant::now();
        let mut sum = 0i64;
        file.read(columns, &mut |b| {
            sum = sum.wrapping_add(b.submit.iter().zip(&b.complete).map(|(s, c)| c - s).sum());
            Ok(())
        })
        .map(|()| (start.elapsed().as_secs_f64(), sum))
    };
    let (few, _) = time(few)?;
    let (all, _) = time(all)?;
    println!(
        "{name:12} {:6.3} B/row  write {:5.1} M/s  read 4 columns {:6.1} M/s  all {:5.1} M/s",
        bytes as f64 / rows as f64,
        rows as f64 / write / 1e6,
        rows as f64 / few / 1e6,
        rows as f64 / all / 1e6,
    );
    for (column, bytes) in file.column_bytes() {
        if bytes as f64 / rows as f64 > 0.001 {
            print!("  {column} {:.3}", bytes as f64 / rows as f64);
        }
    }
    println!();
    let _ = std::fs::remove_dir_all(&root);
    Ok(())
}

fn main() -> Result<()> {
    let rows = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(10_000_000);
    measure("depth 1", Shape::Depth1, rows)?;
    measure("depth 32", Shape::Depth32, rows)?;
    measure("disk", Shape::Disk, rows)?;
    measure("mixed", Shape::Mixed, rows)?;
    measure("sequential", Shape::Sequential, rows)
}
