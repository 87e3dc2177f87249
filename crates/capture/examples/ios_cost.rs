//! What `ios.parquet` costs: bytes per I/O, and rows per CPU second of writing, reading and
//! converting chunks, on made-up I/Os of five shapes.
//!
//! `cargo run --release -p taillight-capture --example ios_cost -- [ROWS [SHAPE]]`

use std::time::Instant;

use taillight_capture::chunk::{self, SIZES};
use taillight_capture::convert::{self, MemoryChunks};
use taillight_core::{OpKind, Record, Result, Stamp};
use taillight_rundir::ios::{ColumnSet, IosFile, IosWriter, RowKey};
use taillight_rundir::{RunDir, fixture};

/// CPU seconds of this process (to 10 ms): other load on the machine then hardly matters.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).flat_map(str::parse::<f64>).sum();
    ticks / 100.0
}

/// A tiny generator of pseudo-random numbers (splitmix64).
struct RandomDraws(u64);

impl RandomDraws {
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

fn record(
    shape: Shape,
    i: u64,
    now: &mut i64,
    batch: &mut i64,
    random: &mut RandomDraws,
) -> Record {
    let slow = if random.next(5000) == 0 { random.next(20_000) as i64 } else { 0 };
    let (submit, issued, complete) = match shape {
        Shape::Depth1 | Shape::Mixed | Shape::Sequential => {
            *now += 30 + random.next(31) as i64 + slow;
            (*now, None, *now + 30 + random.next(71) as i64)
        }
        Shape::Disk => {
            *now += 2_000 + random.next(8_000) as i64 + slow;
            let issued = *now + 300 + random.next(400) as i64;
            (*now, Some(issued), issued + 60_000 + random.next(60_000) as i64)
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
    let size = if matches!(shape, Shape::Mixed) && random.next(4) == 0 { 65536 } else { 4096 };
    let block = if matches!(shape, Shape::Sequential) { i % 262_144 } else { random.next(262_144) };
    Record {
        op: if write { OpKind::Write } else { OpKind::Read },
        offset: Some(block * 4096),
        size,
        submit: Stamp(submit),
        issued: issued.map(Stamp),
        complete: Stamp(complete),
        ..Record::default()
    }
}

fn measure(name: &str, shape: Shape, rows: u64) -> Result<()> {
    let root = std::env::temp_dir().join(format!("taillight-ios-cost-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let dir = RunDir::create(&root, &fixture::manifest("cost"))?;
    let (mut random, mut now, mut batch) = (RandomDraws(7), 1_000_000_000_000i64, 0);
    let block: Vec<Record> = (0..rows.min(1 << 20))
        .map(|i| record(shape, i, &mut now, &mut batch, &mut random))
        .collect();
    let shift = now - 1_000_000_000_000;
    let start = cpu_s();
    let mut writer = IosWriter::create(&dir)?;
    let key = RowKey { phase: "measure", workload: 0, worker: 0 };
    for i in 0..rows {
        let mut r = block[(i % block.len() as u64) as usize];
        let by = shift * (i / block.len() as u64) as i64;
        r.submit.0 += by;
        r.complete.0 += by;
        if let Some(issued) = &mut r.issued {
            issued.0 += by;
        }
        writer.begin(key);
        writer.push(&r)?;
    }
    writer.finish()?;
    let write = cpu_s() - start;
    let file = IosFile::open(&dir.file("ios.parquet"))?;
    let bytes = std::fs::metadata(dir.file("ios.parquet")).map_or(0, |m| m.len());
    let (few, all) = (
        ColumnSet::OP | ColumnSet::SUBMIT | ColumnSet::COMPLETE | ColumnSet::STATUS,
        ColumnSet::ALL,
    );
    let time = |columns| {
        let start = cpu_s();
        let mut sum = 0i64;
        file.read(columns, &mut |b| {
            sum = (0..b.rows).fold(sum, |sum, i| sum.wrapping_add(b.complete(i) - b.submit(i)));
            Ok(())
        })
        .map(|()| ((cpu_s() - start), sum))
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

/// Packs rows into chunks as the recorder would.
fn pack(shape: Shape, rows: u64) -> MemoryChunks {
    let (mut random, mut now, mut batch) = (RandomDraws(7), 1_000_000_000_000i64, 0);
    let mut sizes = [0; SIZES];
    (sizes[0], sizes[1]) = (4096, 65536);
    let columns = chunk::OptionalWords {
        issued: matches!(shape, Shape::Depth32 | Shape::Disk),
        ..chunk::OptionalWords::default()
    };
    let mut header = chunk::Header {
        worker: 0,
        workload: 0,
        phase: 0,
        seq: 0,
        columns,
        unit_shift: 12,
        file_size: u64::MAX >> 1,
        base_ns: now,
        sizes,
        addressed: true,
        partial: false,
        ordered: false,
    };
    let mut store = MemoryChunks::default();
    let mut encoder = chunk::ChunkEncoder::new(&header);
    let (mut words, mut at) = (vec![0u64; 1 << 20], 0);
    for part in 0..rows.div_ceil(1 << 16) {
        let first = part << 16;
        let mut records: Vec<Record> = (first..rows.min(first + (1 << 16)))
            .map(|i| record(shape, i, &mut now, &mut batch, &mut random))
            .collect();
        records.sort_by_key(|r| r.complete);
        for r in &records {
            if at == 0 || encoder.encode(&mut words[at..], r).map(|n| at += n).is_none() {
                if at > 0 {
                    store.0.push(words.iter().flat_map(|w| w.to_le_bytes()).collect());
                }
                words.fill(0);
                header.base_ns = r.complete.0;
                header.write(&mut words);
                header.seq += 1;
                encoder = chunk::ChunkEncoder::new(&header);
                at = chunk::HEADER_BYTES / 8;
                at += encoder.encode(&mut words[at..], r).unwrap_or(0);
            }
        }
    }
    store.0.push(words.iter().flat_map(|w| w.to_le_bytes()).collect());
    store
}

/// Times the conversion alone, CPU and wall.
fn measure_convert(name: &str, shape: Shape, rows: u64) -> Result<()> {
    let root = std::env::temp_dir().join(format!("taillight-ios-cost-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let dir = RunDir::create(&root, &fixture::manifest("cost"))?;
    let mut store = pack(shape, rows);
    let memory: usize = store.0.iter().map(Vec::len).sum();
    let (start, wall) = (cpu_s(), Instant::now());
    let phases = ["measure".to_owned()];
    let options = convert::ConvertOptions {
        phases: &phases,
        expected: None,
        tolerant: false,
        release: convert::ChunkRelease::AtEnd,
    };
    let done = convert::convert(&dir, &mut store, &options, &mut |_| (), &mut |_| true)?;
    println!(
        "{name:12} convert {:.1} M/s of CPU, {:.1} M/s of wall, {:.1} B/row in memory, {} rows",
        rows as f64 / (cpu_s() - start) / 1e6,
        rows as f64 / wall.elapsed().as_secs_f64() / 1e6,
        memory as f64 / rows as f64,
        done.rows
    );
    let _ = std::fs::remove_dir_all(&root);
    Ok(())
}

fn main() -> Result<()> {
    let rows = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(10_000_000);
    let only = std::env::args().nth(2);
    let shapes = [
        ("depth 1", Shape::Depth1),
        ("depth 32", Shape::Depth32),
        ("disk", Shape::Disk),
        ("mixed", Shape::Mixed),
        ("sequential", Shape::Sequential),
    ];
    for (name, shape) in shapes {
        if only.as_deref().is_none_or(|only| only == name) {
            measure(name, shape, rows)?;
            if only.is_none() {
                measure_convert(name, shape, rows)?;
            }
        }
    }
    Ok(())
}
