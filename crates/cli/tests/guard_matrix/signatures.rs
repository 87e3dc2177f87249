//! What members of sets carry, written as their own tools write it as far as anybody checks: the
//! layouts are those that libblkid reads (util-linux, `libblkid/src/superblocks`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::stage::{MIB, Setup, size_of};

/// A kind of signature, and how it is written onto a device.
pub struct MemberSignature {
    pub name: &'static str,
    write: fn(&Disk) -> std::io::Result<()>,
}

impl MemberSignature {
    pub fn put(&self, device: &Path) -> Setup<()> {
        let file = File::options().write(true).open(device).map_err(|e| e.to_string())?;
        let disk = Disk { len: size_of(device)?, file };
        (self.write)(&disk).and_then(|()| disk.file.sync_all()).map_err(|e| e.to_string())
    }
}

struct Disk {
    file: File,
    len: u64,
}

impl Disk {
    fn put(&self, at: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all_at(bytes, at)
    }
}

pub const SIGNATURES: [MemberSignature; 16] = [
    MemberSignature { name: "LVM", write: |d| lvm(d, 0) },
    MemberSignature { name: "md 1.2", write: |d| md1(d, 4096) },
    MemberSignature { name: "md 1.1", write: |d| md1(d, 0) },
    MemberSignature { name: "md 1.0", write: |d| md1(d, ((d.len / 512 - 16) & !7) * 512) },
    MemberSignature { name: "md 0.90", write: |d| md0(d, u32::to_le_bytes) },
    MemberSignature { name: "md 0.90, big-endian", write: |d| md0(d, u32::to_be_bytes) },
    MemberSignature {
        name: "IMSM",
        write: |d| d.put(d.len - 1024, b"Intel Raid ISM Cfg Sig. 1.1.00"),
    },
    MemberSignature { name: "DDF", write: ddf },
    MemberSignature { name: "ZFS, first label", write: |d| zfs(d, 0, u64::to_le_bytes) },
    MemberSignature {
        name: "ZFS, last label alone, big-endian",
        write: |d| zfs(d, (d.len & !0x3_ffff) - 0x4_0000, u64::to_be_bytes),
    },
    MemberSignature { name: "DRBD", write: drbd },
    MemberSignature { name: "btrfs of two devices", write: btrfs },
    MemberSignature { name: "VDO", write: |d| d.put(0, b"dmvdo001") },
    MemberSignature { name: "Ceph", write: |d| d.put(0, b"bluestore block device\n") },
    MemberSignature {
        name: "LVM in a partition (MBR) that the kernel has not read",
        write: lvm_in_mbr,
    },
    MemberSignature {
        name: "LVM in a partition (GPT) that the kernel has not read",
        write: lvm_in_gpt,
    },
];

/// A reflected CRC of 32 bits, bit by bit.
fn crc32(polynomial: u32, start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ polynomial } else { crc >> 1 }
        })
    })
}

const CRC32: u32 = 0xedb8_8320;
const CRC32C: u32 = 0x82f6_3b78;

/// A physical volume's label, in the second sector.
fn lvm(disk: &Disk, begin: u64) -> std::io::Result<()> {
    let mut label = [0; 512];
    label[..8].copy_from_slice(b"LABELONE");
    label[8] = 1;
    label[20] = 32;
    label[24..32].copy_from_slice(b"LVM2 001");
    label[32..64].fill(b'u');
    let sum = crc32(CRC32, 0xf597_a6cf, &label[20..]);
    label[16..20].copy_from_slice(&sum.to_le_bytes());
    disk.put(begin + 512, &label)
}

fn md1(disk: &Disk, at: u64) -> std::io::Result<()> {
    let mut block = [0; 256];
    block[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
    block[4] = 1;
    block[16..32].fill(7);
    block[144..152].copy_from_slice(&(at / 512).to_le_bytes());
    disk.put(at, &block)
}

fn md0(disk: &Disk, bytes: fn(u32) -> [u8; 4]) -> std::io::Result<()> {
    let mut block = [0; 4096];
    for (word, value) in [(0, 0xa92b_4efc), (2, 90), (5, 7), (7, 1), (8, 1024), (10, 2)] {
        block[word * 4..][..4].copy_from_slice(&bytes(value));
    }
    disk.put((disk.len & !0xffff) - 0x1_0000, &block)
}

fn ddf(disk: &Disk) -> std::io::Result<()> {
    let mut block = [0; 512];
    block[..4].copy_from_slice(&0xde11_de11_u32.to_be_bytes());
    block[8..32].fill(b'g');
    block[32..40].copy_from_slice(b"02.00.00");
    disk.put(disk.len - 512, &block)
}

/// The ring of uberblocks in the second half of a label of 256 KiB.
fn zfs(disk: &Disk, label: u64, bytes: fn(u64) -> [u8; 8]) -> std::io::Result<()> {
    for n in 0..16 {
        let at = label + 128 * 1024 + n * 1024;
        disk.put(at, &[bytes(0x00ba_b10c), bytes(5000)].concat())?;
    }
    Ok(())
}

fn drbd(disk: &Disk) -> std::io::Result<()> {
    let mut block = [0; 4096];
    block[40..48].fill(9);
    block[60..64].copy_from_slice(&0x8374_026b_u32.to_be_bytes());
    disk.put((disk.len & !0xfff) - 4096, &block)
}

fn btrfs(disk: &Disk) -> std::io::Result<()> {
    let mut block = vec![0; 4096];
    block[32..48].fill(3);
    block[48..56].copy_from_slice(&(64 * 1024u64).to_le_bytes());
    block[64..72].copy_from_slice(b"_BHRfS_M");
    let mut number = |at: usize, value: u64| {
        block[at..at + 8].copy_from_slice(&value.to_le_bytes());
    };
    number(72, 1);
    number(112, 2 * disk.len);
    number(136, 2);
    number(144, 4096 | 4096 << 32);
    number(201, 1);
    let sum = !crc32(CRC32C, !0, &block[32..]);
    block[..4].copy_from_slice(&sum.to_le_bytes());
    disk.put(64 * 1024, &block)
}

fn lvm_in_mbr(disk: &Disk) -> std::io::Result<()> {
    let mut entry = [0; 16];
    entry[4] = 0x8e;
    entry[8..12].copy_from_slice(&2048u32.to_le_bytes());
    entry[12..].copy_from_slice(&((disk.len / 512) as u32 - 2048).to_le_bytes());
    disk.put(440, b"disk")?;
    disk.put(446, &entry)?;
    disk.put(510, &[0x55, 0xaa])?;
    lvm(disk, MIB)
}

fn lvm_in_gpt(disk: &Disk) -> std::io::Result<()> {
    let sectors = disk.len / 512;
    let mut entries = vec![0; 128 * 128];
    // Linux LVM: E6D6D379-F507-44C2-A23C-238F2A3DF928, in the order of its bytes on the disk.
    let kind = [
        0x79, 0xd3, 0xd6, 0xe6, 7, 0xf5, 0xc2, 0x44, 0xa2, 0x3c, 0x23, 0x8f, 0x2a, 0x3d, 0xf9, 0x28,
    ];
    entries[..16].copy_from_slice(&kind);
    entries[16..32].fill(5);
    entries[32..40].copy_from_slice(&2048u64.to_le_bytes());
    entries[40..48].copy_from_slice(&(sectors - 2048).to_le_bytes());
    let mut header = [0; 92];
    header[..8].copy_from_slice(b"EFI PART");
    header[8..12].copy_from_slice(&0x1_0000u32.to_le_bytes());
    header[12] = 92;
    for (at, value) in [(24, 1), (32, sectors - 1), (40, 34), (48, sectors - 34), (72, 2)] {
        header[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
    }
    header[56..72].fill(6);
    (header[80], header[84]) = (128, 128);
    let sum = !crc32(CRC32, !0, &entries);
    header[88..92].copy_from_slice(&sum.to_le_bytes());
    let sum = !crc32(CRC32, !0, &header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    let mut protective = [0; 16];
    (protective[4], protective[8]) = (0xee, 1);
    protective[12..].copy_from_slice(&((sectors - 1) as u32).to_le_bytes());
    disk.put(446, &protective)?;
    disk.put(510, &[0x55, 0xaa])?;
    disk.put(512, &header)?;
    disk.put(1024, &entries)?;
    lvm(disk, MIB)
}
