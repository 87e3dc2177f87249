//! Files to read: laid out with data that does not compress, and held in the page cache where a
//! case is about cached reads.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::sys::Mapping;

/// Where files and runs of the benches live: in the current directory, ignored by git.
const HOME: &str = "taillight-runs/bench";

/// A path in the directory of the benches, which exists afterwards.
///
/// # Errors
/// When the directory cannot be made.
pub fn place(name: &str) -> Result<PathBuf> {
    fs::create_dir_all(HOME).context(HOME)?;
    Ok(Path::new(HOME).join(name))
}

/// The file of that name and size, written when it is not there yet.
///
/// # Errors
/// When it cannot be written.
pub fn laid_out(name: &str, mib: u64) -> Result<PathBuf> {
    let path = place(name)?;
    let bytes = mib << 20;
    if fs::metadata(&path).is_ok_and(|m| m.len() == bytes) {
        return Ok(path);
    }
    println!("  laying out {name}, {mib} MiB");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for _ in 0..bytes / 8 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        out.write_all(&random.to_le_bytes())?;
    }
    out.into_inner()?.sync_all()?;
    Ok(path)
}

/// A file whose pages all stay in the page cache while this lives.
pub struct Held {
    mapping: Mapping,
}

impl Held {
    /// Maps the file, brings every page in and pins it.
    ///
    /// # Errors
    /// When the pages cannot be pinned: a reclaim daemon could drop them unseen.
    pub fn new(path: &Path) -> Result<Held> {
        let mapping = Mapping::new(&File::open(path)?)?;
        mapping
            .lock()
            .context("cannot pin the file in memory (ulimit -l)")?;
        let held = Held { mapping };
        held.check()?;
        Ok(held)
    }
    /// All of it is in memory, now.
    ///
    /// # Errors
    /// When a page is missing.
    pub fn check(&self) -> Result<()> {
        let share = self.mapping.resident()?;
        ensure!(
            share == 1.0,
            "only {:.1} % of the file is in memory",
            share * 100.0
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_file_is_resident() {
        let path = std::env::temp_dir().join(format!("taillight-held-{}", std::process::id()));
        std::fs::write(&path, vec![7_u8; 1 << 20]).unwrap();
        let held = Held::new(&path);
        std::fs::remove_file(&path).unwrap();
        match held {
            Ok(held) => held.check().unwrap(),
            Err(why) => println!("skipped: held file: {why:#}"),
        }
    }
}
