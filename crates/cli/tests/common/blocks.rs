//! Blocks as a run of this binary leaves them on a file.

use taillight_engine::payload::{ContentKind, PayloadSpec};
use taillight_engine::verify::{BlockFormat, BlockHeader, run_hash};

/// Bytes of a block.
pub const BLOCK: u64 = 4096;

/// The block that a run wrote at `block` as its write `generation` left it.
pub fn sealed(run_id: &str, block: u64, generation: u64) -> Vec<u8> {
    let payload = PayloadSpec::new(ContentKind::Random, 0, 0).expect("a payload");
    let mut bytes = vec![0; BLOCK as usize];
    let mark = BlockHeader { run: run_hash(run_id), address: block * BLOCK, generation };
    BlockFormat::new(&payload).seal(&mut bytes, mark);
    bytes
}
