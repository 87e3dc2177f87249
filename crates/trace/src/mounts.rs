//! Which file system a path is on, and how it is mounted.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::sys::Sys;

/// One mount, from `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    pub point: PathBuf,
    /// Kind of file system: `ext4`, `xfs`, `tmpfs`.
    pub kind: String,
    /// What is mounted: a device, or a name.
    pub source: String,
    /// Options of the mount and of the file system.
    pub options: String,
    /// Major and minor number of the file system, like `8:1`.
    pub device: String,
}

/// Every mount, in the order of the file; later ones cover earlier ones.
pub fn parse_mountinfo(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let mut right = right.splitn(3, ' ');
    let kind = right.next()?.to_owned();
    let source = unescape(right.next()?);
    let own = *left.get(5)?;
    let shared = right.next().unwrap_or_default();
    // "rw" stands in both lists.
    let rest: Vec<&str> = shared
        .split(',')
        .filter(|o| !matches!(*o, "rw" | "ro"))
        .collect();
    let options = match rest.join(",") {
        rest if rest.is_empty() => own.to_owned(),
        rest => format!("{own},{rest}"),
    };
    Some(Mount {
        point: PathBuf::from(unescape(left.get(4)?)),
        kind,
        source,
        options,
        device: (*left.get(2)?).to_owned(),
    })
}

/// Blanks and backslashes come as octal numbers.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest
            .get(at + 1..at + 4)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

/// The mount that holds `path`: the longest mount point above it, the last of equals.
pub fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts
        .iter()
        .enumerate()
        .filter(|(_, m)| path.starts_with(&m.point))
        .max_by_key(|(i, m)| (m.point.components().count(), *i))
        .map(|(_, m)| m)
}

/// The mount that holds `path`, which may not exist yet.
pub fn of(sys: &Sys, path: &Path) -> Option<Mount> {
    let mounts = parse_mountinfo(&sys.text("/proc/self/mountinfo")?);
    holding(&mounts, &existing(path)?).cloned()
}

/// The nearest ancestor of `path` (or itself) that exists, without symlinks.
pub fn existing(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    absolute.ancestors().find_map(|p| p.canonicalize().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_and_last_mount_holds_a_path() {
        let mounts = parse_mountinfo(include_str!("../fixtures/mountinfo.txt"));
        let of = |p: &str| holding(&mounts, Path::new(p)).unwrap();
        assert_eq!(of("/etc/passwd").kind, "ext4");
        assert_eq!(of("/etc/passwd").options, "rw,relatime,discard");
        assert_eq!(of("/data/x").kind, "xfs");
        assert_eq!(of("/data/x").device, "259:3");
        assert_eq!(of("/database").kind, "ext4");
        assert_eq!(of("/mnt/my disk/f").source, "/dev/sdb1");
        assert_eq!(of("/dev/shm").kind, "tmpfs");
    }

    #[test]
    fn odd_names_come_back() {
        assert_eq!(unescape(r"a\040b\134c\x"), r"a b\c\x");
    }

    #[test]
    fn a_path_to_come_is_on_its_parents_mount() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        assert_eq!(existing(&dir.path().join("a/b/c")), Some(real));
    }
}
