//! Shared by the integration tests, those of `capture` too: records, a run directory that a dead process left.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::Path;

use hdrhistogram::Histogram;
use taillight_core::{OpKind, Record, Result, Stamp, Status};
use taillight_rundir::histlog::{HistEntry, each_histogram};
use taillight_rundir::ios::{self, ColumnSet, RowBatch};
use taillight_rundir::manifest::ClockInfo;
use taillight_rundir::{Manifest, fixture};

/// A small generator of pseudo-random numbers (splitmix64).
pub struct RowRandom(pub u64);

impl RowRandom {
    pub fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// Copies of a file, each with one bit flipped.
pub fn flipped(good: &[u8], copies: usize, seed: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut random = RowRandom(seed);
    (0..copies).map(move |_| {
        let mut bytes = good.to_vec();
        let at = random.next(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.next(8);
        bytes
    })
}

pub fn record(submit: i64, latency: i64, block: u64) -> Record {
    Record {
        op: OpKind::Read,
        offset: Some(block * 4096),
        size: 4096,
        submit: Stamp(submit),
        complete: Stamp(submit + latency),
        ..Record::default()
    }
}

/// Records in which every optional field is sometimes set.
pub fn varied(n: usize, seed: u64) -> Vec<Record> {
    let mut random = RowRandom(seed);
    let mut now = 5_000_000_000;
    (0..n)
        .map(|i| {
            now += random.next(60) as i64;
            let mut r = record(now, 30 + random.next(1000) as i64, random.next(1 << 18));
            r.op = OpKind::ALL[random.next(13) as usize];
            r.target = random.next(3) as u16;
            match random.next(12) {
                0 => r.status = Status::errno(5),
                1 => {
                    r.status = Status::SHORT;
                    r.moved = Some(random.next(4096));
                }
                2 => r.offset = None,
                3 => r.key = Some(random.next(u64::MAX >> 1)),
                4 => r.count = Some(random.next(u64::from(u32::MAX)) as u32),
                5 => r.intended = Some(Stamp(now - 100)),
                6 => r.origin = Some(Stamp(now - 1_000_000)),
                7 => r.issued = Some(Stamp(now + 10)),
                8 => r.first = Some(Stamp(now + 20)),
                9 => r.sync_ns = Some(random.next(5000)),
                10 => r.retries = Some(random.next(65_536) as u16),
                _ => r.size = 512 * (1 + i as u64 % 40),
            }
            r
        })
        .collect()
}

/// All rows of an `ios.parquet`: phase, workload, worker, record.
pub fn rows(path: &std::path::Path) -> Vec<(String, u16, u16, Record)> {
    let mut rows = Vec::new();
    ios::read_ios(path, ColumnSet::ALL, &mut |b: &RowBatch| {
        assert_eq!(b.first_row, rows.len() as u64);
        for i in 0..b.rows {
            let row = b.row(i);
            rows.push((b.phase_name(i).to_owned(), row.workload, row.worker, row.record));
        }
        Ok(())
    })
    .unwrap();
    rows
}

/// A manifest that says `running`, of a process that does not live.
pub fn killed(run_id: &str) -> Manifest {
    let mut manifest = fixture::manifest(run_id);
    if let Some(process) = &mut manifest.process {
        process.start_ticks += 1;
    }
    manifest
}

/// All of a histogram log.
pub fn histograms(path: &Path, clock: &ClockInfo) -> Result<Vec<HistEntry<Histogram<u64>>>> {
    let mut entries = Vec::new();
    each_histogram(path, clock, &mut |entry| {
        entries.push(entry);
        Ok(())
    })?;
    Ok(entries)
}
