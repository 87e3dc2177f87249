//! What the target path names: a block device, one file, or files in a directory.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use taillight_core::{Error, Result};

use crate::guard;
use crate::path_error::{cannot, resolve_absent};

/// A target path, resolved: no symlink is left in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetPath {
    Device {
        /// Its real path, `/dev/sda` behind `/dev/disk/by-id/...`.
        path: PathBuf,
    },
    Files(FileSet),
}

/// Files in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSet {
    pub dir: PathBuf,
    /// The directory is not there yet: it is made first.
    pub dir_absent: bool,
    /// Names in it; one when the path names a file.
    pub names: Vec<OsString>,
    /// The path named the directory, not the file.
    pub whole_dir: bool,
}

impl FileSet {
    /// The directory, or the one in which it will be made.
    pub fn nearest_dir(&self) -> &Path {
        let parent = self.dir.parent().filter(|_| self.dir_absent);
        parent.unwrap_or(&self.dir)
    }
}

impl TargetPath {
    /// Resolves `path`; files in a directory are called `names`, or else as Taillight calls them. Touches nothing.
    /// Errors: `Usage` for a path that is none of the three, or no directory where several files or names are asked
    /// for, `Refused` in procfs and the like, `Unavailable` when its parent is missing.
    pub fn find(path: &str, files: u16, names: &[String]) -> Result<TargetPath> {
        let given = Path::new(path);
        let in_dir = || match names {
            [] => (0..files).map(|n| OsString::from(format!("taillight-{n}.dat"))).collect(),
            names => names.iter().map(OsString::from).collect(),
        };
        let resolved = match std::fs::canonicalize(given) {
            Ok(real) => {
                means_the_same(given, &real)?;
                existing(real, path, in_dir)?
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => absent(given, path, in_dir)?,
            Err(e) => {
                return Err(cannot("cannot resolve the target path", given, e));
            }
        };
        let one = !matches!(&resolved, TargetPath::Files(set) if set.whole_dir);
        if one && (files > 1 || !names.is_empty()) {
            return Err(Error::usage("several files, or names of files, need a directory as path")
                .with("path", path)
                .with("files", files)
                .hint("write the directory, ending in `/`"));
        }
        Ok(resolved)
    }

    /// Whether a name means the same data: the same device or file, whatever it is called. Of what is not
    /// there yet, the place has to do.
    pub fn is(&self, name: &str, files: u16) -> bool {
        let Ok(other) = TargetPath::find(name, files, &[]) else { return false };
        let whole = |of: &TargetPath| matches!(of, TargetPath::Files(set) if set.whole_dir);
        if whole(self) != whole(&other) {
            return false;
        }
        match (rustix::fs::stat(self.name()), rustix::fs::stat(other.name())) {
            (Ok(own), Ok(other)) => same_data(&own, &other),
            (Err(_), Err(_)) => self.name() == other.name(),
            _ => false,
        }
    }

    /// The path a user would call this target by.
    pub fn name(&self) -> PathBuf {
        match self {
            TargetPath::Device { path } => path.clone(),
            TargetPath::Files(set) if set.whole_dir => set.dir.clone(),
            TargetPath::Files(set) => set.names.iter().fold(set.dir.clone(), |d, n| d.join(n)),
        }
    }
}

/// Whether two stats are of the same device, or of the same file.
pub fn same_data(one: &Stat, other: &Stat) -> bool {
    let device = |s: &Stat| FileType::from_raw_mode(s.st_mode).is_block_device();
    match (device(one), device(other)) {
        (true, true) => one.st_rdev == other.st_rdev,
        (false, false) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}

/// Files in a directory that the path names.
fn whole(dir: PathBuf, dir_absent: bool, names: Vec<OsString>) -> TargetPath {
    TargetPath::Files(FileSet { dir, dir_absent, names, whole_dir: true })
}

/// Refuses a path whose links cannot be followed by name: `/proc/PID/root` and `/proc/PID/fd` lead where the
/// text of the link does not. Errors: `Refused`.
fn means_the_same(given: &Path, real: &Path) -> Result<()> {
    match (rustix::fs::stat(given), rustix::fs::stat(real)) {
        (Ok(given), Ok(real)) if same_data(&given, &real) => Ok(()),
        _ => Err(Error::refused("the path means something else than the place it resolves to")
            .with("path", given.display())
            .with("resolved", real.display())
            .hint("name the place itself, not by a link of /proc")),
    }
}

/// Refuses a directory of procfs, sysfs and their like. Errors: `Refused`.
fn in_storage(dir: &Path) -> Result<()> {
    match std::fs::File::open(dir) {
        Ok(opened) => guard::storage(opened, dir),
        // Opening it for use says why.
        Err(_) => Ok(()),
    }
}

fn existing(real: PathBuf, path: &str, names: impl Fn() -> Vec<OsString>) -> Result<TargetPath> {
    let kind = std::fs::metadata(&real)
        .map_err(|e| cannot("cannot stat the target", &real, e))?
        .file_type();
    if kind.is_block_device() {
        return Ok(TargetPath::Device { path: real });
    }
    if kind.is_dir() {
        in_storage(&real)?;
        return Ok(whole(real, false, names()));
    }
    if kind.is_file() && !path.ends_with('/') {
        return in_parent(&real, path);
    }
    Err(Error::usage("the target is not a file, a directory or a block device")
        .with("path", path)
        .hint("name one of these; a directory that is to be made ends in `/`"))
}

/// A file in the directory that holds it.
fn in_parent(real: &Path, path: &str) -> Result<TargetPath> {
    match (real.parent(), real.file_name()) {
        (Some(dir), Some(name)) => {
            in_storage(dir)?;
            Ok(TargetPath::Files(FileSet {
                dir: dir.to_path_buf(),
                dir_absent: false,
                names: vec![name.to_owned()],
                whole_dir: false,
            }))
        }
        _ => Err(Error::usage("the target path names no file").with("path", path)),
    }
}

fn absent(given: &Path, path: &str, names: impl Fn() -> Vec<OsString>) -> Result<TargetPath> {
    let real = resolve_absent(given)?;
    if real.starts_with("/dev") && !real.starts_with("/dev/shm") {
        return Err(Error::unavailable("there is no such device")
            .with("path", path)
            .hint("lsblk lists the block devices; a file made here would be memory, not a disk"));
    }
    match path.ends_with('/') {
        true => {
            real.parent().map_or(Ok(()), in_storage)?;
            Ok(whole(real, true, names()))
        }
        false => in_parent(&real, path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().canonicalize().unwrap();
        let text = |p: &Path| p.to_str().unwrap().to_owned();
        std::fs::write(root.join("f"), b"x").unwrap();
        std::os::unix::fs::symlink(root.join("f"), root.join("l")).unwrap();
        std::os::unix::fs::symlink(root.join("gone"), root.join("dangling")).unwrap();

        let file = TargetPath::find(&text(&root.join("f")), 1, &[]).unwrap();
        assert_eq!(TargetPath::find(&text(&root.join("l")), 1, &[]).unwrap(), file);
        assert_eq!(file.name(), root.join("f"));
        assert!(TargetPath::find(&text(&root.join("f")), 2, &[]).is_err());
        assert!(TargetPath::find(&text(&root.join("dangling")), 1, &[]).is_err());
        assert!(TargetPath::find("/dev/null", 1, &[]).is_err());
        for kernel in ["/proc/self/comm", "/sys/kernel/", "/sys/kernel/new/"] {
            let e = TargetPath::find(kernel, 1, &[]).expect_err("no storage");
            assert!(e.to_string().contains("kernel's own"), "{e}");
        }
        let here = format!("/proc/self/root{}", text(&root.join("f")));
        assert_eq!(TargetPath::find(&here, 1, &[]).unwrap(), file, "it leads to the same file");
        let open = std::fs::File::open(root.join("f")).unwrap();
        std::fs::rename(root.join("f"), root.join("was")).unwrap();
        std::fs::write(root.join("f"), b"y").unwrap();
        std::fs::hard_link(root.join("f"), root.join("hard")).unwrap();
        drop(open);
        let new = TargetPath::find(&text(&root.join("f")), 1, &[]).unwrap();
        assert!(new.is(&text(&root.join("hard")), 1) && new.is(&text(&root.join("l")), 1));
        assert!(!new.is(&text(&root.join("was")), 1) && !new.is(&text(&root), 1));
        for absent in ["/dev/taillight-none", "/dev/taillight-none/"] {
            let e = TargetPath::find(absent, 1, &[]).expect_err("memory, not a disk");
            assert!(e.to_string().contains("no such device"), "{e}");
        }
        assert!(TargetPath::find(&text(&root.join("no/such")), 1, &[]).is_err());

        let TargetPath::Files(set) = TargetPath::find(&text(&root), 2, &[]).unwrap() else {
            panic!("a directory holds files")
        };
        assert_eq!(set.names, ["taillight-0.dat", "taillight-1.dat"]);
        let named = [&"b", &"a"].map(ToString::to_string);
        let TargetPath::Files(set) = TargetPath::find(&text(&root), 2, &named).unwrap() else {
            panic!("a directory holds files")
        };
        assert_eq!(set.names, ["b", "a"]);
        assert!(TargetPath::find(&text(&root.join("f")), 1, &named[..1]).is_err());
        let new = format!("{}/", text(&root.join("new")));
        let TargetPath::Files(set) = TargetPath::find(&new, 1, &[]).unwrap() else {
            panic!("a new directory")
        };
        assert!(set.dir_absent);
    }
}
