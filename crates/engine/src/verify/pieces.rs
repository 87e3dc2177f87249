//! What a block with a wrong checksum is made of: pieces of several writes to its address, or one
//! write with changed bytes. Made by comparing it with the blocks that may be there, each made again.
//! Which ones may be there, and what it means, is decided in `judge`.

use super::block::{BlockFormat, BlockHeader, Difference, HEADER};

/// Bytes of a piece: the smallest unit any device writes.
const PIECE: usize = 512;
/// Where one write ends and another begins inside a piece, each is known by so many bytes at least:
/// fewer may be equal by chance where a byte was changed.
const FRONT: usize = 8;
const BACK: usize = 4;
/// Bytes made again for all wrong blocks of a worker together, some ten seconds: after that only few
/// writes are tried.
const SEARCH: u64 = 32 << 30;

/// Memory and time that looking into wrong blocks may take.
#[derive(Debug)]
pub struct PieceScratch {
    block: Vec<u8>,
    left: u64,
}

impl PieceScratch {
    /// For blocks of up to `largest` bytes.
    pub fn new(largest: usize) -> PieceScratch {
        PieceScratch { block: Vec::with_capacity(largest), left: SEARCH }
    }
}

/// What is known of a block by comparing.
pub struct BlockPieces<'a> {
    block: &'a [u8],
    formats: &'a [BlockFormat],
    /// Of each piece, how many bytes at its front and at its back some write has there.
    known: Vec<(usize, usize)>,
    /// The write that it differs least from.
    pub nearest: Option<(BlockHeader, Difference)>,
}

impl<'a> BlockPieces<'a> {
    pub fn new(block: &'a [u8], formats: &'a [BlockFormat]) -> BlockPieces<'a> {
        let known = vec![(0, 0); block.len().div_ceil(PIECE)];
        BlockPieces { block, formats, known, nearest: None }
    }

    /// Compares with a write in any payload, and keeps it when it is the nearest.
    pub fn compare(&mut self, mark: BlockHeader, scratch: &mut PieceScratch) {
        for format in self.formats {
            let difference = format.compare(self.block, mark, &mut scratch.block);
            self.learn(&scratch.block);
            let Some(difference) = difference else {
                continue;
            };
            if self.nearest.is_none_or(|(_, least)| difference.bytes < least.bytes) {
                self.nearest = Some((mark, difference));
            }
        }
    }

    /// As [`compare`](Self::compare) for each of `marks` until every piece is known; those that have
    /// nothing of the block cost little.
    pub fn search(&mut self, marks: impl Iterator<Item = BlockHeader>, scratch: &mut PieceScratch) {
        for mark in marks {
            if self.unknown().is_none() || scratch.left == 0 {
                return;
            }
            for format in self.formats {
                scratch.left = scratch.left.saturating_sub(self.block.len() as u64);
                scratch.block.resize(self.block.len(), 0);
                format.seal(&mut scratch.block, mark);
                if self.learn(&scratch.block) {
                    self.compare(mark, scratch);
                    break;
                }
            }
        }
    }

    /// Takes note of the pieces that are those of `should`; false when none is in any part.
    fn learn(&mut self, should: &[u8]) -> bool {
        let mut any = false;
        let pieces = self.block.chunks(PIECE).zip(should.chunks(PIECE));
        for (i, ((is, should), known)) in pieces.zip(&mut self.known).enumerate() {
            let same = |pair: &(&u8, &u8)| pair.0 == pair.1;
            let front = is.iter().zip(should).take_while(same).count();
            let back = is.iter().rev().zip(should.iter().rev()).take_while(same).count();
            // Of a header all or nothing: part of it says nothing of the rest.
            if front >= if i == 0 { HEADER } else { FRONT } {
                known.0 = known.0.max(front);
                any = true;
            }
            if back >= BACK {
                known.1 = known.1.max(back);
                any = true;
            }
        }
        any
    }

    /// The first byte of the first piece that is none of the writes compared with.
    fn unknown(&self) -> Option<usize> {
        let pieces = self.block.chunks(PIECE).zip(&self.known);
        let whole = |(piece, known): (&[u8], &(usize, usize))| known.0 + known.1 >= piece.len();
        pieces.map(whole).position(|whole| !whole).map(|i| i * PIECE)
    }

    /// Whether it is made of several writes and nothing else; the last of it may be blank, as it was
    /// before any write.
    pub fn torn(&self) -> bool {
        match self.unknown() {
            None => true,
            Some(from) => from > 0 && self.block[from..].iter().all(|b| *b == 0),
        }
    }
}
