//! Good input to begin from: files of this repository, texts, and what Taillight's own writers make.

use std::fs;
use std::path::{Path, PathBuf};

use taillight_capture::chunk::{
    ChunkEncoder, HEADER_BYTES, Header, LONG_WORDS, OptionalWords, SIZES,
};
use taillight_core::{OpKind, Record, Stamp};
use taillight_rundir::ledger::{LedgerRow, LedgerState, write_ledger};
use taillight_rundir::{RunDir, fixture, names};

/// Good inputs of one target.
pub struct Seeds(Vec<Vec<u8>>);

impl Seeds {
    /// The input with this number, modulo their count.
    pub fn nth(&self, n: u8) -> &[u8] {
        &self.0[usize::from(n) % self.0.len()]
    }

    /// These files of the repository.
    ///
    /// # Panics
    /// When one is not there: the table of targets is wrong then.
    pub fn files(names: &[&str]) -> Seeds {
        Seeds(names.iter().map(|name| read(&root().join(name))).collect())
    }

    /// All files of a folder of the repository with this extension.
    ///
    /// # Panics
    /// As [`Seeds::files`].
    pub fn folder(name: &str, ending: &str) -> Seeds {
        let entries = fs::read_dir(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|e| e == ending));
        paths.sort();
        Seeds(paths.iter().map(|path| read(path)).collect())
    }

    pub fn texts(texts: &[&str]) -> Seeds {
        Seeds(texts.iter().map(|text| text.as_bytes().to_vec()).collect())
    }

    /// Recorded traces: texts, a run, and blktrace's records.
    pub fn traces() -> Seeds {
        let mut all = Seeds::texts(crate::texts::TRACES);
        all.0.extend(Seeds::files(&["formats/v1-sim/ios.parquet"]).0);
        let words = |i: u64| [0x6561_7407, i as u32, 1000 * i as u32, 0, 8 * i as u32, 0, 4096];
        let rest = |i: u64| [0x0002_0001 + ((i as u32 % 3) << 17), 7, 8 << 20, i as u32, 0];
        let record = |i| words(i).into_iter().chain(rest(i)).flat_map(u32::to_ne_bytes);
        all.0.push((0..40).flat_map(record).collect());
        all
    }

    /// A chunk of the capture with short and long records.
    pub fn chunks() -> Seeds {
        Seeds(vec![chunk(200)])
    }

    /// The ledger of some writes.
    ///
    /// # Panics
    /// When none can be written here.
    pub fn ledger() -> Seeds {
        let home = tempfile::tempdir().expect("a directory");
        let dir = RunDir::create(&home.path().join("run"), &fixture::manifest("fuzz"));
        let dir = dir.expect("a run directory");
        let states = [LedgerState::Unsure, LedgerState::Written, LedgerState::Seen];
        let row = |n: u64| LedgerRow {
            address: n * 4096,
            newest: n % 7,
            oldest: (!n.is_multiple_of(3)).then_some(n % 2),
            state: states[n as usize % 3],
        };
        write_ledger(&dir, (0..200).map(row)).expect("a ledger");
        Seeds(vec![read(&dir.file(names::LEDGER))])
    }

    /// Pages as long as a drive's, with numbers in them.
    pub fn pages() -> Seeds {
        let counted: Vec<u8> = (0..4096_u32).map(|i| (i * 7 % 251) as u8).collect();
        let mut ocp = vec![0; 512];
        // OCP's latency monitor: its status, its timer, its version and its GUID.
        ocp[..4].copy_from_slice(&[1, 5, 0, 0]);
        ocp[494..496].copy_from_slice(&[4, 0]);
        ocp[496..].copy_from_slice(&0x85d4_5e58_d4e6_4370_9c6c_84d0_8cc0_7a92_u128.to_le_bytes());
        Seeds(vec![vec![0; 4096], counted[..1024].to_vec(), counted, ocp])
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn chunk(records: u64) -> Vec<u8> {
    let mut sizes = [0; SIZES];
    sizes[0] = 4096;
    let head = Header {
        worker: 0,
        workload: 0,
        phase: 0,
        seq: 0,
        columns: OptionalWords::default(),
        unit_shift: 12,
        file_size: 1 << 40,
        base_ns: 1_000_000,
        sizes,
        addressed: true,
        partial: false,
        ordered: false,
    };
    let mut words = vec![0; HEADER_BYTES / 8 + (records as usize + 1) * LONG_WORDS];
    head.write(&mut words);
    let mut encoder = ChunkEncoder::new(&head);
    let mut at = HEADER_BYTES / 8;
    for i in 0..records {
        let submit = 1_000_000 + 500 * i as i64;
        let record = Record {
            op: OpKind::Read,
            offset: Some(i * 4096),
            // Every seventh has a size of its own, and is a long one.
            size: if i % 7 == 0 { 512 } else { 4096 },
            submit: Stamp(submit),
            complete: Stamp(submit + 90),
            ..Record::default()
        };
        at += encoder.encode(&mut words[at..], &record).unwrap_or(0);
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use taillight_trace::nvme;

    use super::*;

    #[test]
    fn seeds_of_nvme_are_read() {
        let Seeds(pages) = Seeds::pages();
        assert!(nvme::pages::supported(&pages[1]).is_ok());
        assert!(nvme::pages::identity(&pages[2]).is_ok());
        assert!(nvme::ocp::parse(&pages[3]).is_ok());
        for text in crate::texts::NVME {
            assert!(nvme::json::parse(text).is_ok(), "{text}");
        }
    }
}
