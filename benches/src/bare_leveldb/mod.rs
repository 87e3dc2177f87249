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
/// Bytes of a piece of the pool: half random, half the same again.
const PIECE: usize = 100;

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

/// Bytes of which half compresses away.
pub fn pool() -> Vec<u8> {
    let mut random = 0x2545_F491_4F6C_DD1D;
    let mut pool = Vec::with_capacity(POOL + PIECE);
    while pool.len() < POOL {
        let half: Vec<u8> = (0..PIECE / 2).map(|_| bare::next(&mut random) as u8).collect();
        pool.extend_from_slice(&half);
        pool.extend_from_slice(&half);
    }
    pool
}

fn fill(db: &sys::BareDatabase, records: u64, bytes: usize) -> Result<()> {
    let (pool, mut at, mut name) = (pool(), 0, [0; KEY]);
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
