//! Files to read: laid out with data that does not compress, and held in the page cache where a
//! case is about cached reads; and a file system of its own for a run that makes files.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::sys::PinnedMapping;
use crate::{bare, child};

/// Where files and runs of the benches live: in the current directory, ignored by git.
const HOME: &str = "taillight-runs/bench";

/// A path in the directory of the benches, which exists afterwards.
pub fn bench_path(name: &str) -> Result<PathBuf> {
    fs::create_dir_all(HOME).context(HOME)?;
    Ok(Path::new(HOME).join(name))
}

/// The file of that name and size, written when it is not there yet.
pub fn laid_out(name: &str, mib: u64) -> Result<PathBuf> {
    let path = bench_path(name)?;
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
    /// An error unless every page of the file is in memory now.
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

/// Where images are: in memory.
const IMAGES: &str = "/dev/shm";
/// Bytes of an image, of which only what is written takes memory.
const IMAGE_BYTES: u64 = 2 << 30;
/// Inodes enough for a case, tables and a roomy journal written before the run instead of meanwhile.
const MAKE: &str =
    "-q -F -N 150000 -J size=256 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0";
/// No commit falls into a run by its time.
const MOUNT: &str = "loop,noatime,commit=600";

/// A new ext4 over a loop device whose image is in memory: neither a disk nor what an earlier run left has a part in
/// the figures of a run there. It goes with this value.
pub struct FreshExt4 {
    image: PathBuf,
    at: PathBuf,
}

impl FreshExt4 {
    /// Makes and mounts it at that name in the directory of the benches. Needs root, and mkfs.ext4.
    pub fn new(name: &str) -> Result<FreshExt4> {
        let at = bench_path(name)?;
        fs::create_dir_all(&at)?;
        let image = format!("{IMAGES}/taillight-bench-{}-{name}.img", std::process::id());
        let fresh = FreshExt4 { image: image.into(), at };
        // A bench that was killed left it mounted.
        fresh.unmount()?;
        File::create(&fresh.image)?.set_len(IMAGE_BYTES)?;
        let mut make = Command::new("mkfs.ext4");
        child::run(make.args(MAKE.split_whitespace()).arg(&fresh.image))?;
        let mut mount = Command::new("mount");
        child::run(mount.args(["-o", MOUNT]).arg(&fresh.image).arg(&fresh.at))
            .context("a file system over a loop device needs root")?;
        Ok(fresh)
    }
    fn unmount(&self) -> Result<()> {
        let parent = self.at.parent().context("no parent")?;
        let mounted = fs::metadata(&self.at)?.dev() != fs::metadata(parent)?.dev();
        if mounted {
            child::run(Command::new("umount").arg(&self.at))?;
        }
        Ok(())
    }
}

impl Drop for FreshExt4 {
    fn drop(&mut self) {
        if let Err(why) = self.unmount() {
            eprintln!("  still mounted: {}: {why:#}", self.at.display());
        }
        // The kernel frees it when the loop device is gone.
        let _ = fs::remove_file(&self.image);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_file_system_is_empty_each_time_and_goes_with_its_value() {
        for _ in 0..2 {
            let fresh = match FreshExt4::new("fresh-test") {
                Ok(fresh) => fresh,
                Err(why) => return println!("skipped: a fresh file system: {why:#}"),
            };
            let (image, file) = (fresh.image.clone(), fresh.at.join("file"));
            assert!(!file.exists());
            std::fs::write(&file, "x").unwrap();
            drop(fresh);
            assert!(!file.exists() && !image.exists());
        }
        std::fs::remove_dir(bench_path("fresh-test").unwrap()).unwrap();
    }

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
