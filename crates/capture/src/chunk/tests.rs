//! Round trips: what the recorder writes is what the reader returns, to the nanosecond; and headers
//! and records that cannot be.

use proptest::prelude::*;
use taillight_core::{OpKind, Record, Stamp, Status};

use super::*;

fn header(columns: OptionalWords) -> Header {
    let mut sizes = [0; SIZES];
    sizes[0] = 4096;
    sizes[1] = 8192;
    Header {
        worker: 3,
        workload: 1,
        phase: 2,
        seq: 9,
        columns,
        unit_shift: 12,
        file_size: 1 << 30,
        base_ns: 1_000_000,
        sizes,
        addressed: true,
        partial: false,
        ordered: false,
    }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn record(submit: i64, latency: i64, block: u64) -> Record {
    Record {
        op: OpKind::Read,
        target: (block % 3) as u16,
        offset: Some(block / 3 * 4096),
        size: 4096,
        submit: Stamp(submit),
        complete: Stamp(submit + latency),
        ..Record::default()
    }
}

#[test]
fn header_round_trip_and_bad_headers() {
    let h = header(OptionalWords { issued: true, sync: true, ..OptionalWords::default() });
    let mut words = vec![7u64; 1024];
    h.write(&mut words);
    words[512..].fill(0);
    let data = bytes(&words);
    assert_eq!(*ChunkReader::open(&data).unwrap().header(), h);
    mark_partial(&mut words);
    let marked = bytes(&words);
    let expected = Header { partial: true, ..h };
    assert_eq!(*ChunkReader::open(&marked).unwrap().header(), expected);
    expected.write(&mut words);
    assert_eq!(bytes(&words), marked, "marked early or late is the same");
    assert!(ChunkReader::open(&data[..100]).is_err());
    let mut wrong = data.clone();
    wrong[7] ^= 1;
    assert!(ChunkReader::open(&wrong).is_err());
}

#[test]
fn a_usual_record_takes_sixteen_bytes() {
    let h = header(OptionalWords::default());
    let mut e = ChunkEncoder::new(&h);
    let mut out = [0u64; 32];
    assert_eq!(e.encode(&mut out, &record(1_000_000, 80_000, 12)), Some(2));
    assert_eq!(e.encode(&mut out[..1], &record(1_100_000, 80_000, 12)), None);
}

#[test]
fn a_record_that_cannot_be_is_an_error_and_the_last_item() {
    let h = header(OptionalWords::default());
    let mut words = vec![0u64; HEADER_BYTES / 8 + 64];
    h.write(&mut words);
    let mut e = ChunkEncoder::new(&h);
    let mut at = HEADER_BYTES / 8;
    for i in 0..2 {
        at += e.encode(&mut words[at..], &record(1_000_000 + i, 80_000, 12)).unwrap();
    }
    let long_of_unknown_op = 200 << 16 | LONG << 1 | 1;
    let beyond_all_files = u64::MAX << DELTA_BITS;
    let long = |present: u64| present << 32 | LONG << 1 | 1;
    for (first, i, wrong) in [
        (1, 0, long_of_unknown_op),
        (1, 1, beyond_all_files),
        (long(1), 2, 1 << 63),
        (long(1 << 8), 13, u64::MAX),
    ] {
        let mut words = words.clone();
        words[at] = first;
        words[at + i] = wrong;
        let data = bytes(&words);
        let read: Vec<_> = ChunkReader::open(&data).unwrap().records().take(9).collect();
        assert_eq!(read.len(), 3, "{wrong:#x}");
        assert!(read[..2].iter().all(|r| r.is_ok()));
        let e = read[2].as_ref().unwrap_err();
        assert_eq!(e.kind(), taillight_core::ErrorKind::Corrupt, "{wrong:#x}");
        assert!(e.to_string().contains(&format!("byte: {}", at * 8)), "{e}");
    }
}

proptest! {
    #[test]
    fn round_trip(
        ops in prop::collection::vec(
            (0i64..400_000_000, 0i64..6_000_000_000, 0u64..700_000, 0u8..20, any::<bool>()), 1..200),
        columns in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let columns = OptionalWords {
            issued: columns.0, intended: columns.1, sync: columns.2, size: columns.3, key: columns.4,
        };
        let h = header(columns);
        let mut words = vec![0u64; HEADER_BYTES / 8 + 200 * LONG_WORDS];
        h.write(&mut words);
        let mut encoder = ChunkEncoder::new(&h);
        let (mut complete, mut pos, mut written) = (h.base_ns, HEADER_BYTES / 8, Vec::new());
        for (delta, latency, block, odd, matches) in ops {
            complete += delta;
            let mut r = record(complete - latency, latency, block);
            let present = |column: bool| column == matches;
            r.issued = present(columns.issued).then(|| Stamp(r.submit.0 + latency / 2));
            r.intended = present(columns.intended).then(|| Stamp(r.submit.0 - delta));
            r.sync_ns = present(columns.sync).then_some(latency as u64 / 3);
            r.key = present(columns.key).then_some(block);
            match odd {
                0 => r.status = Status::errno(5),
                1 => { r.status = Status::SHORT; r.moved = Some(512); }
                2 => r.offset = Some(block * 4096 + 512),
                3 => r.size = 8192,
                4 => r.size = 12_345,
                5 => r.retries = Some(2),
                6 => r.count = Some(77),
                7 => r.first = Some(Stamp(r.submit.0 + 1)),
                8 => r.origin = Some(Stamp(5)),
                9 => r.target = 60_000,
                10 => r.offset = None,
                _ => {}
            }
            if odd == 11 { r.op = OpKind::Fsync; }
            if odd == 12 { r.op = OpKind::Fsync; r.offset = None; r.size = 0; }
            pos += encoder.encode(&mut words[pos..], &r).unwrap();
            written.push(r);
        }
        let data = bytes(&words);
        let read: Vec<Record> = ChunkReader::open(&data).unwrap().records().collect::<Result<_>>().unwrap();
        prop_assert_eq!(&read, &written);
        // Cut anywhere: a prefix of the records, no panic.
        for cut in (HEADER_BYTES..pos * 8).step_by(61) {
            let part = ChunkReader::open(&data[..cut]).unwrap();
            let part: Vec<Record> = part.records().collect::<Result<_>>().unwrap();
            prop_assert_eq!(&part[..], &written[..part.len()]);
        }
    }
}
