//! Files to read: laid out with data that does not compress, and held in the page cache where a
//! case is about cached reads.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::bare;
use crate::sys::PinnedMapping;

/// Where files and runs of the benches live: in the current directory, ignored by git.
const HOME: &str = "taillight-runs/bench";

/// A path in the directory of the benches, which exists afterwards.
pub fn place(name: &str) -> Result<PathBuf> {
    fs::create_dir_all(HOME).context(HOME)?;
    Ok(Path::new(HOME).join(name))
}

/// The file of that name and size, written when it is not there yet.
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
        out.write_all(&bare::next(&mut random).to_le_bytes())?;
    }
    out.into_inner()?.sync_all()?;
    Ok(path)
}

/// A file whose pages all stay in the page cache while this lives. A helper process holds them, so
/// that they do not count as memory of this one or of what it starts.
pub struct PinnedFile {
    helper: Child,
    mapping: PinnedMapping,
}

impl PinnedFile {
    /// Starts the helper and waits until every page is in.
    pub fn new(path: &Path) -> Result<PinnedFile> {
        let mapping = PinnedMapping::new(&File::open(path)?)?;
        let mut helper = Command::new(std::env::current_exe()?)
            .arg("hold")
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut said = String::new();
        if let Some(out) = helper.stdout.take() {
            BufReader::new(out).read_line(&mut said)?;
        }
        let held = PinnedFile { helper, mapping };
        ensure!(said == "held\n", "the helper could not pin the file");
        held.check()?;
        Ok(held)
    }
    /// All of it is in memory, now.
    pub fn check(&self) -> Result<()> {
        let share = self.mapping.resident()?;
        ensure!(share == 1.0, "only {:.1} % of the file is in memory", share * 100.0);
        Ok(())
    }
}

impl Drop for PinnedFile {
    fn drop(&mut self) {
        // The helper ends when its input does.
        drop(self.helper.stdin.take());
        let _ = self.helper.wait();
    }
}

/// The helper: `hold FILE` pins every page, says so, and waits for the end of its input.
pub fn hold(args: &[&str]) -> Result<()> {
    let [path] = args else {
        bail!("hold FILE");
    };
    let mapping = PinnedMapping::new(&File::open(path)?)?;
    mapping.lock().context("cannot pin the file in memory (ulimit -l)")?;
    println!("held");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    drop(mapping);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_file_is_resident() {
        let path = std::env::temp_dir().join(format!("taillight-held-{}", std::process::id()));
        std::fs::write(&path, vec![7_u8; 1 << 20]).unwrap();
        let mapping = PinnedMapping::new(&File::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        match mapping.lock() {
            Ok(()) => assert_eq!(mapping.resident().unwrap(), 1.0),
            Err(why) => println!("skipped: pinned file: {why:#}"),
        }
    }
}
