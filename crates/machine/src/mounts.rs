//! What is mounted where, and what is used as swap: `/proc/self/mountinfo` and `/proc/swaps`.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use taillight_core::{Error, Result};

use crate::{DeviceNumber, Sys};

/// One line of mountinfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Mount id, as statx reports it.
    pub id: u64,
    /// Device of the file system; anonymous for some file systems.
    pub device: DeviceNumber,
    /// What of the file system is mounted: `/` for all of it.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Options of this mount.
    pub options: String,
    /// Kind of file system: `ext4`, `xfs`, `tmpfs`.
    pub fs: String,
    /// What was mounted: a device path for most.
    pub source: PathBuf,
    /// Options of the file system itself.
    pub super_options: String,
}

impl Mount {
    /// Options of the mount and of the file system; `rw` or `ro`, which stands in both, once.
    pub fn all_options(&self) -> String {
        let own = |o: &&str| !o.is_empty() && !matches!(*o, "rw" | "ro");
        let mut all = vec![self.options.as_str()];
        all.extend(self.super_options.split(',').filter(own));
        all.join(",")
    }

    /// The directories that an overlay shows as one, first the one that is written to.
    pub fn layers(&self) -> Vec<PathBuf> {
        let options = self.super_options.split(',').filter_map(|o| o.split_once('='));
        let layers = options
            .filter(|(key, _)| matches!(*key, "upperdir" | "lowerdir" | "lowerdir+" | "datadir+"));
        let layers =
            layers.flat_map(|(key, list)| list.split(':').map(move |l| (key == "upperdir", l)));
        let layers = layers.filter(|(_, layer)| !layer.is_empty());
        let layers = layers.map(|(upper, layer)| (!upper, unescape(layer.as_bytes())));
        let mut layers: Vec<_> = layers.collect();
        layers.sort_by_key(|(lower, _)| *lower);
        layers.into_iter().map(|(_, layer)| layer).collect()
    }

    /// The directory that an overlay writes to; none for one that only reads, and elsewhere.
    pub fn upper(&self) -> Option<PathBuf> {
        let written = self.super_options.split(',').any(|o| o.starts_with("upperdir="));
        self.layers().into_iter().next().filter(|_| written && self.fs == "overlay")
    }

    /// The number of the block device that was mounted, where the source is the path of one.
    pub fn source_device(&self) -> Option<DeviceNumber> {
        let path = self.source.is_absolute().then_some(&self.source)?;
        DeviceNumber::of_path(path)
    }
}

/// Every mount this process sees, in the order of the file: at one place the last covers the others. Errors:
/// `Unavailable` when /proc cannot be read: without it nothing can be called unmounted.
pub fn mounts(sys: &Sys) -> Result<Vec<Mount>> {
    Ok(parse(&table(sys, "/proc/self/mountinfo")?))
}

/// Every mount of every mount namespace in which a process that this user may look at runs, each
/// namespace once, this one first. Errors: as [`mounts`].
pub fn everywhere(sys: &Sys) -> Result<Vec<Mount>> {
    let namespace =
        |process: &str| std::fs::read_link(sys.path(&format!("/proc/{process}/ns/mnt")));
    let mut seen = HashSet::from([namespace("self").ok()]);
    let mut all = mounts(sys)?;
    for process in &crate::process::processes(sys) {
        let Ok(of) = namespace(process).map(Some) else { continue };
        if !seen.contains(&of) {
            // A process that ended meanwhile has no table; another one may be of its namespace.
            if let Ok(text) = std::fs::read(sys.path(&format!("/proc/{process}/mountinfo"))) {
                all.extend(parse(&text));
                seen.insert(of);
            }
        }
    }
    Ok(all)
}

/// Reads the text of mountinfo.
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|b| *b == b'\n').filter_map(parse_line).collect()
}

/// Every swap file and device; none without `/proc/swaps`. Errors: `Unavailable` when it cannot be read.
pub fn swaps(sys: &Sys) -> Result<Vec<PathBuf>> {
    let path = "/proc/swaps";
    if !sys.exists(path) {
        // A kernel without swap has no such file.
        return Ok(Vec::new());
    }
    let text = table(sys, path)?;
    let lines = text.split(|b| *b == b'\n').skip(1);
    let name = |line: &[u8]| {
        let mut words = line.split(u8::is_ascii_whitespace);
        words.find(|f| !f.is_empty()).map(unescape)
    };
    Ok(lines.filter_map(name).collect())
}

fn table(sys: &Sys, path: &str) -> Result<Vec<u8>> {
    std::fs::read(sys.path(path)).map_err(|e| {
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
fn parse_line(line: &[u8]) -> Option<Mount> {
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let dash = fields.iter().position(|f| *f == b"-")?;
    Some(Mount {
        id: text(fields.first()?).parse().ok()?,
        device: text(fields.get(2)?).parse().ok()?,
        root: unescape(fields.get(3)?),
        point: unescape(fields.get(4)?),
        options: text(fields.get(5)?),
        fs: text(fields.get(dash + 1)?),
        source: unescape(fields.get(dash + 2)?),
        super_options: fields.get(dash + 3).map(|f| text(f)).unwrap_or_default(),
    })
}

/// The mount that holds `path`: the longest mount point above it, the last of equals.
pub fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let above = mounts.iter().enumerate();
    above
        .filter(|(_, m)| path.starts_with(&m.point))
        .max_by_key(|(i, m)| (m.point.components().count(), *i))
        .map(|(_, m)| m)
}

/// The mount that holds `path`, which may not exist yet.
pub fn mount_of(sys: &Sys, path: &Path) -> Option<Mount> {
    holding(&mounts(sys).ok()?, &existing(path)?).cloned()
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
    fn an_overlay_names_its_layers() {
        let line = b"50 27 0:41 / /merged rw - overlay overlay rw,lowerdir=/a:/b\\040c::/d,\
            upperdir=/up,workdir=/work,index=off";
        let mount = parse(line).pop().unwrap();
        assert_eq!(mount.layers(), ["/up", "/a", "/b c", "/d"].map(PathBuf::from));
        assert_eq!(mount.upper(), Some("/up".into()));
        let line = b"50 27 0:41 / /merged ro - overlay overlay ro,lowerdir=/a:/b";
        assert_eq!(parse(line).pop().unwrap().upper(), None);
        assert!(
            parse(b"1 2 0:6 / / rw - ext4 /dev/a rw,errors=x").pop().unwrap().layers().is_empty()
        );
    }

    #[test]
    fn the_nearest_and_last_mount_holds_a_path() {
        let mounts = parse(include_bytes!("../fixtures/mountinfo.txt"));
        let of = |p: &str| holding(&mounts, Path::new(p)).unwrap();
        assert_eq!(of("/etc/passwd").fs, "ext4");
        assert_eq!(of("/etc/passwd").all_options(), "rw,relatime,discard");
        assert_eq!(of("/data/x").fs, "xfs");
        assert_eq!(of("/data/x").device.to_string(), "259:3");
        assert_eq!(of("/database").fs, "ext4");
        assert_eq!(of("/mnt/my disk/f").source, Path::new("/dev/sdb1"));
        assert_eq!(of("/dev/shm").fs, "tmpfs");
    }

    #[test]
    fn a_line_with_optional_fields_and_escapes() {
        let line =
            br"36 35 98:0 /mnt1 /mnt/a\040b rw master:1 shared:2 - ext3 /dev/r rw,errors=remount";
        let m = parse_line(line).unwrap();
        assert_eq!((m.id, m.device.to_string().as_str(), m.fs.as_str()), (36, "98:0", "ext3"));
        assert_eq!(
            (m.root.as_path(), m.point.as_path()),
            (Path::new("/mnt1"), Path::new("/mnt/a b"))
        );
        assert_eq!(m.source, Path::new("/dev/r"));
        assert_eq!(m.super_options, "rw,errors=remount");
        assert_eq!(m.all_options(), "rw,errors=remount");
        assert_eq!(parse_line(b""), None);
        assert_eq!(parse_line(b"1 2 3"), None);
    }

    #[test]
    fn only_octal_escapes_are_undone() {
        assert_eq!(unescape(br"a\9z\04"), Path::new(r"a\9z\04"));
        assert_eq!(unescape(br"a\040b\134c\x"), Path::new(r"a b\c\x"));
    }

    #[test]
    fn this_machine_has_a_root() {
        let sys = Sys::default();
        let all = mounts(&sys).unwrap();
        assert!(all.iter().any(|m| m.point == Path::new("/")));
        swaps(&sys).unwrap();
    }

    #[test]
    fn without_a_table_nothing_is_called_unmounted() {
        let dir = tempfile::tempdir().unwrap();
        let sys = Sys::at(dir.path());
        assert!(mounts(&sys).is_err());
        assert_eq!(swaps(&sys).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_path_to_come_is_on_its_parents_mount() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        assert_eq!(existing(&dir.path().join("a/b/c")), Some(real));
    }
}
