//! What files and directories are called, and where they are: both follow from the number of a file, so that
//! any worker of any run finds it. Each name carries the token of the run that made the data set: a name without
//! it is somebody else's.

use std::ffi::CStr;

use taillight_core::{Error, Result};

/// Longest path below the target, bytes: eight levels, a directory, a name.
const LONGEST: usize = 256;

/// How the numbers of files are laid out in directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLayout {
    /// In each name: tells this data set from others. Made from the id of the run that made it.
    pub token: String,
    /// Workers with directories of their own; 1 = all share them.
    pub lanes: u32,
    /// Directories of each lane.
    pub spread: u32,
    /// Levels above them.
    pub depth: u32,
}

/// What an entry of a directory that holds files is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryName {
    File(u64),
    /// The other name of a file, which was renamed an odd number of times.
    Moved(u64),
    Directory(u64),
}

const FILE: &str = "file.";
const MOVED: &str = "moved.";
const DIRECTORY: &str = "dir.";
const LEAF: &str = "leaf.";
const LEVEL: &str = "level.";

impl FileLayout {
    /// Directories that hold files.
    pub fn leaves(&self) -> u32 {
        self.lanes * self.spread
    }

    /// The directory of a number.
    #[inline]
    pub fn leaf_of(&self, number: u64) -> usize {
        if self.lanes == 1 && self.spread == 1 {
            return 0;
        }
        let lanes = u64::from(self.lanes);
        let of_lane = number / lanes % u64::from(self.spread);
        (number % lanes * u64::from(self.spread) + of_lane) as usize
    }

    /// The name of the `nth` directory that holds files.
    pub fn leaf(&self, nth: u32) -> String {
        format!("{LEAF}{}.{nth}", self.token)
    }

    /// The name of each directory above them.
    pub fn level(&self) -> String {
        format!("{LEVEL}{}", self.token)
    }

    /// The path of a directory that holds files, below the target.
    pub fn path_of(&self, nth: u32) -> String {
        let levels = format!("{}/", self.level()).repeat(self.depth as usize);
        format!("{levels}{}", self.leaf(nth))
    }

    /// What a name in the `nth` directory that holds files means; none for one that no run made there.
    pub fn entry(&self, nth: usize, name: &[u8]) -> Option<EntryName> {
        let text = std::str::from_utf8(name).ok()?;
        let number = |prefix: &str| {
            let digits = text.strip_prefix(prefix)?.strip_prefix(&self.token)?.strip_prefix('.')?;
            let number = digits.parse::<u64>().ok()?;
            (number.to_string() == digits && self.leaf_of(number) == nth).then_some(number)
        };
        number(FILE)
            .map(EntryName::File)
            .or_else(|| number(MOVED).map(EntryName::Moved))
            .or_else(|| number(DIRECTORY).map(EntryName::Directory))
    }
}

/// A token of a data set: of the run that makes it.
pub fn token(run_id: &str) -> String {
    let hash = run_id.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
    });
    format!("{:08x}", hash as u32 ^ (hash >> 32) as u32)
}

/// Room for a path below the target, filled for each operation without memory of its own.
#[derive(Clone)]
pub struct PathBuffer {
    bytes: [u8; LONGEST],
    end: usize,
}

impl PathBuffer {
    pub fn new() -> PathBuffer {
        PathBuffer { bytes: [0; LONGEST], end: 0 }
    }

    /// Writes a name of `layout`, behind the path that leads to its directory.
    #[inline]
    pub fn write(&mut self, prefix: &[u8], layout: &FileLayout, name: EntryName) {
        let (word, number) = match name {
            EntryName::File(number) => (FILE, number),
            EntryName::Moved(number) => (MOVED, number),
            EntryName::Directory(number) => (DIRECTORY, number),
        };
        self.end = 0;
        self.push(prefix);
        self.push(word.as_bytes());
        self.push(layout.token.as_bytes());
        self.push(b".");
        self.push(itoa::Buffer::new().format(number).as_bytes());
        self.bytes[self.end] = 0;
    }

    #[inline]
    fn push(&mut self, part: &[u8]) {
        self.bytes[self.end..self.end + part.len()].copy_from_slice(part);
        self.end += part.len();
    }

    /// The path for a call.
    #[inline]
    pub fn path(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.bytes[..=self.end]).unwrap_or_default()
    }
}

/// Whether every path of a layout has room. Errors: `Internal`.
pub fn check(layout: &FileLayout) -> Result<()> {
    let longest = layout.path_of(layout.leaves()).len() + 1 + DIRECTORY.len() + MOVED.len() + 40;
    match longest < LONGEST {
        true => Ok(()),
        false => Err(Error::internal("the paths of the layout are too long")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(lanes: u32, spread: u32) -> FileLayout {
        FileLayout { token: token("r1"), lanes, spread, depth: 8 }
    }

    #[test]
    fn a_name_is_of_its_number_and_its_directory_alone() {
        let mut path = PathBuffer::new();
        for layout in [layout(1, 1), layout(3, 1), layout(1, 4), layout(3, 4)] {
            check(&layout).unwrap();
            let mut used = vec![0; layout.leaves() as usize];
            for number in (0..1200).chain([u64::MAX >> 1]) {
                let leaf = layout.leaf_of(number);
                used[leaf] += 1;
                for name in [
                    EntryName::File(number),
                    EntryName::Moved(number),
                    EntryName::Directory(number),
                ] {
                    path.write(b"", &layout, name);
                    let written = path.path().to_bytes().to_owned();
                    assert_eq!(layout.entry(leaf, &written), Some(name));
                    assert_eq!(layout.entry(layout.leaves() as usize, &written), None);
                }
            }
            let (most, least) = (used.iter().max().unwrap(), used.iter().min().unwrap());
            assert!(most - least <= 1, "{used:?}");
        }
    }

    #[test]
    fn other_names_are_somebody_elses() {
        let layout = layout(1, 1);
        let t = &layout.token;
        for name in [
            format!("file.{t}"),
            format!("file.{t}."),
            format!("file.{t}.01"),
            format!("file.{t}.-1"),
            format!("file.{t}.1x"),
            format!("file.{t}.99999999999999999999"),
            "file.00000000.1".to_owned(),
            "thesis.tex".to_owned(),
        ] {
            assert_eq!(layout.entry(0, name.as_bytes()), None, "{name}");
        }
    }
}
