//! Helpers of the integration tests: some of those of `rundir`, and records packed into chunks.
#![allow(dead_code, unused_imports, clippy::unwrap_used)]

#[path = "../../../rundir/tests/common/mod.rs"]
mod rundir;

use taillight_capture::chunk::{
    ChunkEncoder, HEADER_BYTES, Header, LONG_WORDS, OptionalWords, SIZES, mark_ordered,
};
use taillight_core::Record;

pub use rundir::{RowRandom, killed, record, rows};

pub fn header(worker: u16, seq: u32) -> Header {
    let mut sizes = [0; SIZES];
    sizes[0] = 4096;
    Header {
        worker,
        workload: 0,
        phase: 0,
        seq,
        columns: OptionalWords::default(),
        unit_shift: 12,
        file_size: 1 << 40,
        base_ns: 0,
        sizes,
        addressed: true,
        partial: false,
        ordered: false,
    }
}

/// Packs records, in completion order, into chunks of `per_chunk` records.
pub fn chunks(worker: u16, records: &[Record], per_chunk: usize) -> Vec<Vec<u8>> {
    let mut list = Vec::new();
    let mut base = records.first().map_or(0, |r| r.submit.0);
    let mut encoder = ChunkEncoder::new(&header(worker, 0));
    for (seq, part) in records.chunks(per_chunk).enumerate() {
        let mut head = header(worker, seq as u32);
        head.base_ns = base;
        let mut words = vec![0u64; HEADER_BYTES / 8 + (part.len() + 1) * LONG_WORDS];
        head.write(&mut words);
        encoder = encoder.next(&head);
        let mut at = HEADER_BYTES / 8;
        for r in part {
            at += encoder.encode(&mut words[at..], r).unwrap();
        }
        base = encoder.base_ns();
        if encoder.is_ordered() {
            mark_ordered(&mut words);
        }
        list.push(words.iter().flat_map(|w| w.to_le_bytes()).collect());
    }
    list
}
