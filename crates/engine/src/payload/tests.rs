//! Payloads: shares checked with zstd and by counting, patterns and text, refusals; the same id gives the same bytes.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::prelude::*;

use super::*;

fn spec(kind: ContentKind, compressible: u32, duplicate: u32) -> PayloadSpec {
    PayloadSpec::new(kind, compressible, duplicate).unwrap()
}

/// Percent that zstd takes away from a block by itself.
fn saved(block: &[u8]) -> f64 {
    let packed = zstd::bulk::compress(block, 3).unwrap();
    100.0 * (1.0 - packed.len() as f64 / block.len() as f64)
}

#[test]
fn every_block_has_the_compressible_share() {
    for percent in [0, 1, 10, 25, 33, 50, 67, 75, 90, 99, 100] {
        for size in [4096, 16384, 128 << 10, 1 << 20] {
            let mut filler = Filler::new(&spec(ContentKind::Random, percent, 0), 3, true);
            let mut block = vec![0xAA; size];
            filler.prepare(&mut block);
            for _ in 0..5 {
                filler.fill(&mut block);
                let saved = saved(&block);
                let off = (saved - f64::from(percent)).abs();
                assert!(off <= 2.0, "{percent} % of {size} B: zstd saves {saved:.2} %");
            }
        }
    }
}

#[test]
fn odd_sizes_have_the_share_too() {
    let mut filler = Filler::new(&spec(ContentKind::Random, 50, 0), 3, true);
    for size in [1, 7, 8, 100, 511, 513, 5000, 70_001] {
        let mut block = vec![0xAA; size];
        filler.fill(&mut block);
        if size >= 5000 {
            let saved = saved(&block);
            assert!((saved - 50.0).abs() <= 2.0, "{size}: {saved}");
        }
    }
}

#[test]
fn random_data_holds_nothing_to_compress_in_a_large_block() {
    let mut filler = Filler::new(&spec(ContentKind::Random, 0, 0), 9, true);
    let mut block = vec![0; 16 << 20];
    filler.fill(&mut block);
    let saved = saved(&block);
    assert!(saved.abs() < 0.5, "{saved}");
}

fn hash(block: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    block.hash(&mut hasher);
    hasher.finish()
}

/// Percent of blocks whose bytes came before.
fn repeated(filler: &mut Filler, size: usize, blocks: usize) -> f64 {
    let mut block = vec![0; size];
    filler.prepare(&mut block);
    let mut seen = HashSet::new();
    let mut again = 0;
    for _ in 0..blocks {
        filler.fill(&mut block);
        again += usize::from(!seen.insert(hash(&block)));
    }
    100.0 * again as f64 / blocks as f64
}

#[test]
fn duplicates_have_the_share_over_100_000_blocks() {
    for percent in [0, 1, 5, 30, 50, 80, 99] {
        for kind in [ContentKind::Random, ContentKind::Text] {
            let mut filler = Filler::new(&spec(kind, 0, percent), 11, true);
            let found = repeated(&mut filler, 512, 100_000);
            assert!((found - f64::from(percent)).abs() < 0.05, "{percent}: {found}");
        }
    }
    let mut filler = Filler::new(&spec(ContentKind::Random, 50, 30), 11, true);
    let found = repeated(&mut filler, 4096, 100_000);
    assert!((found - 30.0).abs() < 0.05, "{found}");
}

#[test]
fn all_duplicates_means_one_content() {
    let mut filler = Filler::new(&spec(ContentKind::Random, 0, 100), 11, false);
    assert_eq!(repeated(&mut filler, 512, 1000), 99.9);
}

#[test]
fn duplicates_reach_back_over_all_blocks_alike() {
    let mut ids = Ids::new(5, 50);
    let all: Vec<u64> = (0..40_000).map(|_| ids.next()).collect();
    let mut first = std::collections::HashMap::new();
    let (mut far, mut dups) = (0, 0);
    for (i, id) in all.iter().enumerate() {
        match first.get(id) {
            None => {
                first.insert(*id, i);
            }
            Some(at) if i >= 20_000 => {
                dups += 1;
                far += usize::from(*at < i / 2);
            }
            Some(_) => {}
        }
    }
    let share = f64::from(far as u32) / f64::from(dups);
    assert!((share - 0.5).abs() < 0.03, "{share}");
}

#[test]
fn the_cheap_way_still_makes_every_sector_new() {
    let mut filler = Filler::new(&spec(ContentKind::Random, 0, 0), 1, false);
    assert_eq!(filler.method, FillMethod::Stamp);
    let mut block = vec![0; 4096];
    filler.prepare(&mut block);
    let mut seen = HashSet::new();
    for _ in 0..10_000 {
        filler.fill(&mut block);
        assert!(block.chunks(SECTOR).all(|s| seen.insert(hash(s))));
    }
    assert!(saved(&block) < 0.5);
}

/// Stores compress several records as one block: nothing of one may be in its neighbours.
#[test]
fn neighbouring_records_have_the_share_together() {
    for percent in [0, 50] {
        let mut filler = Filler::new(&spec(ContentKind::Random, percent, 0), 5, true);
        assert_eq!(filler.method, FillMethod::Walk);
        let mut record = [0; 100];
        filler.prepare(&mut record);
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        for _ in 0..10_000 {
            filler.fill(&mut record);
            assert!(seen.insert(record));
            all.extend_from_slice(&record);
        }
        let saved = saved(&all);
        // Many short runs of zeros take a little more room than one long one.
        let least = f64::from(percent) - 4.0;
        assert!((least..=f64::from(percent) + 1.0).contains(&saved), "{percent}: {saved:.2}");
    }
}

#[test]
fn workers_write_different_bytes() {
    let spec = spec(ContentKind::Random, 0, 0);
    let blocks = (0..100).map(|seed| {
        let mut filler = Filler::new(&spec, seed, true);
        let mut block = vec![0; 512];
        filler.fill(&mut block);
        hash(&block)
    });
    assert_eq!(blocks.collect::<HashSet<_>>().len(), 100);
}

#[test]
fn what_was_read_into_the_buffer_does_not_last() {
    for kind in [ContentKind::Zero, ContentKind::Pattern(b"abc".to_vec()), ContentKind::Random] {
        let mut filler = Filler::new(&spec(kind.clone(), 0, 0), 1, true);
        let mut block = vec![0x55; 10_000];
        filler.fill(&mut block);
        assert!(!block.windows(4).any(|w| w == [0x55; 4]), "{kind:?}");
    }
}

#[test]
fn zeros_patterns_and_text_are_what_they_say() {
    let mut block = vec![1; 200_000];
    Filler::new(&spec(ContentKind::Zero, 0, 0), 1, false).prepare(&mut block);
    assert!(block.iter().all(|b| *b == 0));
    Filler::new(&spec(ContentKind::Pattern(b"storage".to_vec()), 0, 0), 1, false)
        .prepare(&mut block);
    assert!(block.iter().zip(b"storage".iter().cycle()).all(|(a, b)| a == b));
    let mut filler = Filler::new(&spec(ContentKind::Text, 0, 0), 1, false);
    filler.prepare(&mut block);
    assert!(block.iter().all(|b| (32..128).contains(b)));
    // YCSB's text compresses to about 0.79 of its size.
    let saved = saved(&block);
    assert!((19.0..23.0).contains(&saved), "{saved}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (kind, compressible, duplicate) in [
        (ContentKind::Random, 101, 0),
        (ContentKind::Random, 0, 101),
        (ContentKind::Zero, 50, 0),
        (ContentKind::Text, 50, 0),
        (ContentKind::Zero, 0, 5),
        (ContentKind::Pattern(Vec::new()), 0, 0),
        (ContentKind::Pattern(vec![1; LONGEST_PATTERN + 1]), 0, 0),
        (ContentKind::Pattern(vec![1]), 0, 5),
    ] {
        let refused = PayloadSpec::new(kind.clone(), compressible, duplicate);
        assert!(refused.is_err(), "{kind:?} {compressible} {duplicate}");
    }
}

#[test]
fn patterns_are_text_or_hexadecimal() {
    let of = |text: &str| {
        let plan = Payload {
            kind: PayloadKind::Pattern,
            pattern: Some(text.into()),
            ..Payload::default()
        };
        PayloadSpec::of(&plan).map(|spec| spec.kind)
    };
    assert_eq!(of("abc").unwrap(), ContentKind::Pattern(b"abc".to_vec()));
    assert_eq!(of("0xDEad01").unwrap(), ContentKind::Pattern(vec![0xDE, 0xAD, 1]));
    for bad in ["0xabc", "0xzz", "0x", ""] {
        assert!(of(bad).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn the_same_id_gives_the_same_bytes(
        id: u64,
        size in 1usize..20_000,
        shorter in 1usize..20_000,
        percent in 0u32..=100,
    ) {
        let content = Content::new(&spec(ContentKind::Random, percent, 0));
        let (mut one, mut two) = (vec![1; size], vec![2; size]);
        content.write(&mut one, id);
        Content::new(&spec(ContentKind::Random, percent, 0)).write(&mut two, id);
        prop_assert_eq!(&one, &two);
        // A shorter block has the same first chunks.
        let whole = shorter.min(size) / CHUNK * CHUNK;
        let mut three = vec![3; whole];
        content.write(&mut three, id);
        prop_assert_eq!(&three[..], &one[..whole]);
    }
}

#[test]
fn printable_characters_are_six_bits_each() {
    for x in [0, 1, u64::MAX, 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210] {
        let expected = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| b' ' + (x >> (6 * i) & 63) as u8);
        assert_eq!(printable(x).to_le_bytes(), expected, "{x:x}");
    }
}
