//! Tells which files in a directory are a database's: by the names that RocksDB, LevelDB and SQLite give, and for the
//! first two by the file numbers given out so far, read from the manifest. What is done with such files is decided by
//! the callers.

use std::io::Read;
use std::path::Path;

use taillight_core::regular;

/// Allowance of file numbers that a store may have given out since it last wrote its manifest.
const IN_PROGRESS: u64 = 64;

/// What a name in the directory of a database says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFile {
    /// A write-ahead log of this number.
    Log(u64),
    /// A table, blob file or temporary file (`.dbtmp`) of this number.
    Table(u64),
    /// Any other file of the store: `CURRENT`, `LOCK`, `LOG`, `MANIFEST-*`, `OPTIONS-*`; each of SQLite's.
    Head,
}

impl StoreFile {
    /// None for a name that the store of this driver does not give. The names of RocksDB and LevelDB are not told
    /// apart: any `driver` but `sqlite` stands for both.
    pub fn of(driver: &str, name: &str) -> Option<StoreFile> {
        if driver == super::sqlite::NAME {
            let ending = name.strip_prefix(super::sqlite::FILE)?;
            let known = ["", "-wal", "-shm", "-journal"].contains(&ending);
            return known.then_some(StoreFile::Head);
        }
        let heads = ["CURRENT", "IDENTITY", "LOCK", "LOG", "LOG.old"];
        let starts = ["MANIFEST-", "OPTIONS-", "LOG.old."];
        if heads.contains(&name) {
            return Some(StoreFile::Head);
        }
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if let Some(rest) = starts.into_iter().find_map(|start| name.strip_prefix(start)) {
            let rest = rest.strip_suffix(".dbtmp").unwrap_or(rest);
            return digits(rest).then_some(StoreFile::Head);
        }
        let (number, kind) = name.split_once('.')?;
        let number = number.parse().ok().filter(|_| digits(number))?;
        match kind.strip_suffix(".trash").unwrap_or(kind) {
            "log" => Some(StoreFile::Log(number)),
            "sst" | "ldb" | "blob" | "dbtmp" => Some(StoreFile::Table(number)),
            _ => None,
        }
    }
}

/// What a manifest says of the numbers of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownNumbers {
    /// The number that the next file gets.
    pub next: u64,
}

impl KnownNumbers {
    /// Of the database in `dir`; none where the manifest is missing or too large, has fields not known here, or names
    /// no next number.
    pub fn of(dir: &Path) -> Option<KnownNumbers> {
        let current = read(&dir.join("CURRENT"), 256)?;
        let name = std::str::from_utf8(&current).ok()?.trim_end();
        if !name.starts_with("MANIFEST-") || StoreFile::of("", name) != Some(StoreFile::Head) {
            return None;
        }
        numbers(&read(&dir.join(name), MOST_BYTES)?)
    }

    /// Whether the store may have given out a number: [`KnownNumbers::next`] and some behind it count as given out.
    pub fn gave(&self, number: u64) -> bool {
        number < self.next.saturating_add(IN_PROGRESS)
    }
}

/// The largest manifest that is read, bytes. RocksDB begins a new one at 1 GiB.
const MOST_BYTES: u64 = 256 << 20;

fn read(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = regular::open(path).ok()?;
    file.take(most + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= most).then_some(bytes)
}

/// Bytes of a block of a log file, and of the head of a part of a record (LevelDB, `doc/log_format.md`). Manifests have
/// the same format.
const BLOCK: usize = 32 << 10;
const HEAD: usize = 7;

/// The whole records of a log file. A part that is not whole ends its block, not the file; checksums are not compared.
fn records(file: &[u8]) -> Vec<Vec<u8>> {
    let (mut found, mut open) = (Vec::new(), Vec::new());
    for block in file.chunks(BLOCK) {
        let mut rest = block;
        while let Some((head, after)) = rest.split_at_checked(HEAD) {
            let (len, kind) = (usize::from(u16::from_le_bytes([head[4], head[5]])), head[6]);
            // 5 to 8 are the types of recycled log files, whose heads also have the number of the log, 4 bytes.
            let skipped = if (5..=8).contains(&kind) { 4 } else { 0 };
            let body = after.get(skipped..).and_then(|after| after.split_at_checked(len));
            let Some((body, next)) = body.filter(|_| (1..=8).contains(&kind)) else { break };
            if matches!(kind, 1 | 2 | 5 | 6) {
                open.clear();
            }
            open.extend_from_slice(body);
            if matches!(kind, 1 | 4 | 5 | 8) {
                found.push(std::mem::take(&mut open));
            }
            rest = next;
        }
    }
    found
}

/// What is left of a record.
struct RecordFields<'a>(&'a [u8]);

impl<'a> RecordFields<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn numbers(&mut self, count: usize) -> Option<()> {
        (0..count).try_for_each(|_| self.number().map(drop))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(text)
    }

    fn texts(&mut self, count: usize) -> Option<()> {
        (0..count).try_for_each(|_| self.text().map(drop))
    }

    /// Pairs of a tag and a text, up to the tag `end`.
    fn custom(&mut self, end: u64) -> Option<()> {
        while self.number()? != end {
            self.text()?;
        }
        Some(())
    }
}

/// A tag with this bit is followed by the length of its field: readers may skip it.
const SKIPPABLE: u64 = 1 << 13;

/// The next file number in a record of a manifest, where the record has it; the outer `None` for a record with a field
/// that is not known. After RocksDB's `VersionEdit::DecodeFrom` (`db/version_edit.cc`); LevelDB's fields are among its.
fn next_in(record: &[u8]) -> Option<Option<u64>> {
    let (mut fields, mut next) = (RecordFields(record), None);
    while !fields.0.is_empty() {
        match fields.number()? {
            1 | 201 => fields.texts(1)?,
            3 => next = Some(fields.number()?),
            2 | 4 | 9 | 10 | 200 | 203 | 300 => fields.numbers(1)?,
            5 => fields.numbers(1).and_then(|()| fields.texts(1))?,
            6 => fields.numbers(2)?,
            7 => fields.numbers(3).and_then(|()| fields.texts(2))?,
            100 => new_file(&mut fields, 3)?,
            102 => new_file(&mut fields, 4)?,
            103 => new_file(&mut fields, 3).and_then(|()| fields.custom(1))?,
            // A column family is dropped.
            202 => {}
            // A blob file: number, count and bytes; method and value of its checksum.
            400 => {
                fields.numbers(3).and_then(|()| fields.texts(2)).and_then(|()| fields.custom(0))?;
            }
            401 => fields.numbers(3).and_then(|()| fields.custom(0))?,
            tag if tag & SKIPPABLE != 0 => fields.texts(1)?,
            _ => return None,
        }
    }
    Some(next)
}

/// A table that is added: `numbers` numbers, its smallest and largest key, its smallest and largest sequence number.
fn new_file(fields: &mut RecordFields<'_>, numbers: usize) -> Option<()> {
    fields.numbers(numbers)?;
    fields.texts(2)?;
    fields.numbers(2)
}

fn numbers(manifest: &[u8]) -> Option<KnownNumbers> {
    let mut next = None;
    for record in records(manifest) {
        next = next_in(&record)?.or(next);
    }
    next.map(|next| KnownNumbers { next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_stores_give() {
        for (name, is) in [
            ("000005.log", Some(StoreFile::Log(5))),
            ("000006.sst", Some(StoreFile::Table(6))),
            ("000006.sst.trash", Some(StoreFile::Table(6))),
            ("7.ldb", Some(StoreFile::Table(7))),
            ("MANIFEST-000004", Some(StoreFile::Head)),
            ("OPTIONS-000007.dbtmp", Some(StoreFile::Head)),
            ("LOG.old.1764250000", Some(StoreFile::Head)),
            ("000009.dbtmp", Some(StoreFile::Table(9))),
            ("MANIFEST-of-mine", None),
            ("+5.log", None),
            ("thesis.log", None),
            ("LOG.txt", None),
        ] {
            assert_eq!(StoreFile::of("rocksdb", name), is, "{name}");
        }
    }

    #[test]
    fn each_store_has_names_of_its_own() {
        for name in ["taillight.db", "taillight.db-wal", "taillight.db-shm", "taillight.db-journal"]
        {
            assert_eq!(StoreFile::of("sqlite", name), Some(StoreFile::Head), "{name}");
            for other in ["rocksdb", "leveldb"] {
                assert_eq!(StoreFile::of(other, name), None, "{other} {name}");
            }
        }
        for name in ["CURRENT", "LOG", "000005.log", "MANIFEST-000004", "taillight.db2", "x.db"] {
            assert_eq!(StoreFile::of("sqlite", name), None, "{name}");
        }
    }

    fn record(fields: &[u8]) -> Vec<u8> {
        let mut all = vec![0; 4];
        all.extend((fields.len() as u16).to_le_bytes());
        all.push(1);
        all.extend(fields);
        all
    }

    #[test]
    fn a_manifest_says_which_numbers_were_given_out() {
        // Log 4 of the first column family, log 9 of the second; 12 comes next.
        let first = record(&[1, 3, b'c', b'm', b'p', 2, 4, 3, 8]);
        let table = [103, 0, 5, 100, 1, b'a', 1, b'z', 1, 2, 5, 1, b'x', 1];
        let second = record(&[&table[..], &[2, 9, 3, 12, 0xc8, 1, 1]].concat());
        let ours = [first.clone(), second].concat();
        assert_eq!(numbers(&ours), Some(KnownNumbers { next: 12 }));
        // A later field, marked as skippable.
        let later = record(&[0xc9, 0x40, 2, b'i', b'd', 10, 6]);
        let known = numbers(&[ours.clone(), later].concat()).unwrap();
        assert_eq!(known, KnownNumbers { next: 12 });
        assert!(known.gave(5) && known.gave(13) && !known.gave(777));
        assert_eq!(numbers(&[ours, record(&[99, 1])].concat()), None);
        assert_eq!(numbers(b"data"), None);
        assert_eq!(numbers(&first[..9]), None, "cut off");
    }
}
