//! Checksums of what was asked and measured (`names::SUMMED`): taken when a run ends, kept in its manifest, compared by
//! readers. JSON files carry their own (see [`crate::own_sum`]).
//!
//! Parquet pages written here carry no checksum of their own, so a flipped bit may decode to a
//! wrong latency. A checksum finds damage, not intent. Callers: `cli` and salvage (taking), readers of runs
//! (comparing), imports (both).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use taillight_core::{Error, Result};

use crate::atomic::cannot;
use crate::dir::RunDir;
use crate::manifest::FileSum;
use crate::names;

/// Bytes read at a time.
const STEP: usize = 128 << 10;

/// A file that is not what it was when the run ended, or is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Name inside the run directory.
    pub name: String,
    /// What is different, as the end of a sentence.
    pub what: String,
}

/// Sizes and checksums of the files there are, for the manifest. Errors: `Unavailable` when one cannot be read.
pub fn file_sums(dir: &RunDir) -> Result<Vec<FileSum>> {
    let there = names::SUMMED.iter().filter_map(|name| Some((name, dir.existing(name)?)));
    there.map(|(name, path)| sum(name, &path)).collect()
}

/// Notes the checksum of a file that was added after the run; those of the others stay, so that
/// damage to them is still seen. A manifest without checksums stays so. Errors: `Unavailable` when the
/// file cannot be read or the manifest not written.
pub fn add(dir: &mut RunDir, name: &str) -> Result<()> {
    let mut manifest = dir.manifest().clone();
    if manifest.files.is_empty() {
        return Ok(());
    }
    manifest.files.retain(|f| f.name != name);
    manifest.files.push(sum(name, &dir.file(name))?);
    dir.write_manifest(&manifest)
}

/// Refuses a run with damaged files. Two kinds of change pass here: a file that is missing was taken away, and
/// `job.toml` gives no figure, and people edit it to run it again. (The report names both: it asks [`changed`].)
/// Errors: `Corrupt` with the damaged files; `Unavailable` when one cannot be read.
pub fn intact(dir: &RunDir) -> Result<()> {
    let mut changed = changed(dir)?;
    changed.retain(|c| c.name != names::JOB);
    refuse(dir, changed)
}

/// Path of a file that is about to be read and believed, if it is there; a file that the manifest does not list is
/// believed. Errors: `Corrupt` when it was changed, `Unavailable` when it cannot be read.
pub fn believed(dir: &RunDir, name: &str) -> Result<Option<PathBuf>> {
    let change = dir.manifest().files.iter().find(|f| f.name == name).map(|was| change(dir, was));
    refuse(dir, change.transpose()?.flatten().into_iter().collect())?;
    Ok(dir.existing(name))
}

fn refuse(dir: &RunDir, mut damaged: Vec<ChangedFile>) -> Result<()> {
    damaged.retain(|c| dir.existing(&c.name).is_some());
    if damaged.is_empty() {
        return Ok(());
    }
    let said: Vec<String> = damaged.iter().map(|c| format!("{} {}", c.name, c.what)).collect();
    Err(Error::corrupt("the run directory is damaged")
        .with("path", dir.path().display())
        .with("damage", said.join(", "))
        .hint("use an undamaged copy of it; `taillight report` says what can still be read"))
}

/// Files that differ from what the manifest says, missing ones and `job.toml` among them. Empty for a manifest without
/// checksums. Errors: `Unavailable` when one cannot be read.
pub fn changed(dir: &RunDir) -> Result<Vec<ChangedFile>> {
    // A manifest may come from anywhere: only the names this crate owns are opened.
    let ours = dir.manifest().files.iter().filter(|f| names::SUMMED.contains(&f.name.as_str()));
    ours.filter_map(|was| change(dir, was).transpose()).collect()
}

/// What is different about a file, if anything.
fn change(dir: &RunDir, was: &FileSum) -> Result<Option<ChangedFile>> {
    let what = match dir.existing(&was.name) {
        None => "is missing".to_owned(),
        Some(path) => {
            let is = sum(&was.name, &path)?;
            match (is.bytes == was.bytes, is.crc32 == was.crc32) {
                (true, true) => return Ok(None),
                (false, _) => format!("has {} bytes, not {}", is.bytes, was.bytes),
                (true, false) => "has another checksum than when the run ended".to_owned(),
            }
        }
    };
    Ok(Some(ChangedFile { name: was.name.clone(), what }))
}

/// CRC-32 (ISO-HDLC) in hexadecimal digits.
pub fn crc32(bytes: &[u8]) -> String {
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes);
    format!("{sum:08x}")
}

fn sum(name: &str, path: &Path) -> Result<FileSum> {
    let bad = |e| cannot("read", path, e);
    let mut file = File::open(path).map_err(bad)?;
    let mut hasher = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
    let mut buffer = vec![0; STEP];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer).map_err(bad)? {
            0 => break,
            n => {
                hasher.update(&buffer[..n]);
                bytes += n as u64;
            }
        }
    }
    Ok(FileSum { name: name.to_owned(), bytes, crc32: format!("{:08x}", hasher.finalize()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn every_kind_of_change_is_seen() {
        let tmp = tempfile::tempdir().unwrap();
        let mut dir = RunDir::create(&tmp.path().join("run"), &fixture::manifest("r")).unwrap();
        for name in [names::IOS, names::HISTOGRAMS, names::INTERVALS] {
            dir.write_text(name, "123456789").unwrap();
        }
        let mut manifest = dir.manifest().clone();
        manifest.files = file_sums(&dir).unwrap();
        // The check value of CRC-32/ISO-HDLC.
        assert!(manifest.files.iter().all(|f| f.crc32 == "cbf43926"));
        dir.write_manifest(&manifest).unwrap();
        assert_eq!(changed(&dir).unwrap(), []);
        dir.write_text(names::IOS, "123456798").unwrap();
        dir.write_text(names::HISTOGRAMS, "1234").unwrap();
        std::fs::remove_file(dir.file(names::INTERVALS)).unwrap();
        let found = changed(&dir).unwrap();
        let said: Vec<_> = found.iter().map(|c| (c.name.as_str(), &*c.what)).collect();
        assert_eq!(
            said,
            [
                (names::INTERVALS, "is missing"),
                (names::HISTOGRAMS, "has 4 bytes, not 9"),
                (names::IOS, "has another checksum than when the run ended"),
            ]
        );
    }

    #[test]
    fn a_name_out_of_the_directory_is_never_opened() {
        let tmp = tempfile::tempdir().unwrap();
        let mut dir = RunDir::create(&tmp.path().join("run"), &fixture::manifest("r")).unwrap();
        let mut manifest = dir.manifest().clone();
        manifest.files.push(FileSum {
            name: "../../etc/passwd".into(),
            bytes: 1,
            crc32: "00000000".into(),
        });
        dir.write_manifest(&manifest).unwrap();
        assert_eq!(changed(&dir).unwrap(), []);
    }
}
