//! What is on a target: for people before a confirmed destroy ([`lost`]: file system, label, size, and
//! when it was last mounted or changed), and for a later look to compare ([`seen`]). It only reads, and
//! refuses nothing.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags, SeekFrom, open, seek};
use taillight_core::units::ByteSize;
use taillight_machine::block::PartitionRange;
use taillight_machine::nvme::le;

use crate::guard::blkid;
use crate::guard::partitions::{self, SearchedDisk};
use crate::ownership::content::{FileSystemNaming, fingerprint};

/// What a confirmed run would overwrite at `target`, one line each; empty where nothing is there, where it cannot be
/// opened, or where it is no path.
pub fn lost(target: &str) -> Vec<String> {
    let path = taillight_machine::block::local(target);
    let there = path.and_then(|path| Some((path, std::fs::metadata(path).ok()?)));
    let Some((path, meta)) = there else { return Vec::new() };
    let changed = || at(Some(meta.mtime()));
    if meta.is_dir() {
        return directory(path);
    }
    // NONBLOCK: a FIFO must not hang us.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(fd) = open(path, flags, Mode::empty()) else { return Vec::new() };
    let size = seek(&fd, SeekFrom::End(0)).unwrap_or(0);
    if size == 0 {
        return Vec::new();
    }
    let what = match meta.file_type().is_block_device() {
        true => format!("block device {target}, {}", ByteSize(size)),
        false => format!("file {target}, {}, last changed {}", ByteSize(size), changed()),
    };
    let disk = SearchedDisk::new(fd.as_fd(), size);
    let mut all = vec![described(&disk, disk.whole(), &what)];
    for part in partitions::found(&disk) {
        let what = format!("partition at {}, {}", ByteSize(part.start), ByteSize(part.len));
        all.push(described(&disk, part, &what));
    }
    all.extend(disk.unreadable().map(|what| format!("{UNREADABLE}: {what}")));
    all
}

/// What is on `target`, one line each, to be compared with a later look; empty where nothing is there, or where
/// it is no path. A line is of a file with the time of its last change, of what is in a directory, or of a file
/// system or the like on a device. None where that cannot be known.
pub fn seen(target: &str) -> Option<Vec<String>> {
    let Some(path) = taillight_machine::block::local(target) else { return Some(Vec::new()) };
    let meta = match std::fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
        meta => meta.ok()?,
    };
    if meta.is_dir() {
        return Some(vec![fingerprint(&[path.to_owned()], FileSystemNaming::Itself).ok()?]);
    }
    if meta.file_type().is_block_device() {
        let mut all = lost(target);
        let unknown = |line: &String| line.ends_with(UNKNOWN) || line.starts_with(UNREADABLE);
        if all.is_empty() || all.iter().any(unknown) {
            return None;
        }
        all.retain(|line| !line.ends_with(NOTHING));
        return Some(all);
    }
    let changed = format!("{}.{:09}", meta.ctime(), meta.ctime_nsec());
    let modified = format!("{}.{:09}", meta.mtime(), meta.mtime_nsec());
    let size = meta.size();
    Some(vec![format!("a file of {size} bytes, changed at {changed}, modified at {modified}")])
}

/// What is said of a device without a signature, and of one where none can be looked for or not all is read.
const NOTHING: &str = "no file system that is known";
const UNKNOWN: &str = "what is on it is not known (no libblkid.so.1)";
const UNREADABLE: &str = "cannot be read, so that it is not known";

fn directory(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let files: Vec<_> = entries.filter_map(|e| e.metadata().ok()).collect();
    if files.is_empty() {
        return Vec::new();
    }
    let bytes = files.iter().filter(|f| f.is_file()).map(MetadataExt::size).sum();
    let changed = at(files.iter().map(MetadataExt::mtime).max());
    let count = match files.len() {
        1 => "1 entry".to_owned(),
        n => format!("{n} entries"),
    };
    let (path, size) = (path.display(), ByteSize(bytes));
    vec![format!(
        "what the driver uses of directory {path}: {count}, {size}, last changed {changed}"
    )]
}

fn described(disk: &SearchedDisk<'_>, range: PartitionRange, what: &str) -> String {
    let Some(found) = blkid::signatures(disk, range) else {
        return format!("{what}: {UNKNOWN}");
    };
    let each = found.iter().map(|s| {
        let label = s.label.as_ref().map_or("no label".to_owned(), |l| format!("label \"{l}\""));
        format!("{}, {label}{}", s.kind, mounted(disk, range, &s.kind))
    });
    let each: Vec<String> = each.collect();
    match each.is_empty() {
        true => format!("{what}: {NOTHING}"),
        false => format!("{what}: {}", each.join("; ")),
    }
}

/// When it was last mounted or written, where the file system keeps that: the superblock of ext
/// (`s_mtime`, `s_wtime`, `s_last_mounted`; Linux, `fs/ext4/ext4.h`).
fn mounted(disk: &SearchedDisk<'_>, range: PartitionRange, kind: &str) -> String {
    if !kind.starts_with("ext") {
        return String::new();
    }
    let block = disk.read(range, 1024, 256);
    let seconds = |place| Some(le(&block, place, 4)).filter(|s| *s > 0);
    let stamp = |place| at(seconds(place).and_then(|s| i64::try_from(s).ok()));
    let name = block.get(0x88..0xc8).unwrap_or_default().split(|b| *b == 0).next();
    let on = name.filter(|n| !n.is_empty()).map(|n| format!(" on {}", String::from_utf8_lossy(n)));
    format!(", last mounted {}{}, written {}", stamp(0x2c), on.unwrap_or_default(), stamp(0x30))
}

fn at(seconds: Option<i64>) -> String {
    let stamp = seconds.map(jiff::Timestamp::from_second);
    match stamp {
        None => "never".to_owned(),
        Some(Ok(at)) => at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        Some(Err(_)) => "at an unknown time".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_named_by_file_system_label_size_and_time() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("image");
        let text = path.to_str().unwrap();
        assert_eq!(lost(text), Vec::<String>::new());
        let file = std::fs::File::create(&path).unwrap();
        assert_eq!(lost(text), Vec::<String>::new(), "nothing is lost in an empty file");
        file.set_len(16 << 20).unwrap();
        let made =
            std::process::Command::new("mkfs.ext4").args(["-q", "-L", "thesis", text]).status();
        if !made.is_ok_and(|s| s.success()) || libblkid().is_none() {
            eprintln!("skipped: what_is_lost_is_named: no mkfs.ext4 or no libblkid");
            return;
        }
        let lines = lost(text);
        for word in ["16MiB", "ext4", "label \"thesis\"", "last mounted never", "last changed 20"] {
            assert!(lines[0].contains(word), "{word}: {lines:?}");
        }
        assert!(lost(tmp.path().to_str().unwrap())[0].contains(": 1 entry, "));
    }

    fn libblkid() -> Option<Vec<blkid::Signature>> {
        let file = tempfile::tempfile().ok()?;
        file.set_len(4096).ok()?;
        let disk = SearchedDisk::new(file.as_fd(), 4096);
        blkid::signatures(&disk, disk.whole())
    }
}
