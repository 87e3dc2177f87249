//! What the target path names: a block device, one file, or files in a directory.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use taillight_core::{Error, Result};

use crate::path_error::cannot;

/// A target path, resolved: no symlink is left in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetPath {
    Device {
        /// Its real path, `/dev/sda` behind `/dev/disk/by-id/...`.
        path: PathBuf,
    },
    /// Files in a directory.
    Files {
        dir: PathBuf,
        /// The directory is not there yet.
        dir_absent: bool,
        /// Names in it; one when the path names a file.
        names: Vec<OsString>,
        /// The path named the directory, not the file.
        whole_dir: bool,
    },
}

impl TargetPath {
    /// Resolves `path`. Touches nothing. Errors: `Usage` for a path that is none of the three,
    /// `Unavailable` when its parent is missing.
    pub fn find(path: &str, files: u16) -> Result<TargetPath> {
        let given = Path::new(path);
        let resolved = match std::fs::canonicalize(given) {
            Ok(real) => existing(real, path, files)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => absent(given, path, files)?,
            Err(e) => {
                return Err(cannot("cannot resolve the target path", given, e));
            }
        };
        let one = !matches!(&resolved, TargetPath::Files { whole_dir: true, .. });
        if one && files > 1 {
            return Err(Error::usage("`files` above 1 needs a directory as path")
                .with("path", path)
                .with("files", files)
                .hint("write the directory, ending in `/`"));
        }
        Ok(resolved)
    }

    /// The path a user would call this target by.
    pub fn name(&self) -> PathBuf {
        match self {
            TargetPath::Device { path } => path.clone(),
            TargetPath::Files { dir, whole_dir: true, .. } => dir.clone(),
            TargetPath::Files { dir, names, .. } => {
                names.iter().fold(dir.clone(), |d, n| d.join(n))
            }
        }
    }
}

fn names(files: u16) -> Vec<OsString> {
    (0..files).map(|n| OsString::from(format!("taillight-{n}.dat"))).collect()
}

fn existing(real: PathBuf, path: &str, files: u16) -> Result<TargetPath> {
    let kind = std::fs::metadata(&real)
        .map_err(|e| cannot("cannot stat the target", &real, e))?
        .file_type();
    if kind.is_block_device() {
        return Ok(TargetPath::Device { path: real });
    }
    if kind.is_dir() {
        return Ok(TargetPath::Files {
            dir: real,
            dir_absent: false,
            names: names(files),
            whole_dir: true,
        });
    }
    if kind.is_file() && !path.ends_with('/') {
        return in_parent(&real, path, false);
    }
    Err(Error::usage("the target is not a file, a directory or a block device")
        .with("path", path)
        .hint("name one of these; a directory that is to be made ends in `/`"))
}

/// A file in the directory that holds it.
fn in_parent(real: &Path, path: &str, dir_absent: bool) -> Result<TargetPath> {
    match (real.parent(), real.file_name()) {
        (Some(dir), Some(name)) => Ok(TargetPath::Files {
            dir: dir.to_path_buf(),
            dir_absent,
            names: vec![name.to_owned()],
            whole_dir: false,
        }),
        _ => Err(Error::usage("the target path names no file").with("path", path)),
    }
}

fn absent(given: &Path, path: &str, files: u16) -> Result<TargetPath> {
    if given.symlink_metadata().is_ok() {
        return Err(Error::usage("the target is a symbolic link to nothing")
            .with("path", path)
            .hint("name the file itself, or create what the link points to"));
    }
    let Some(name) = given.file_name() else {
        return Err(Error::usage("the target path names no file").with("path", path));
    };
    let parent = match given.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let parent = std::fs::canonicalize(parent).map_err(|e| {
        Error::unavailable("the directory that should hold the target is not there")
            .with("path", path)
            .source(e)
            .hint(format!("create it first: mkdir -p {}", parent.display()))
    })?;
    if path.ends_with('/') {
        return Ok(TargetPath::Files {
            dir: parent.join(name),
            dir_absent: true,
            names: names(files),
            whole_dir: true,
        });
    }
    in_parent(&parent.join(name), path, false)
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

        let file = TargetPath::find(&text(&root.join("f")), 1).unwrap();
        assert_eq!(TargetPath::find(&text(&root.join("l")), 1).unwrap(), file);
        assert_eq!(file.name(), root.join("f"));
        assert!(TargetPath::find(&text(&root.join("f")), 2).is_err());
        assert!(TargetPath::find(&text(&root.join("dangling")), 1).is_err());
        assert!(TargetPath::find("/dev/null", 1).is_err());
        assert!(TargetPath::find(&text(&root.join("no/such")), 1).is_err());

        let TargetPath::Files { names, .. } = TargetPath::find(&text(&root), 2).unwrap() else {
            panic!("a directory holds files")
        };
        assert_eq!(names, ["taillight-0.dat", "taillight-1.dat"]);
        let new = format!("{}/", text(&root.join("new")));
        let TargetPath::Files { dir_absent, .. } = TargetPath::find(&new, 1).unwrap() else {
            panic!("a new directory")
        };
        assert!(dir_absent);
    }
}
