//! Marks that RAID, LVM and their like leave on what they are made of, also while not assembled.
//!
//! What libblkid knows, where it is there, and a table of our own always, of which weak marks count without
//! libblkid only. A plain file system is not looked for: destroying one is what a user confirms.

use taillight_machine::block::PartitionRange;
use taillight_machine::nvme::le;

use super::blkid;
use super::partitions::{self, SearchedDisk};

/// Where a mark stands, bytes.
#[derive(Debug, Clone, Copy)]
enum At {
    Start(u64),
    /// So many bytes before the end.
    End(u64),
    /// So many before the end, rounded down to a multiple, and so many behind that.
    Near {
        back: u64,
        align: u64,
        plus: u64,
    },
}

/// A magic number of something that has members.
struct Mark {
    of: &'static str,
    at: &'static [At],
    magic: &'static [u8],
    /// So short or common that other data looks like it: libblkid looks at more, and is believed where it is
    /// there.
    weak: bool,
}

const fn mark(of: &'static str, at: &'static [At], magic: &'static [u8]) -> Mark {
    Mark { of, at, magic, weak: false }
}

const fn weak(of: &'static str, at: &'static [At], magic: &'static [u8]) -> Mark {
    Mark { weak: true, ..mark(of, at, magic) }
}

const MD: &str = "a Linux RAID array";
const LVM: &str = "an LVM volume group";
const DDF: &str = "a DDF RAID array";
const DRBD: &str = "a DRBD volume";
const DRBD_AT: &[At] = &[At::End(4036), At::Near { back: 4096, align: 4096, plus: 60 }];
const DDF_AT: &[At] = &[At::End(512), At::End(4096), At::End(257 * 512)];
const HIBERNATED: &str = "a hibernated system (its memory)";
const HIBERNATED_AT: &[At] =
    &[At::Start(0xff6), At::Start(0x1ff6), At::Start(0x3ff6), At::Start(0xfff6)];
const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const MD_1: &[At] = &[At::Start(0), At::Start(4096), At::Near { back: 8192, align: 4096, plus: 0 }];
const MD_0: &[At] = &[At::Near { back: 0x1_0000, align: 0x1_0000, plus: 0 }];

/// Places and magic numbers, most of them as in the sources of libblkid
/// (`libblkid/src/superblocks`), which has other names for them.
const MARKS: &[Mark] = &[
    mark(MD, MD_1, b"\xfc\x4e\x2b\xa9"),
    mark(MD, MD_0, b"\xfc\x4e\x2b\xa9"),
    mark(MD, MD_0, b"\xa9\x2b\x4e\xfc"),
    mark(LVM, &[At::Start(24), At::Start(536), At::Start(1048), At::Start(1560)], b"LVM2 001"),
    weak(LVM, &[At::Start(0)], b"HM\x01\0"),
    weak(LVM, &[At::Start(0)], b"HM\x02\0"),
    mark("a bcache set", &[At::Start(4096 + 24)], BCACHE),
    mark(
        "an Intel RAID volume (IMSM)",
        &[At::End(1024), At::End(8192)],
        b"Intel Raid ISM Cfg Sig. ",
    ),
    mark(DDF, DDF_AT, b"\xde\x11\xde\x11"),
    mark(DDF, DDF_AT, b"\x11\xde\x11\xde"),
    mark(DRBD, DRBD_AT, b"\x83\x74\x02\x6b"),
    mark(DRBD, DRBD_AT, b"\x83\x74\x02\x6c"),
    mark(DRBD, DRBD_AT, b"\x83\x74\x02\x6d"),
    mark("DRBD Manage", &[At::Start(0)], b"$DRBDmgr=q"),
    mark("a Promise RAID", PROMISE_AT, b"Promise Technology, Inc."),
    weak("a Silicon Medley RAID", &[At::End(512 - 0x60)], b"\0\0\0\x2f"),
    mark("an LSI MegaRAID", &[At::End(512)], b"$XIDE$"),
    mark("an NVIDIA RAID", &[At::End(1024)], b"NVIDIA"),
    mark("a HighPoint RAID", &[At::End(11 * 512)], b"\xf3\x16\x78\x5a"),
    mark("a HighPoint RAID", &[At::End(11 * 512)], b"\xfd\x16\x78\x5a"),
    mark("a HighPoint RAID", &[At::Start(9 * 512 + 32)], b"\xf0\x16\x78\x5a"),
    mark("a HighPoint RAID", &[At::Start(9 * 512 + 32)], b"\xfd\x16\x78\x5a"),
    mark("an Adaptec RAID", &[At::End(512)], b"\x37\xfc\x4d\x1e"),
    mark(
        "a Stratis pool",
        &[At::Start(516), At::Start(9 * 512 + 4)],
        b"!Stra0tis\x86\xff\x02^\x41rh",
    ),
    mark("a VMFS volume", &[At::Start(1 << 20)], b"\x0d\xd0\x01\xc0"),
    mark("a VDO volume", &[At::Start(0)], b"dmvdo001"),
    mark("a Ceph store", &[At::Start(0)], b"bluestore block device"),
    weak("a snapshot's store", &[At::Start(0)], b"SnAp"),
    mark("dm-integrity", &[At::Start(0)], b"integrt\0"),
    mark("dm-verity", &[At::Start(0)], b"verity\0\0"),
    mark("an XFS file system (its log)", &[At::Start(0)], b"\xfe\xed\xba\xbe"),
    mark("UBI", &[At::Start(0)], b"UBI#"),
    mark("an Oracle ASM disk group", &[At::Start(32)], b"ORCLDISK"),
    mark("a Windows dynamic disk", &[At::Start(6 * 512)], b"PRIVHEAD"),
    mark(HIBERNATED, HIBERNATED_AT, b"S1SUSPEND"),
    mark(HIBERNATED, HIBERNATED_AT, b"S2SUSPEND"),
    mark(HIBERNATED, HIBERNATED_AT, b"ULSUSPEND"),
    mark(HIBERNATED, HIBERNATED_AT, b"LINHIB0001"),
];

const PROMISE_AT: &[At] = &[
    At::End(63 * 512),
    At::End(255 * 512),
    At::End(256 * 512),
    At::End(16 * 512),
    At::End(399 * 512),
    At::End(591 * 512),
    At::End(675 * 512),
    At::End(735 * 512),
    At::End(911 * 512),
    At::End(974 * 512),
    At::End(991 * 512),
    At::End(951 * 512),
    At::End(3087 * 512),
];

impl At {
    /// The place in a range of this length; none where it has none.
    fn in_range(self, len: u64) -> Option<u64> {
        match self {
            At::Start(at) => Some(at),
            At::End(back) => len.checked_sub(back),
            At::Near { back, align, plus } => {
                Some((len & !511).checked_sub(back)? / align * align + plus)
            }
        }
    }
}

/// A mark that was found.
#[derive(Debug)]
pub struct FoundMark {
    pub of: String,
    /// Bytes from the start of the device or file; the start of its partition where the place is not known.
    pub at: u64,
}

/// What a device or file is a member of, itself or a partition in it: one of `known`, which the kernel has, or
/// one that its tables name.
pub fn member(disk: &SearchedDisk<'_>, known: Vec<PartitionRange>) -> Option<FoundMark> {
    let parts = known.into_iter().chain(partitions::found(disk));
    let mut all = std::iter::once(disk.whole()).chain(parts);
    all.find_map(|range| in_range(disk, range).into_iter().next())
}

/// What a whole device or file is a member of, by a mark that is in none of the ranges: a partition may end
/// where its disk does.
pub fn mark_outside(disk: &SearchedDisk<'_>, ranges: &[PartitionRange]) -> Option<FoundMark> {
    let inside = |at: u64| ranges.iter().any(|r| at >= r.start && at - r.start < r.len);
    in_range(disk, disk.whole()).into_iter().find(|found| !inside(found.at))
}

fn in_range(disk: &SearchedDisk<'_>, range: PartitionRange) -> Vec<FoundMark> {
    let known = blkid::signatures(disk, range);
    let mut all = own_marks(disk, range, known.is_none());
    let known = known.unwrap_or_default().into_iter();
    all.extend(known.filter(blkid::Signature::is_member).map(|s| FoundMark {
        of: format!("something else ({})", s.kind),
        at: range.start.saturating_add(s.at.unwrap_or(0)),
    }));
    all
}

/// The marks of `MARKS`, and those of ZFS, btrfs, bcachefs and ext journals; weak ones only with `weak`.
fn own_marks(disk: &SearchedDisk<'_>, range: PartitionRange, weak: bool) -> Vec<FoundMark> {
    let found = |of: &str, at: u64| FoundMark { of: of.to_owned(), at: range.start + at };
    let has = |at: u64, magic: &[u8]| disk.read(range, at, magic.len()) == magic;
    let mut all = Vec::new();
    for mark in MARKS.iter().filter(|mark| weak || !mark.weak) {
        let mut places = mark.at.iter().filter_map(|at| at.in_range(range.len));
        all.extend(places.find(|at| has(*at, mark.magic)).map(|at| found(mark.of, at)));
    }
    all.extend(zfs(disk, range).map(|at| found("a ZFS pool", at)));
    // A file system of several devices is lost with one of them.
    let btrfs = disk.read(range, 0x1_0040, 0x50);
    if btrfs.starts_with(b"_BHRfS_M") && le(&btrfs, 0x48, 8) > 1 {
        all.push(found("a btrfs of several devices", 0x1_0040));
    }
    let bcachefs = disk.read(range, 4096 + 24, 104);
    let new = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
    if bcachefs.starts_with(new) && le(&bcachefs, 99, 1) > 1 {
        all.push(found("a bcachefs of several devices", 4096 + 24));
    }
    // ext: the journal of another file system.
    let ext = disk.read(range, 1024 + 56, 44);
    if weak && ext.starts_with(b"\x53\xef") && le(&ext, 40, 4) & 8 != 0 {
        all.push(found("an ext4 file system (its journal)", 1024 + 56));
    }
    all
}

/// The first uberblock of the four labels, in either order of bytes: two at the start, two at the end.
fn zfs(disk: &SearchedDisk<'_>, range: PartitionRange) -> Option<u64> {
    const LABEL: u64 = 256 << 10;
    let end = range.len / LABEL * LABEL;
    let labels = [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)];
    labels.into_iter().flatten().find_map(|label| {
        let array = label + LABEL / 2;
        let ring = disk.read(range, array, 128 << 10);
        let mut blocks = ring.chunks_exact(1024);
        let magic = 0x00ba_b10c_u64;
        let is = |b: &[u8]| b[..8] == magic.to_le_bytes() || b[..8] == magic.to_be_bytes();
        blocks.position(is).map(|n| array + n as u64 * 1024)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    const LEN: u64 = 16 << 20;

    fn image() -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(LEN).unwrap();
        file
    }

    fn of(file: &File) -> Option<String> {
        member(&SearchedDisk::new(file.as_fd(), LEN), Vec::new()).map(|found| found.of)
    }

    fn own(file: &File, start: u64, len: u64) -> Vec<String> {
        let range = PartitionRange { start, len };
        let disk = SearchedDisk::new(file.as_fd(), LEN);
        own_marks(&disk, range, true).into_iter().map(|found| found.of).collect()
    }

    #[test]
    fn each_mark_of_the_table_is_found_where_it_belongs_and_nowhere_else() {
        assert_eq!(of(&image()), None);
        for mark in MARKS {
            for at in mark.at {
                let file = image();
                let place = at.in_range(LEN).unwrap();
                file.write_all_at(mark.magic, place).unwrap();
                assert_eq!(own(&file, 0, LEN), [mark.of], "{at:?}");
                assert!(of(&file).is_some() || mark.weak);
                assert!(own(&file, place + 1, 64).is_empty(), "{} {at:?}", mark.of);
                // The same, as a partition of something.
                let file = image();
                file.write_all_at(mark.magic, (4 << 20) + at.in_range(8 << 20).unwrap()).unwrap();
                assert!(own(&file, 4 << 20, 8 << 20).contains(&mark.of.to_owned()), "{at:?}");
            }
        }
    }

    #[test]
    fn a_pool_with_one_label_left_in_either_order_of_bytes() {
        for label in [0, 256 << 10, LEN - (512 << 10), LEN - (256 << 10)] {
            for magic in [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()] {
                let file = image();
                file.write_all_at(&magic, label + (128 << 10) + 5 * 1024).unwrap();
                assert_eq!(of(&file).as_deref(), Some("a ZFS pool"));
            }
        }
    }

    #[test]
    fn file_systems_are_members_only_where_they_have_several_devices() {
        for (devices, member) in [(1u64, None), (2, Some("a btrfs of several devices"))] {
            let file = image();
            file.write_all_at(b"_BHRfS_M", 0x1_0040).unwrap();
            file.write_all_at(&devices.to_le_bytes(), 0x1_0088).unwrap();
            assert_eq!(of(&file).as_deref(), member);
        }
        for (features, member) in [(4u32, None), (8, Some("an ext4 file system (its journal)"))] {
            let file = image();
            file.write_all_at(b"\x53\xef", 1024 + 56).unwrap();
            file.write_all_at(&features.to_le_bytes(), 1024 + 96).unwrap();
            assert_eq!(own(&file, 0, LEN).first().map(String::as_str), member);
        }
    }

    #[test]
    fn a_mark_in_a_partition_that_the_kernel_has_not_read() {
        let file = image();
        // One partition of an MBR, from 1 MiB on.
        file.write_all_at(&[0x8e], 450).unwrap();
        file.write_all_at(&2048u32.to_le_bytes(), 454).unwrap();
        file.write_all_at(&8192u32.to_le_bytes(), 458).unwrap();
        file.write_all_at(&[0x55, 0xaa], 510).unwrap();
        assert_eq!(of(&file), None);
        file.write_all_at(b"LABELONE", (1 << 20) + 512).unwrap();
        file.write_all_at(b"LVM2 001", (1 << 20) + 536).unwrap();
        assert_eq!(of(&file).as_deref(), Some("an LVM volume group"));
        let part = PartitionRange { start: 1 << 20, len: 4 << 20 };
        let disk = SearchedDisk::new(file.as_fd(), LEN);
        assert!(mark_outside(&disk, &[part]).is_none());
        file.write_all_at(b"LVM2 001", 536).unwrap();
        assert_eq!(mark_outside(&disk, &[part]).unwrap().at, 536);
    }

    #[test]
    fn libblkid_is_believed_where_a_mark_is_weak() {
        let file = image();
        let disk = SearchedDisk::new(file.as_fd(), LEN);
        if blkid::signatures(&disk, disk.whole()).is_none() {
            eprintln!("skipped: libblkid_is_believed_where_a_mark_is_weak: no libblkid");
            return;
        }
        // Four common bytes near the end.
        file.write_all_at(b"\0\0\0\x2f", LEN - 512 + 0x60).unwrap();
        assert_eq!(own(&file, 0, LEN), ["a Silicon Medley RAID"]);
        assert_eq!(of(&file), None);
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_blank() {
        let (_, written) = std::io::pipe().unwrap();
        let disk = SearchedDisk::new(written.as_fd(), LEN);
        assert!(member(&disk, Vec::new()).is_none());
        assert!(disk.unreadable().unwrap().contains("bytes at"));
    }

    /// Marks that libblkid does not know, or only with a whole structure around them.
    const OURS_ALONE: [&str; 5] = [
        "DRBD Manage",
        "an Adaptec RAID",
        "a Stratis pool",
        "an XFS file system (its log)",
        "a Windows dynamic disk",
    ];

    /// Writes a mark with what libblkid looks at beside it: versions, and places that name themselves.
    fn dressed(file: &File, mark: &Mark, at: u64) {
        let write = |bytes: &[u8], at: u64| file.write_all_at(bytes, at).unwrap();
        write(mark.magic, at);
        match mark.of {
            MD if mark.at.len() == MD_1.len() => {
                write(&[1], at + 4);
                write(&(at / 512).to_le_bytes(), at + 144);
            }
            LVM if at >= 24 => {
                write(b"LABELONE", at - 24);
                write(&(at / 512).to_le_bytes(), at - 16);
                write(&[32], at - 4);
            }
            "a bcache set" => write(&[8], at - 16),
            "dm-integrity" | "dm-verity" => write(&[1], at + 8),
            _ => {}
        }
    }

    #[test]
    fn libblkid_calls_the_same_things_members() {
        for mark in MARKS.iter().filter(|m| !OURS_ALONE.contains(&m.of)) {
            let known = mark.at.iter().filter_map(|at| {
                let file = image();
                dressed(&file, mark, at.in_range(LEN).unwrap());
                let disk = SearchedDisk::new(file.as_fd(), LEN);
                blkid::signatures_of_any_checksum(&disk, disk.whole())
            });
            let known: Vec<_> = known.collect();
            if known.is_empty() {
                eprintln!("skipped: libblkid_calls_the_same_things_members: no libblkid");
                return;
            }
            let member = known.iter().flatten().any(blkid::Signature::is_member);
            assert!(member, "{} {:?}", mark.of, mark.magic);
        }
    }
}
