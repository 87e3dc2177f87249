//! `/proc/self/mountinfo` and `/proc/swaps`, parsed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use taillight_core::{Error, Result};

/// One line of mountinfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Mount id, as statx reports it.
    pub id: u64,
    /// Device of the file system, "major:minor" (anonymous for some file systems).
    pub device: String,
    /// Where it is mounted.
    pub point: PathBuf,
    pub options: String,
    pub fs: String,
    /// What was mounted: a device path for most.
    pub source: PathBuf,
    /// File system's own options.
    pub super_options: String,
}

/// Every mount this process sees.
///
/// # Errors
/// `Unavailable` when /proc cannot be read: without it nothing can be called unmounted.
pub fn mounts() -> Result<Vec<Mount>> {
    Ok(read("/proc/self/mountinfo")?
        .split(|b| *b == b'\n')
        .filter_map(mount)
        .collect())
}

/// Every swap file and device.
///
/// # Errors
/// `Unavailable` when /proc cannot be read.
pub fn swaps() -> Result<Vec<PathBuf>> {
    let path = "/proc/swaps";
    if !Path::new(path).exists() {
        // A kernel without swap has no such file.
        return Ok(Vec::new());
    }
    let text = read(path)?;
    let names = text.split(|b| *b == b'\n').skip(1);
    Ok(names
        .filter_map(|line| {
            line.split(|b| b.is_ascii_whitespace())
                .find(|f| !f.is_empty())
        })
        .map(unescape)
        .collect())
}

fn read(path: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| {
        Error::unavailable("cannot tell what is mounted or used as swap")
            .with("path", path)
            .source(e)
    })
}

/// Undoes the octal escapes of the kernel's tables (`\040` is a space).
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let octal = (*first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

/// Fields: id parent maj:min root point options [optional...] - type source super-options.
fn mount(line: &[u8]) -> Option<Mount> {
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let dash = fields.iter().position(|f| *f == b"-")?;
    Some(Mount {
        id: text(fields.first()?).parse().ok()?,
        device: text(fields.get(2)?),
        point: unescape(fields.get(4)?),
        options: text(fields.get(5)?),
        fs: text(fields.get(dash + 1)?),
        source: unescape(fields.get(dash + 2)?),
        super_options: fields.get(dash + 3).map(|f| text(f)).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_optional_fields_and_escapes() {
        let line =
            br"36 35 98:0 /mnt1 /mnt/a\040b rw master:1 shared:2 - ext3 /dev/r rw,errors=remount";
        let m = mount(line).unwrap();
        assert_eq!(
            (m.id, m.device.as_str(), m.fs.as_str()),
            (36, "98:0", "ext3")
        );
        assert_eq!(m.point, Path::new("/mnt/a b"));
        assert_eq!(m.source, Path::new("/dev/r"));
        assert_eq!(m.super_options, "rw,errors=remount");
        assert_eq!(mount(b""), None);
        assert_eq!(mount(b"1 2 3"), None);
    }

    #[test]
    fn odd_escapes_stay() {
        assert_eq!(unescape(br"a\9z\04"), Path::new(r"a\9z\04"));
    }

    #[test]
    fn this_machine_has_a_root() {
        assert!(mounts().unwrap().iter().any(|m| m.point == Path::new("/")));
        swaps().unwrap();
    }
}
