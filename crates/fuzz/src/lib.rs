//! Readers of foreign bytes (files, replies of servers, captures) as functions of bytes, with good input to
//! begin from. No input may make one panic, hang or take memory without a limit. Not covered: docs/testing.md.
//!
//! A target is one line in [`targets`]; [`damaged`] damages good input. `tests/campaign.rs` runs them: as
//! property tests under `cargo test`, as campaigns under a fuzzer. Whether a reader reads correctly is
//! tested beside that reader.

mod readers;
mod seeds;
pub mod texts;

pub use readers::*;
pub use seeds::Seeds;

/// One change of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputDamage {
    /// Which of the seven changes of `apply`, modulo 7.
    pub kind: u8,
    /// Where, and how far, as shares of the length in 1/65536.
    pub at: u16,
    pub to: u16,
    /// The bit, the byte, the length or the piece, by the kind.
    pub value: u8,
}

/// Numbers, separators and other bytes that readers get wrong.
const PIECES: &[&[u8]] = &[
    b"18446744073709551616",
    b"-9223372036854775808",
    b"4294967295",
    b"-1",
    b"0",
    b"1e400",
    b"nan",
    b"\r\n",
    b"\0",
    b"\"",
    b"[[",
    b"}",
    b"=",
    b"%",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x00\x00\x00\x00\x00\x00\x00\x80",
    b"\xf0\x9f",
    b"&#x110000;",
    b"$-1\r\n",
    b"*2147483647\r\n",
    b"ffffffffffffffff\r\n",
];

/// Longest input that damage makes.
const LONGEST: usize = 1 << 20;

/// A seed after some edits.
pub fn damaged(seed: &[u8], edits: &[InputDamage]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for edit in edits {
        apply(&mut bytes, edit);
        bytes.truncate(LONGEST);
    }
    bytes
}

fn apply(bytes: &mut Vec<u8>, edit: &InputDamage) {
    let place = |share: u16| usize::from(share) * bytes.len() / 65_536;
    let (at, to) = (place(edit.at.min(edit.to)), place(edit.at.max(edit.to)));
    match edit.kind % 7 {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << (edit.value % 8),
        1 if !bytes.is_empty() => bytes[at] = edit.value,
        2 => bytes.truncate(to),
        3 => drop(bytes.drain(at..to.min(at + usize::from(edit.value)))),
        4 => {
            let piece = bytes[at..to.min(at + usize::from(edit.value))].to_vec();
            drop(bytes.splice(at..at, piece));
        }
        5 => {
            let piece = PIECES[usize::from(edit.value) % PIECES.len()];
            drop(bytes.splice(at..at, piece.iter().copied()));
        }
        6 => {
            let piece = PIECES[usize::from(edit.value) % PIECES.len()];
            let end = bytes.len().min(at + piece.len());
            drop(bytes.splice(at..end, piece.iter().copied()));
        }
        _ => {}
    }
}

/// Calls the macro `each` with every target: its name, its reader and its good inputs.
#[macro_export]
macro_rules! targets {
    ($each:ident) => {
        $each! {
            capture_salvage: capture, Seeds::chunks();
            ios_parquet: ios, Seeds::files(&[
                "formats/v1-sim/ios.parquet",
                "formats/v1-rocksdb-traced/ios.parquet",
            ]);
            layers_parquet: layers, Seeds::files(&["formats/v1-rocksdb-traced/layers.parquet"]);
            intervals_parquet: intervals, Seeds::files(&["formats/v1-sim/intervals.parquet"]);
            host_parquet: host, Seeds::files(&["formats/v1-rocksdb-traced/host.parquet"]);
            store_parquet: store, Seeds::files(&["formats/v1-rocksdb-traced/store.parquet"]);
            ledger_parquet: ledger, Seeds::ledger();
            histogram_log: histograms, Seeds::files(&["formats/v1-sim/histograms.hlog"]);
            manifest_json: manifest, Seeds::files(&["formats/v1-sim/manifest.json"]);
            series_json: series, Seeds::texts($crate::texts::SERIES);
            owner_json: owner, Seeds::texts($crate::texts::OWNER);
            aws_credentials: credentials, Seeds::texts($crate::texts::CREDENTIALS);
            rocksdb_options: rocksdb, Seeds::texts($crate::texts::ROCKSDB);
            replay_times: times, Seeds::files(&["jobs/times.txt"]);
            traces: trace, Seeds::traces();
            job_toml: job, Seeds::folder("jobs", "toml");
            suite_toml: suite, Seeds::folder("suites", "toml");
            fio_text: fio, Seeds::folder("crates/import/tests/fio", "fio");
            ycsb_text: ycsb, Seeds::texts($crate::texts::YCSB);
            foreign_results: results, Seeds::files(&[
                "crates/import/tests/results/fio_clat.1.log",
                "crates/import/tests/results/fio_clat_hist.1.log",
                "crates/import/tests/results/ycsb.txt",
                "crates/import/tests/results/ycsb-lines.json",
                "crates/import/tests/results/ycsb-raw.txt",
                "crates/import/tests/results/ycsb-READ.hdr",
                "crates/import/tests/results/wrk2.txt",
                "crates/import/tests/results/db_bench-histogram.txt",
                "crates/import/tests/results/sbk.csv",
            ]);
            size_histogram: sizes, Seeds::files(&["jobs/sizes.txt"]);
            http_reply: http, Seeds::texts($crate::texts::HTTP);
            s3_xml: xml, Seeds::texts($crate::texts::XML);
            resp_reply: resp, Seeds::texts($crate::texts::RESP);
            postgres_message: postgres, Seeds::texts($crate::texts::POSTGRES);
            nvme_pages: nvme, Seeds::pages();
            nvme_json: nvme_json, Seeds::texts($crate::texts::NVME);
            bus_csv: bus, Seeds::texts($crate::texts::BUS);
            bus_mapping: bus_mapping, Seeds::files(&["docs/bus-mapping.toml"]);
        }
    };
}
