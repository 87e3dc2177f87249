//! The ways in which a record can be wrong, and the word for each: at several sizes, payloads, generations and
//! offsets.

use super::*;

const KEY: u64 = 1000;
const RUN: &str = "this run";

/// A record that was written `writes` times, `size` bytes each.
#[derive(Debug, Clone)]
struct History {
    kind: ContentKind,
    size: usize,
    writes: u64,
}

/// The words, by what is found: its bytes, or no record.
type Expected = (Option<Wrong>, Option<Vec<u8>>, String);

impl History {
    fn sealed(&self, run: &str, key: u64, generation: u64) -> Vec<u8> {
        let mut block = vec![0; self.size];
        let mark = BlockHeader { run: run_hash(run), address: key, generation };
        let payload = PayloadSpec::new(self.kind.clone(), 0, 0).unwrap();
        BlockFormat::new(&payload).seal(&mut block, mark);
        block
    }

    /// What write `generation` left.
    fn left(&self, generation: u64) -> Vec<u8> {
        self.sealed(RUN, KEY, generation)
    }

    /// The record as written so often, and a read of it that has begun.
    fn written(&self) -> (Checker, Op) {
        let payloads = [PayloadSpec::new(self.kind.clone(), 0, 0).unwrap()];
        let keys = VerifiedArea::keys(KEY, 10);
        let whole = VerifySpec { whole_writes: true, ..spec(RUN, None, &payloads) };
        let state = VerifyState::new(&VerifySpec { area: keys, ..whole }).unwrap();
        let mut checker = Checker::new(state, 0, None, 1, self.size as u64);
        let op = Op::keyed(OpKind::Update, KEY, self.size as u64);
        for _ in 0..self.writes {
            checker.on_write(&op, &mut vec![0; self.size]);
            checker.on_write_done(&op, true);
        }
        let get = Op::keyed(OpKind::Get, KEY, 0);
        checker.on_read(0, &get);
        (checker, get)
    }

    /// The word for `found`; none when it is right.
    fn judged(&self, found: Option<&[u8]>) -> Option<Wrong> {
        let (mut checker, get) = self.written();
        let good = match found {
            Some(bytes) => {
                let read = Op { size: bytes.len() as u64, ..get };
                // What does not fit the buffer is cut.
                let fits = bytes.len().min(self.size);
                checker.on_read_done(0, &read, &bytes[..fits], Stamp(0))
            }
            None => checker.on_missing(0, &get, Stamp(0)),
        };
        let report = checker.into_report();
        assert_eq!((report.checked, good), (1, report.wrong == 0), "{report:?}");
        report.findings.first().map(|f| f.kind)
    }

    /// What is said of a record of which the reader's buffer holds half: the wrong data, or how many were
    /// not judged for that reason.
    fn half_of(&self, record: &[u8]) -> (Option<Wrong>, u64) {
        let (mut checker, get) = self.written();
        let read = Op { size: record.len() as u64, ..get };
        checker.on_read_done(0, &read, &record[..record.len() / 2], Stamp(0));
        let report = checker.into_report();
        (report.findings.first().map(|f| f.kind), report.unchecked.cut)
    }

    fn generations(&self) -> impl Iterator<Item = u64> + use<> {
        let mut all = vec![1, 2, self.writes / 2, self.writes - 1, self.writes];
        all.retain(|g| (1..=self.writes).contains(g));
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }

    fn cases(&self) -> Vec<Expected> {
        let (newest, size) = (self.left(self.writes), self.size);
        let mut all: Vec<Expected> = vec![
            (None, Some(newest.clone()), "as written".into()),
            (Some(Wrong::Missing), None, "no record".into()),
            (Some(Wrong::Zeroed), Some(vec![0; size]), "zeros".into()),
            (Some(Wrong::Unknown), Some(vec![0xA5; size]), "one byte over and over".into()),
            (Some(Wrong::Unknown), Some(self.left(self.writes + 1)), "of a write to come".into()),
        ];
        let mut state = 7u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        all.push((
            Some(Wrong::Unknown),
            Some((0..size).map(|_| noise()).collect()),
            "noise".into(),
        ));
        for length in [0, 1, 63, size - 1, size + 1, size + 512] {
            let mut bytes = newest.clone();
            bytes.resize(length, 0);
            all.push((Some(Wrong::OtherSize), Some(bytes), format!("{length} bytes")));
        }
        for at in [0, 24, 31, 44, 47, 48, size / 2, size - 5, size - 4, size - 1] {
            let mut bytes = newest.clone();
            bytes[at] ^= 0x41;
            all.push((Some(Wrong::Flipped), Some(bytes), format!("byte {at}")));
        }
        for g in self.generations() {
            let word = match self.writes - g {
                0 => None,
                1 => Some(Wrong::Lost),
                _ => Some(Wrong::Stale),
            };
            all.push((word, Some(self.left(g)), format!("write {g}")));
            let there = self.sealed(RUN, KEY + 1, g);
            all.push((Some(Wrong::Misplaced), Some(there), format!("write {g} of another key")));
            let other = self.sealed("another", KEY, g);
            all.push((Some(Wrong::OtherRun), Some(other), format!("write {g} of another run")));
        }
        all.extend(self.torn());
        all
    }

    fn torn(&self) -> Vec<Expected> {
        let mut all = Vec::new();
        let cuts = [
            48,
            60,
            64,
            300,
            512,
            1024,
            self.size / 2,
            self.size.saturating_sub(512),
            self.size - 4,
        ];
        let pairs = self.generations().flat_map(|a| self.generations().map(move |b| (a, b)));
        for (a, b) in pairs.filter(|(a, b)| a != b) {
            let (first, second) = (self.left(a), self.left(b));
            for cut in cuts.into_iter().filter(|c| (48..=self.size - 4).contains(c)) {
                let bytes = [&first[..cut], &second[cut..]].concat();
                all.push((Some(Wrong::Torn), Some(bytes), format!("{a} to {cut}, then {b}")));
            }
            if self.size >= 2048 {
                let mut bytes = first.clone();
                for at in (512..self.size).step_by(1024) {
                    bytes[at..at + 512].copy_from_slice(&second[at..at + 512]);
                }
                all.push((Some(Wrong::Torn), Some(bytes), format!("{a} and {b} in turns")));
            }
        }
        for cut in cuts.into_iter().filter(|c| c % 512 == 0 && (1..self.size).contains(c)) {
            let mut bytes = self.left(self.writes);
            bytes[cut..].fill(0);
            all.push((Some(Wrong::Torn), Some(bytes), format!("new to {cut}, then zeros")));
        }
        all
    }
}

#[test]
fn every_class_has_its_word() {
    let mut failed = Vec::new();
    for kind in kinds() {
        for (size, writes) in [(64, 1), (100, 5), (512, 2), (1500, 40), (4096, 3), (8192, 7)] {
            let history = History { kind: kind.clone(), size, writes };
            for (expected, found, what) in history.cases() {
                let word = history.judged(found.as_deref());
                if word != expected {
                    failed.push(format!("{history:?}: {what}: {word:?}, not {expected:?}"));
                }
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} wrong:\n{}",
        failed.len(),
        failed[..failed.len().min(40)].join("\n")
    );
}

/// As after a copy of the file from long before was laid over half of it.
#[test]
fn a_tear_against_a_write_long_ago_is_found() {
    let history = History { kind: ContentKind::Random, size: 4096, writes: 3000 };
    for (a, b) in [(3000, 4), (4, 3000), (1700, 2)] {
        let bytes = [&history.left(a)[..1024], &history.left(b)[1024..]].concat();
        assert_eq!(history.judged(Some(&bytes)), Some(Wrong::Torn), "{a} and {b}");
    }
}

#[test]
fn a_record_longer_than_the_readers_buffer_is_judged_by_its_header() {
    let history = History { kind: ContentKind::Random, size: 4096, writes: 5 };
    let there = history.sealed(RUN, KEY + 1, 5);
    assert_eq!(history.half_of(&history.left(5)), (None, 1));
    assert_eq!(history.half_of(&history.left(4)), (Some(Wrong::Lost), 0));
    assert_eq!(history.half_of(&history.left(2)), (Some(Wrong::Stale), 0));
    assert_eq!(history.half_of(&there), (Some(Wrong::Misplaced), 0));
}
