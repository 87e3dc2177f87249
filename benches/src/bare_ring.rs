//! Random 4 KiB reads with nothing around them: no clock per I/O, no statistics, no generator
//! worth the name. The ceiling that a measuring tool is compared with. Through a ring, and with
//! plain preads.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::bare;
use crate::sys::{AlignedBlock, BLOCK, BareRing, O_DIRECT};

/// Turns of the loop between two looks at the clock.
const TURNS_PER_LOOK: u32 = 256;

/// `bare-ring FILE DEPTH SECONDS BATCH [direct]`: prints one JSON line.
pub fn main(args: &[&str]) -> Result<()> {
    let (file, depth, seconds, batch, direct) = match args {
        [file, depth, seconds, batch] => (file, depth, seconds, batch, false),
        [file, depth, seconds, batch, "direct"] => (file, depth, seconds, batch, true),
        _ => bail!("bare-ring FILE DEPTH SECONDS BATCH [direct]"),
    };
    let shape = RingShape {
        depth: depth.parse().context("DEPTH")?,
        batch: batch.parse().context("BATCH")?,
        direct,
    };
    let seconds: u64 = seconds.parse().context("SECONDS")?;
    let (ios, took) = read(Path::new(file), shape, Duration::from_secs(seconds))?;
    bare::print(ios, took);
    Ok(())
}

/// The few parameters of the loop.
#[derive(Clone, Copy)]
struct RingShape {
    /// Requests in flight.
    depth: u16,
    /// Requests that one call hands over at most.
    batch: u16,
    direct: bool,
}

/// Reads for that long; how many and how long it took.
fn read(path: &Path, shape: RingShape, time: Duration) -> Result<(u64, f64)> {
    let RingShape { depth, batch, direct } = shape;
    let mut options = OpenOptions::new();
    options.read(true);
    if direct {
        options.custom_flags(O_DIRECT);
    }
    let file = options.open(path).with_context(|| path.display().to_string())?;
    let blocks = file.metadata()?.len() / u64::from(BLOCK);
    ensure!(blocks > 0 && depth > 0 && batch > 0, "nothing to read");
    let mut ring = BareRing::new(&file, u32::from(depth)).context("io_uring")?;
    let mut free: Vec<u16> = (0..depth).collect();
    let mut random = seed();
    let mut ios = 0_u64;
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..TURNS_PER_LOOK {
            let mut queued = 0;
            while let Some(slot) = free.pop() {
                let offset = bare::below(&mut random, blocks) * u64::from(BLOCK);
                ring.push(slot, offset)?;
                queued += 1;
                // The last ones go with the call that waits.
                if queued == batch && !free.is_empty() {
                    ring.hand_over()?;
                    queued = 0;
                }
            }
            ring.turn(&mut free)?;
            ios += free.len() as u64;
        }
    }
    let took = start.elapsed().as_secs_f64();
    Ok((ios, took))
}

/// `bare-sync FILE SECONDS`: one pread after the other, prints one JSON line.
pub fn sync_main(args: &[&str]) -> Result<()> {
    let [path, seconds] = args else {
        bail!("bare-sync FILE SECONDS");
    };
    let time = Duration::from_secs(seconds.parse().context("SECONDS")?);
    let file = File::open(path).with_context(|| (*path).to_string())?;
    let blocks = file.metadata()?.len() / u64::from(BLOCK);
    ensure!(blocks > 0, "nothing to read");
    // Where malloc would put it, 16 bytes into a page, the kernel's copy takes 70 ns longer.
    let mut block = Box::new(AlignedBlock([0; BLOCK as usize]));
    let buffer = &mut block.0;
    let (mut random, mut ios) = (seed(), 0_u64);
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..TURNS_PER_LOOK {
            let offset = bare::below(&mut random, blocks) * u64::from(BLOCK);
            ensure!(file.read_at(buffer, offset)? == buffer.len(), "short read");
        }
        ios += u64::from(TURNS_PER_LOOK);
    }
    let took = start.elapsed().as_secs_f64();
    bare::print(ios, took);
    Ok(())
}

/// New offsets in every run, or caches behind the device would know them.
fn seed() -> u64 {
    RandomState::new().build_hasher().finish() | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_file_or_says_why_not() {
        let path = std::env::temp_dir().join(format!("taillight-bare-{}", std::process::id()));
        std::fs::write(&path, vec![7_u8; 64 * 4096]).unwrap();
        for batch in [1, 3, 4] {
            let shape = RingShape { depth: 4, batch, direct: false };
            match read(&path, shape, Duration::from_millis(20)) {
                Ok((ios, took)) => assert!(ios > 0 && took > 0.0),
                Err(why) => println!("skipped: bare ring: {why:#}"),
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
