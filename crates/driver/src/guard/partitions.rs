//! Partitions that a device or file says it has, whether the kernel has read them or not.
//!
//! GPT and MBR are read here, with logical partitions; libblkid adds the tables that it knows. A wrong or
//! damaged table gives ranges with nothing in them, which does no harm: only marks are looked for there.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;

use taillight_machine::block::PartitionRange;
use taillight_machine::nvme::le;

use super::blkid;

/// Partitions looked at in one table, and links of a chain of logical ones.
const MOST: u64 = 256;

/// A device or file that is looked through for tables and marks. What cannot be read is noted: nobody knows
/// what is there.
pub struct SearchedDisk<'a> {
    pub fd: BorrowedFd<'a>,
    /// Bytes.
    pub size: u64,
    unreadable: RefCell<Option<String>>,
}

impl<'a> SearchedDisk<'a> {
    pub fn new(fd: BorrowedFd<'a>, size: u64) -> SearchedDisk<'a> {
        SearchedDisk { fd, size, unreadable: RefCell::new(None) }
    }

    pub fn whole(&self) -> PartitionRange {
        PartitionRange { start: 0, len: self.size }
    }

    /// What of a range is there: a table may name more.
    pub fn clipped(&self, range: PartitionRange) -> PartitionRange {
        PartitionRange { len: range.len.min(self.size.saturating_sub(range.start)), ..range }
    }

    /// Bytes of a range; short at its end, and where they cannot be read.
    pub fn read(&self, of: PartitionRange, at: u64, bytes: usize) -> Vec<u8> {
        let left = usize::try_from(of.len.saturating_sub(at)).unwrap_or(bytes);
        let mut page = vec![0; bytes.min(left)];
        let place = of.start.saturating_add(at);
        if place >= self.size {
            // A damaged table names what is not there.
            return Vec::new();
        }
        let seen = rustix::io::pread(self.fd, &mut *page, place).unwrap_or_else(|e| {
            self.note(format!("{bytes} bytes at {place}: {e}"));
            0
        });
        page.truncate(seen);
        page
    }

    /// Notes that something could not be read.
    pub fn note(&self, what: String) {
        self.unreadable.borrow_mut().get_or_insert(what);
    }

    /// What could not be read, if anything, the first of it.
    pub fn unreadable(&self) -> Option<String> {
        self.unreadable.borrow().clone()
    }
}

/// The partitions of a device or file, and those inside of these, one level deep.
pub fn found(disk: &SearchedDisk<'_>) -> Vec<PartitionRange> {
    let outer = inside(disk, disk.whole());
    let inner: Vec<_> = outer.iter().flat_map(|part| inside(disk, *part)).collect();
    outer.into_iter().chain(inner).collect()
}

fn inside(disk: &SearchedDisk<'_>, of: PartitionRange) -> Vec<PartitionRange> {
    let mut all = blkid::partitions(disk, of);
    for block in [512, 4096] {
        all.extend(gpt(disk, of, block));
        all.extend(mbr(disk, of, block));
    }
    all.retain(|p| p.len > 0 && p.start < of.start.saturating_add(of.len) && *p != of);
    all.sort_by_key(|p| (p.start, p.len));
    all.dedup();
    all
}

/// The table at the start or, where that is lost, the copy at the end.
fn gpt(disk: &SearchedDisk<'_>, of: PartitionRange, block: u64) -> Vec<PartitionRange> {
    let head = |at| Some(disk.read(of, at, 92)).filter(|h| h.starts_with(b"EFI PART"));
    let end = (of.len / block).saturating_sub(1) * block;
    let Some(head) = head(block).or_else(|| head(end)) else { return Vec::new() };
    let (first, count, entry) = (le(&head, 72, 8), le(&head, 80, 4).min(MOST), le(&head, 84, 4));
    let Ok(entry @ 128..=4096) = usize::try_from(entry) else { return Vec::new() };
    let table = disk.read(of, first.saturating_mul(block), entry * count as usize);
    let used = table.chunks_exact(entry).filter(|e| le(e, 0, 8) | le(e, 8, 8) != 0);
    let range = |e: &[u8]| {
        let (from, to) = (le(e, 32, 8), le(e, 40, 8));
        range(of, block, from, to.saturating_sub(from).saturating_add(1))
    };
    used.map(range).collect()
}

fn range(of: PartitionRange, block: u64, from: u64, blocks: u64) -> PartitionRange {
    let start = of.start.saturating_add(from.saturating_mul(block));
    PartitionRange { start, len: blocks.saturating_mul(block) }
}

/// Kinds of partition that hold a chain of logical ones.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];

fn mbr(disk: &SearchedDisk<'_>, of: PartitionRange, block: u64) -> Vec<PartitionRange> {
    let mut all = Vec::new();
    let mut chains = Vec::new();
    for entry in entries(disk, of, 0) {
        match EXTENDED.contains(&entry.kind) {
            true => chains.push(entry.from),
            false => all.push(range(of, block, entry.from, entry.blocks)),
        }
    }
    for first in chains {
        let (mut at, mut links) = (first, 0);
        while links < MOST {
            let table = entries(disk, of, at.saturating_mul(block));
            let next = table.iter().find(|e| EXTENDED.contains(&e.kind)).map(|e| e.from);
            let logical = table.iter().filter(|e| !EXTENDED.contains(&e.kind));
            all.extend(logical.map(|e| range(of, block, at.saturating_add(e.from), e.blocks)));
            let Some(next) = next else { break };
            (at, links) = (first.saturating_add(next), links + 1);
        }
    }
    all
}

/// An entry of a table of four.
struct MbrEntry {
    kind: u8,
    from: u64,
    blocks: u64,
}

fn entries(disk: &SearchedDisk<'_>, of: PartitionRange, at: u64) -> Vec<MbrEntry> {
    let table = disk.read(of, at, 512);
    if !table.ends_with(&[0x55, 0xaa]) || table.len() < 512 {
        return Vec::new();
    }
    let entry = |e: &[u8]| MbrEntry { kind: e[4], from: le(e, 8, 4), blocks: le(e, 12, 4) };
    table[446..510].chunks_exact(16).map(entry).filter(|e| e.kind != 0).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    const LEN: u64 = 8 << 20;

    fn entry(file: &File, table: u64, n: u64, (kind, from, blocks): (u8, u32, u32)) {
        let at = table + 446 + 16 * n;
        file.write_all_at(&[kind], at + 4).unwrap();
        file.write_all_at(&from.to_le_bytes(), at + 8).unwrap();
        file.write_all_at(&blocks.to_le_bytes(), at + 12).unwrap();
        file.write_all_at(&[0x55, 0xaa], table + 510).unwrap();
    }

    #[test]
    fn primary_and_logical_partitions() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(LEN).unwrap();
        assert_eq!(found(&SearchedDisk::new(file.as_fd(), LEN)), []);
        entry(&file, 0, 0, (0x83, 2048, 100));
        entry(&file, 0, 1, (0x05, 4096, 8000));
        entry(&file, 4096 * 512, 0, (0x83, 8, 50));
        entry(&file, 4096 * 512, 1, (0x05, 1000, 100));
        entry(&file, 5096 * 512, 0, (0x83, 8, 60));
        let all = found(&SearchedDisk::new(file.as_fd(), LEN));
        for (from, blocks) in [(2048, 100), (4104, 50), (5104, 60)] {
            let wanted = PartitionRange { start: from * 512, len: blocks * 512 };
            assert!(all.contains(&wanted), "{wanted:?} in {all:?}");
        }
        // A chain that leads back to itself ends.
        entry(&file, 5096 * 512, 1, (0x05, 1000, 100));
        found(&SearchedDisk::new(file.as_fd(), LEN));
    }

    #[test]
    fn a_gpt_or_its_copy() {
        for (block, at) in [(512, 512), (4096, 4096), (512, LEN - 512)] {
            let file = tempfile::tempfile().unwrap();
            file.set_len(LEN).unwrap();
            let mut head = [0u8; 92];
            head[..8].copy_from_slice(b"EFI PART");
            (head[72], head[80], head[84]) = (2, 4, 128);
            file.write_all_at(&head, at).unwrap();
            let mut entry = [0u8; 128];
            entry[0] = 1;
            entry[32..40].copy_from_slice(&64u64.to_le_bytes());
            entry[40..48].copy_from_slice(&127u64.to_le_bytes());
            file.write_all_at(&entry, 2 * block + 128).unwrap();
            let wanted = PartitionRange { start: 64 * block, len: 64 * block };
            assert!(found(&SearchedDisk::new(file.as_fd(), LEN)).contains(&wanted), "{block} {at}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_noted_and_what_is_past_the_end_is_not() {
        let (_, written) = std::io::pipe().unwrap();
        let disk = SearchedDisk::new(written.as_fd(), LEN);
        found(&disk);
        assert!(disk.unreadable().is_some());
        let file = tempfile::tempfile().unwrap();
        let disk = SearchedDisk::new(file.as_fd(), LEN);
        assert_eq!(found(&disk), []);
        assert_eq!(disk.unreadable(), None);
    }
}
