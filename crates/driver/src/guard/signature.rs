//! Marks that RAID, LVM and their like leave on member devices, also while not assembled.
//!
//! A plain file system is not looked for here: destroying one is what a user confirms.

use std::os::fd::BorrowedFd;

use taillight_machine::block::PartitionRange;

const MD: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
const BCACHE: [u8; 16] = [
    0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81,
];
const ZFS_UBERBLOCK: [u8; 8] = 0x00ba_b10c_u64.to_le_bytes();

/// What the device is a member of, if a mark says so. What cannot be read has no mark.
pub fn member(fd: BorrowedFd<'_>, range: PartitionRange) -> Option<&'static str> {
    let has = |offset: u64, mark: &[u8]| has(fd, range, offset, mark);
    let sectors = range.len / 512;
    let md_offsets = [
        0,
        4096,
        (sectors.saturating_sub(16) & !7) * 512,
        (range.len & !0xffff).saturating_sub(0x1_0000),
    ];
    if md_offsets.iter().any(|at| has(*at, &MD)) {
        return Some("a Linux RAID array");
    }
    if (0..4).any(|s| has(s * 512, b"LABELONE") && has(s * 512 + 24, b"LVM2 001")) {
        return Some("an LVM volume group");
    }
    if has(4096 + 24, &BCACHE) {
        return Some("a bcache set");
    }
    if (0..128).any(|n| has(128 * 1024 + n * 1024, &ZFS_UBERBLOCK)) {
        return Some("a ZFS pool");
    }
    None
}

fn has(fd: BorrowedFd<'_>, range: PartitionRange, offset: u64, mark: &[u8]) -> bool {
    let mut seen = [0u8; 16];
    let seen = &mut seen[..mark.len()];
    let inside = offset + mark.len() as u64 <= range.len;
    inside
        && rustix::io::pread(fd, &mut *seen, range.start + offset) == Ok(mark.len())
        && seen == mark
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn marks_are_found_where_they_belong() {
        let len = 1 << 20;
        let range = PartitionRange { start: 0, len };
        let cases: [(u64, &[u8], &str); 4] = [
            (4096, &MD, "RAID"),
            ((len & !0xffff) - 0x1_0000, &MD, "RAID"),
            (4096 + 24, &BCACHE, "bcache"),
            (128 * 1024 + 5 * 1024, &ZFS_UBERBLOCK, "ZFS"),
        ];
        for (at, mark, what) in cases {
            let file = tempfile::tempfile().unwrap();
            file.set_len(len).unwrap();
            assert_eq!(member(file.as_fd(), range), None);
            file.write_all_at(mark, at).unwrap();
            assert!(member(file.as_fd(), range).unwrap().contains(what));
            let behind = PartitionRange { start: at + 1, len: 64 };
            assert_eq!(member(file.as_fd(), behind), None);
        }
        let lvm = tempfile::tempfile().unwrap();
        lvm.set_len(len).unwrap();
        lvm.write_all_at(b"LABELONE", 512).unwrap();
        assert_eq!(member(lvm.as_fd(), range), None);
        lvm.write_all_at(b"LVM2 001", 512 + 24).unwrap();
        assert!(member(lvm.as_fd(), range).unwrap().contains("LVM"));
    }
}
