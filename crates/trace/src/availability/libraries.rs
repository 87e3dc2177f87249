//! Storage libraries this system has, as `doctor` and `version` show them. The drivers load theirs at run time by name
//! through the system's loader, which may find one that is not found here.

use std::path::{Path, PathBuf};

/// A library that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLibrary {
    /// The file behind all links; its name carries the version.
    pub path: PathBuf,
    /// The version in its name, if any.
    pub version: Option<String>,
}

/// Directories that are searched, in this order: `LD_LIBRARY_PATH`, then the usual ones; `ld.so.conf` is not read.
pub fn directories() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::env::var_os("LD_LIBRARY_PATH")
        .map(|v| std::env::split_paths(&v).collect())
        .unwrap_or_default();
    let triple = concat_triple();
    all.extend(
        [
            "/usr/local/lib".to_owned(),
            format!("/usr/local/lib/{triple}"),
            format!("/usr/lib/{triple}"),
            format!("/lib/{triple}"),
            "/usr/lib64".to_owned(),
            "/usr/lib".to_owned(),
            "/lib".to_owned(),
        ]
        .map(PathBuf::from),
    );
    all
}

/// The directory name that Debian uses for this processor.
fn concat_triple() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

/// `librocksdb` finds `librocksdb.so` or `librocksdb.so.7.8`: in the first directory that has any, the first by name.
pub fn find(name: &str, directories: &[PathBuf]) -> Option<FoundLibrary> {
    directories.iter().find_map(|dir| find_in(name, dir))
}

fn find_in(name: &str, dir: &Path) -> Option<FoundLibrary> {
    let stem = format!("{name}.so");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .ok()?
        .flatten()
        .filter(|e| {
            let file = e.file_name();
            let file = file.to_string_lossy();
            file.strip_prefix(&stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
        .map(|e| e.path())
        .collect();
    files.sort();
    // A link that leads nowhere is passed over.
    let path = files.iter().find_map(|file| file.canonicalize().ok())?;
    let file = path.file_name()?.to_string_lossy().into_owned();
    let version =
        file.strip_prefix(&stem).and_then(|rest| rest.strip_prefix('.')).map(str::to_owned);
    Some(FoundLibrary { path, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_name_behind_the_link() {
        let dir = tempfile::tempdir().unwrap();
        let at = |n: &str| dir.path().join(n);
        std::fs::write(at("libstore.so.7.8.3"), "").unwrap();
        std::os::unix::fs::symlink("libstore.so.7.8.3", at("libstore.so")).unwrap();
        std::fs::write(at("libstorebox.so.1"), "").unwrap();
        let dirs = [at("absent"), dir.path().to_owned()];
        let found = find("libstore", &dirs).unwrap();
        assert_eq!(found.version.as_deref(), Some("7.8.3"));
        assert!(find("libother", &dirs).is_none());
        std::os::unix::fs::symlink("gone", at("libbroken.so")).unwrap();
        assert!(find("libbroken", &dirs).is_none());
        std::fs::write(at("libbroken.so.7"), "").unwrap();
        assert_eq!(find("libbroken", &dirs).unwrap().version.as_deref(), Some("7"));
    }
}
