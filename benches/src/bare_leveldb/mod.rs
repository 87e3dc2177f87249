//! A loop on LevelDB's C API as its own db_bench is written: the least that filling and reading
//! can cost through that API. No operation is timed alone, and nothing is kept.

mod sys;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::bare;

/// Bytes of a key: the number in eight bytes, highest first, then `0`.
pub const KEY: usize = 16;
/// Values are windows into this many bytes, as in db_bench.
const POOL: usize = 1 << 20;
/// Longest piece of the pool: Taillight's payload has its compressible share in each of so many bytes.
const PIECE: usize = 4096;

/// `bare-leveldb DIR fill|read|compact RECORDS BYTES [threads]`.
pub fn main(args: &[&str]) -> Result<()> {
    bare::on_thread(args, run)
}

fn run(args: &[&str]) -> Result<()> {
    let [dir, what, records, bytes] = args else {
        bail!("bare-leveldb DIR fill|read|compact RECORDS BYTES [threads]");
    };
    let (records, bytes): (u64, usize) = (records.parse()?, bytes.parse()?);
    ensure!(records > 0 && bytes <= POOL / 2, "no such records");
    let dir = Path::new(dir);
    if *what == "fill" && dir.exists() {
        std::fs::remove_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let db = sys::BareDatabase::open(dir)?;
    let start = Instant::now();
    match *what {
        "fill" => fill(&db, records, bytes)?,
        "read" => read(&db, records)?,
        "compact" => db.compact(),
        other => bail!("bare-leveldb knows no {other}"),
    }
    let took = start.elapsed().as_secs_f64();
    bare::print(records, took);
    Ok(())
}

/// Writes the key with this number.
pub fn key(number: u64, out: &mut [u8; KEY]) {
    out[..8].copy_from_slice(&number.to_be_bytes());
    out[8..].fill(b'0');
}

/// Values of so many bytes end to end, of which half compresses away as in Taillight's payload: random bytes, then
/// zeros. How a value compresses decides what a table costs that is written behind the loop.
pub fn pool(bytes: usize) -> Vec<u8> {
    let mut random = 0x2545_F491_4F6C_DD1D;
    let piece = bytes.clamp(2, PIECE);
    let mut pool = Vec::with_capacity(POOL + piece);
    while pool.len() < POOL {
        pool.extend((0..piece / 2).map(|_| bare::next(&mut random) as u8));
        pool.resize(pool.len().next_multiple_of(piece), 0);
    }
    pool
}

fn fill(db: &sys::BareDatabase, records: u64, bytes: usize) -> Result<()> {
    let (pool, mut at, mut name) = (pool(bytes), 0, [0; KEY]);
    for number in 0..records {
        if at + bytes > pool.len() {
            at = 0;
        }
        key(number, &mut name);
        db.put(&name, &pool[at..at + bytes])?;
        at += bytes;
    }
    Ok(())
}

fn read(db: &sys::BareDatabase, records: u64) -> Result<()> {
    let (mut random, mut name) = (0x9E37_79B9_7F4A_7C15, [0; KEY]);
    for _ in 0..records {
        let number = bare::below(&mut random, records);
        key(number, &mut name);
        ensure!(db.get(&name)?, "key {number} is not there");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_half_random_and_half_zeros() {
        for bytes in [100, 1024] {
            let pool = pool(bytes);
            assert!(pool.len() >= POOL && pool.len().is_multiple_of(bytes));
            for value in pool.chunks(bytes) {
                let (random, zeros) = value.split_at(bytes / 2);
                assert!(zeros.iter().all(|byte| *byte == 0));
                assert!(random.iter().any(|byte| *byte != 0));
            }
        }
    }

    #[test]
    fn what_is_filled_is_read() {
        let dir = std::env::temp_dir().join(format!("taillight-level-{}", std::process::id()));
        let run = |what| main(&[dir.to_str().unwrap(), what, "1000", "100"]);
        match run("fill") {
            Err(e) if e.to_string().contains("libleveldb") => {
                println!("skipped: bare leveldb: {e}")
            }
            filled => {
                filled.unwrap();
                run("compact").unwrap();
                run("read").unwrap();
                main(&[dir.to_str().unwrap(), "read", "1000", "100", "threads"]).unwrap();
                std::fs::remove_dir_all(&dir).unwrap();
            }
        }
    }
}
