//! A loop on SQLite's C API: the least that filling and reading can cost through it, with the statements of driver
//! `sqlite`. No operation is timed alone, and nothing is kept.

mod sys;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::bare;
use crate::bare_leveldb::{KEY, key, pool};

/// `bare-sqlite DIR fill|read RECORDS BYTES [threads]`.
pub fn main(args: &[&str]) -> Result<()> {
    bare::on_thread(args, run)
}

fn run(args: &[&str]) -> Result<()> {
    let [dir, what, records, bytes] = args else {
        bail!("bare-sqlite DIR fill|read RECORDS BYTES [threads]");
    };
    let (records, bytes): (u64, usize) = (records.parse()?, bytes.parse()?);
    let pool = pool(bytes);
    ensure!(records > 0 && bytes <= pool.len() / 2, "no such records");
    let dir = Path::new(dir);
    if *what == "fill" && dir.exists() {
        std::fs::remove_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    std::fs::create_dir_all(dir)?;
    let db = sys::BareSqlite::open(&dir.join("taillight.db"))?;
    let (mut at, mut random, mut name) = (0, 0x9E37_79B9_7F4A_7C15, [0; KEY]);
    let start = Instant::now();
    for number in 0..records {
        match *what {
            "fill" => {
                if at + bytes > pool.len() {
                    at = 0;
                }
                key(number, &mut name);
                db.put(&name, &pool[at..at + bytes])?;
                at += bytes;
            }
            "read" => {
                let number = bare::below(&mut random, records);
                key(number, &mut name);
                ensure!(db.get(&name) == Some(bytes), "key {number} is not there");
            }
            other => bail!("bare-sqlite knows no {other}"),
        }
    }
    bare::print(records, start.elapsed().as_secs_f64());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_is_read() {
        let dir = std::env::temp_dir().join(format!("taillight-sqlite-{}", std::process::id()));
        let run = |what| main(&[dir.to_str().unwrap(), what, "1000", "100"]);
        match run("fill") {
            Err(e) if e.to_string().contains("libsqlite3") => {
                println!("skipped: bare sqlite: {e}")
            }
            filled => {
                filled.unwrap();
                run("read").unwrap();
                main(&[dir.to_str().unwrap(), "read", "1000", "100", "threads"]).unwrap();
                std::fs::remove_dir_all(&dir).unwrap();
            }
        }
    }
}
