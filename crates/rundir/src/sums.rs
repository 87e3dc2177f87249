//! Checksums of the files that hold what was measured: taken when a run ends, compared by readers.
//!
//! Parquet pages written here carry no checksum of their own, so a flipped bit may decode to a
//! wrong latency. What this is not: a signature; it finds damage, not intent. Callers: `cli` and
//! salvage (taking), `report` (comparing), imports (both).

use std::fs::File;
use std::io::Read;
use std::path::Path;

use taillight_core::{Error, Result};

use crate::atomic::cannot;
use crate::dir::RunDir;
use crate::manifest::FileSum;
use crate::names;

/// Bytes read at a time.
const STEP: usize = 1 << 20;

/// A file that is not what it was when the run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Name inside the run directory.
    pub name: String,
    /// What is different, as the end of a sentence.
    pub what: String,
}

/// Sizes and checksums of the measured files there are. Errors: `Unavailable` when one cannot be
/// read.
pub fn file_sums(dir: &RunDir) -> Result<Vec<FileSum>> {
    let there = names::MEASURED.iter().filter_map(|name| Some((name, dir.existing(name)?)));
    there.map(|(name, path)| sum(name, &path)).collect()
}

/// Takes the checksum of a file that was added after the run; those of the others stay, so that
/// damage to them is still seen. Errors: `Unavailable` when it cannot be read.
pub fn add(dir: &RunDir, files: &mut Vec<FileSum>, name: &str) -> Result<()> {
    let new = sum(name, &dir.file(name))?;
    files.retain(|f| f.name != name);
    files.push(new);
    Ok(())
}

/// Refuses a run whose measured files are damaged. One that is gone was taken away: no damage.
/// Errors: `Corrupt` with the damaged files; `Unavailable` when one cannot be read.
pub fn intact(dir: &RunDir) -> Result<()> {
    let mut damaged = changed(dir)?;
    damaged.retain(|c| dir.existing(&c.name).is_some());
    if damaged.is_empty() {
        return Ok(());
    }
    let said: Vec<String> = damaged.iter().map(|c| format!("{} {}", c.name, c.what)).collect();
    Err(Error::corrupt("the run directory is damaged, so nothing is added to it")
        .with("path", dir.path().display())
        .with("damage", said.join(", "))
        .hint("import into an undamaged copy of the run directory"))
}

/// Files that differ from what the manifest says. Empty for a manifest without checksums. Errors:
/// `Unavailable` when one cannot be read.
pub fn changed(dir: &RunDir) -> Result<Vec<ChangedFile>> {
    let mut changed = Vec::new();
    for was in &dir.manifest().files {
        // A manifest may come from anywhere: only the names this crate owns are opened.
        if !names::MEASURED.contains(&was.name.as_str()) {
            continue;
        }
        let what = match dir.existing(&was.name) {
            None => "is missing".to_owned(),
            Some(path) => {
                let is = sum(&was.name, &path)?;
                match (is.bytes == was.bytes, is.crc32 == was.crc32) {
                    (true, true) => continue,
                    (false, _) => format!("has {} bytes, not {}", is.bytes, was.bytes),
                    (true, false) => "has another checksum than when the run ended".to_owned(),
                }
            }
        };
        changed.push(ChangedFile { name: was.name.clone(), what });
    }
    Ok(changed)
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
