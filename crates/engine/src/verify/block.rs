//! A verified block: header, content, checksum. Made here, taken apart here; what a difference
//! means is decided in `judge`, which also knows what was written when.
//!
//! ```text
//!  0  magic       8   "TLBLOCK1"
//!  8  run         8   hash of the run's id
//! 16  address     8   byte offset in the data set, or key number
//! 24  generation  8   counts the writes to this address
//! 32  length      4   bytes of the block, checksum included
//! 36  kind        1   what the content is made of; 37: its compressible percent
//! 38  sum         1   1: as below; 0 in blocks of earlier versions, whose sum leaves out the last step
//! 39  reserved    5   zero
//! 44  header sum  4   CRC-32C of bytes 0..44
//! 48  content         decided by run, address and generation, so that it can be made again
//! -4  sum         4   CRC-32C of everything before it, exclusive or the header sum
//! ```
//! (What a CRC has seen up to and with a CRC of all of it is always the same: without the last step the
//! sum would not depend on the header, and a header would fit any content.)
//!
//! All numbers little endian. The header has a sum of its own so that a damaged content does not
//! make the header doubtful: whose block it is stays known.

use crc_fast::{CrcAlgorithm::Crc32Iscsi, checksum};

use crate::payload::{Content, ContentKind, PayloadSpec};
use crate::splitmix::scramble;

/// First bytes of a verified block.
pub const MAGIC: [u8; 8] = *b"TLBLOCK1";
/// Bytes of the header.
pub const HEADER: usize = 48;
/// Smallest block that can be verified, bytes.
pub const SMALLEST: u64 = 64;
/// Where it stands how the block's sum is made.
const SUM_RULE: usize = 38;
/// Where the header's sum stands.
const SUM: usize = 44;

/// CRC-32C (Castagnoli), by the CPU's instructions.
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The upper half is always zero for a 32-bit sum.
    checksum(Crc32Iscsi, bytes) as u32
}

/// The sum of a block whose header's sum is `header`.
fn block_sum(all: &[u8], header: u32) -> u32 {
    crc32c(all) ^ header
}

/// The number that stands for a run in its blocks.
pub fn run_hash(run_id: &str) -> u64 {
    run_id.bytes().fold(0x6A09_E667_F3BC_C908, |hash, byte| scramble(hash ^ u64::from(byte)))
}

/// Whose block, where and which of its writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// Hash of the run's id.
    pub run: u64,
    /// Byte offset in the data set, or key number.
    pub address: u64,
    /// Number of the write to this address, from 1, modulo 2^28.
    pub generation: u64,
}

/// What a block is seen to be, by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockContent {
    /// Header and checksum are right.
    Whole(BlockHeader),
    /// The header is right, the block's checksum is not.
    Damaged(BlockHeader),
    /// The header is right and says another length.
    OtherLength(BlockHeader, u32),
    /// The header is right; not all of the block was read.
    Cut(BlockHeader),
    /// Shorter than any verified block.
    Short,
    /// Nothing but zeros.
    Zeroed,
    /// No right header. The mark is what stands in its place.
    NoHeader(BlockHeader),
}

/// How a block differs from the one that should be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    pub first: u32,
    /// Differing bytes.
    pub bytes: u32,
    /// At least half of what says something (bytes that should not be zero) is right.
    pub mostly_right: bool,
}

/// Makes blocks, and makes them again to compare.
#[derive(Debug, Clone)]
pub struct BlockFormat {
    content: Content,
    kind: [u8; 2],
}

impl BlockFormat {
    /// Blocks with this payload. Its duplicates are not used: verified blocks are all different.
    pub fn new(payload: &PayloadSpec) -> BlockFormat {
        let kind = match payload.kind() {
            ContentKind::Random => 0,
            ContentKind::Zero => 1,
            ContentKind::Pattern(_) => 2,
            ContentKind::Text => 3,
        };
        BlockFormat { content: Content::new(payload), kind: [kind, payload.compressible() as u8] }
    }

    /// Writes the whole block; it has [`SMALLEST`] bytes or more.
    pub fn seal(&self, block: &mut [u8], mark: BlockHeader) {
        let id = scramble(scramble(mark.run ^ scramble(mark.address)) ^ mark.generation);
        self.content.write(block, id);
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..16].copy_from_slice(&mark.run.to_le_bytes());
        header[16..24].copy_from_slice(&mark.address.to_le_bytes());
        header[24..32].copy_from_slice(&mark.generation.to_le_bytes());
        header[32..36].copy_from_slice(&(block.len() as u32).to_le_bytes());
        header[36..38].copy_from_slice(&self.kind);
        header[SUM_RULE] = 1;
        let sum = crc32c(&header[..SUM]);
        header[SUM..].copy_from_slice(&sum.to_le_bytes());
        let Some(body) = block.len().checked_sub(4) else {
            return;
        };
        let (all, last) = block.split_at_mut(body);
        if let Some(head) = all.first_chunk_mut::<HEADER>() {
            *head = header;
        }
        last.copy_from_slice(&block_sum(all, sum).to_le_bytes());
    }

    /// Compares a block with the one `mark` should have, which is made in `scratch`; `None`: they are equal.
    pub fn compare(
        &self,
        block: &[u8],
        mark: BlockHeader,
        scratch: &mut Vec<u8>,
    ) -> Option<Difference> {
        scratch.resize(block.len(), 0);
        self.seal(scratch, mark);
        let mut first = None;
        let (mut bytes, mut telling, mut right) = (0, 0u32, 0u32);
        for (i, (is, should)) in block.iter().zip(scratch.iter()).enumerate() {
            telling += u32::from(*should != 0);
            if is == should {
                right += u32::from(*should != 0);
            } else {
                first.get_or_insert(i as u32);
                bytes += 1;
            }
        }
        Some(Difference { first: first?, bytes, mostly_right: right * 2 >= telling })
    }
}

/// Looks at a block by itself. `stored` is its length where it is stored: more than `block` holds
/// when it did not fit.
pub fn inspect(block: &[u8], stored: u64) -> BlockContent {
    let header = block.first_chunk::<HEADER>().filter(|_| stored >= SMALLEST);
    let Some(header) = header else {
        return BlockContent::Short;
    };
    let mark = mark_of(header);
    let [length, sum] = [number(header, 32) as u32, (number(header, 40) >> 32) as u32];
    if header[..8] != MAGIC || crc32c(&header[..SUM]) != sum {
        return match block.iter().all(|b| *b == 0) {
            true => BlockContent::Zeroed,
            false => BlockContent::NoHeader(mark),
        };
    }
    if u64::from(length) != stored {
        return BlockContent::OtherLength(mark, length);
    }
    if (block.len() as u64) < stored {
        return BlockContent::Cut(mark);
    }
    let (all, last) = block.split_at(block.len() - 4);
    let expected = match header[SUM_RULE] {
        0 => crc32c(all),
        _ => block_sum(all, sum),
    };
    match expected.to_le_bytes() == *last {
        true => BlockContent::Whole(mark),
        false => BlockContent::Damaged(mark),
    }
}

/// The mark of a header in which one byte is wrong, found by its sum. Slow: for a block that is
/// known to be damaged.
pub fn repaired(block: &[u8]) -> Option<BlockHeader> {
    let (header, _) = block.split_first_chunk::<HEADER>()?;
    let mut tried = *header;
    let right = |tried: &[u8; HEADER]| {
        tried[..8] == MAGIC && crc32c(&tried[..SUM]).to_le_bytes() == tried[SUM..]
    };
    for at in 0..HEADER {
        for flip in 1..=255 {
            tried[at] = header[at] ^ flip;
            if right(&tried) {
                return Some(mark_of(&tried));
            }
        }
        tried[at] = header[at];
    }
    None
}

fn number(header: &[u8; HEADER], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&header[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn mark_of(header: &[u8; HEADER]) -> BlockHeader {
    BlockHeader {
        run: number(header, 8),
        address: number(header, 16),
        generation: number(header, 24),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn format(kind: ContentKind, compressible: u32) -> BlockFormat {
        BlockFormat::new(&PayloadSpec::new(kind, compressible, 0).unwrap())
    }

    #[test]
    fn castagnoli_check_value() {
        // The check value of CRC-32/ISCSI (RFC 3720, appendix B.4 has more).
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
    }

    fn mark() -> BlockHeader {
        BlockHeader { run: run_hash("a run"), address: 1 << 40, generation: 3 }
    }

    fn formats() -> Vec<BlockFormat> {
        vec![
            format(ContentKind::Random, 0),
            format(ContentKind::Random, 70),
            format(ContentKind::Random, 100),
            format(ContentKind::Zero, 0),
            format(ContentKind::Pattern(b"abc".to_vec()), 0),
            format(ContentKind::Text, 0),
        ]
    }

    proptest! {
        #[test]
        fn any_flip_is_seen_and_located(
            which in 0usize..6,
            size in 64usize..9000,
            at: prop::sample::Index,
            bits in 1u8..=255,
        ) {
            let format = &formats()[which];
            let mut block = vec![7; size];
            format.seal(&mut block, mark());
            prop_assert_eq!(inspect(&block, size as u64), BlockContent::Whole(mark()));
            let at = at.index(size);
            block[at] ^= bits;
            prop_assert_ne!(inspect(&block, size as u64), BlockContent::Whole(mark()));
            let mut scratch = Vec::new();
            let found = format.compare(&block, mark(), &mut scratch);
            let expected = Difference { first: at as u32, bytes: 1, mostly_right: true };
            prop_assert_eq!(found, Some(expected));
        }

        #[test]
        fn any_bytes_are_looked_at_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(!matches!(inspect(&bytes, bytes.len() as u64), BlockContent::Whole(_)));
        }
    }

    /// The sum once did not depend on the header.
    #[test]
    fn a_header_fits_its_own_content_only() {
        for format in formats() {
            let [mut a, mut b] = [vec![0; 4096], vec![0; 4096]];
            format.seal(&mut a, mark());
            format.seal(&mut b, BlockHeader { generation: 4, ..mark() });
            a[HEADER..].copy_from_slice(&b[HEADER..]);
            assert_eq!(inspect(&a, 4096), BlockContent::Damaged(mark()));
        }
    }

    #[test]
    fn blocks_of_earlier_versions_are_right() {
        let mut block = vec![0; 4096];
        format(ContentKind::Random, 0).seal(&mut block, mark());
        block[SUM_RULE] = 0;
        let sum = crc32c(&block[..SUM]);
        block[SUM..HEADER].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32c(&block[..4092]);
        block[4092..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(inspect(&block, 4096), BlockContent::Whole(mark()));
    }

    #[test]
    fn blank_and_foreign_blocks() {
        assert_eq!(inspect(&[0; 4096], 4096), BlockContent::Zeroed);
        assert!(matches!(inspect(&[9; 4096], 4096), BlockContent::NoHeader(_)));
        let mut block = vec![0; 4096];
        format(ContentKind::Random, 0).seal(&mut block, mark());
        assert_eq!(inspect(&block[..2048], 2048), BlockContent::OtherLength(mark(), 4096));
        assert_eq!(
            inspect(&block, 5000),
            BlockContent::OtherLength(mark(), 4096),
            "cut by the buffer"
        );
        assert_eq!(inspect(&block[..2048], 4096), BlockContent::Cut(mark()));
        for length in [0, 1, 47, 48, 63] {
            assert_eq!(inspect(&block[..length], length as u64), BlockContent::Short);
        }
    }
}
