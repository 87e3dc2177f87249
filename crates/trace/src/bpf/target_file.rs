//! Which file is the run's own, by kind and number as the kernel's inodes have them: what trace programs know
//! pages of the cache by. The disks below it: `taillight_machine::block::disks_below`.

use std::path::{Path, PathBuf};

use rustix::fs::Stat;

const S_IFMT: u32 = 0o170_000;
const S_IFBLK: u32 = 0o060_000;
const S_IFREG: u32 = 0o100_000;

/// What kind of file holds the data: bits of `S_IFMT`. A directory holds regular files.
pub fn kind(path: &Path) -> u32 {
    match rustix::fs::stat(path) {
        Ok(s) if s.st_mode & S_IFMT == S_IFBLK => S_IFBLK,
        _ => S_IFREG,
    }
}

/// The number of the one file that holds the data: its inode's, of a block device the device's, as
/// the kernel writes it (`major << 20 | minor`). `None` when it is not there, or a directory holds not
/// exactly one.
pub fn number(path: &Path) -> Option<u64> {
    let stat = rustix::fs::stat(path).ok()?;
    let of = |s: Stat| match s.st_mode & S_IFMT {
        S_IFBLK => {
            let (major, minor) = (rustix::fs::major(s.st_rdev), rustix::fs::minor(s.st_rdev));
            Some(u64::from(major) << 20 | u64::from(minor))
        }
        S_IFREG => Some(s.st_ino),
        _ => None,
    };
    of(stat).or_else(|| of(rustix::fs::stat(only(path)?).ok()?))
}

/// The only regular file of a directory.
fn only(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten();
    let mut files = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_file()));
    let first = files.next()?;
    files.next().is_none().then(|| first.path())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_one_file_is_known_by_its_inode() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a");
        assert_eq!(number(&file), None, "not there yet");
        assert_eq!(number(home.path()), None, "an empty directory");
        std::fs::write(&file, "x").unwrap();
        let inode = std::fs::metadata(&file).unwrap().ino();
        assert_eq!((kind(&file), number(&file)), (S_IFREG, Some(inode)));
        std::fs::create_dir(home.path().join("sub")).unwrap();
        assert_eq!(number(home.path()), Some(inode), "the only file in it");
        std::fs::write(home.path().join("b"), "x").unwrap();
        assert_eq!(number(home.path()), None, "which of the two?");
        assert_eq!(number(Path::new("/dev/null")), None, "no place for data");
    }
}
