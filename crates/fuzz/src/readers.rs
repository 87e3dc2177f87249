//! The readers, each as a function of bytes. They must come back; of what they return only a few bounds are checked.

use std::fs;
use std::io::Write;
use std::path::Path;

use taillight_capture::salvage::salvage;
use taillight_core::StopFlag;
use taillight_core::job::Job;
use taillight_core::plan::{ReplayPlan, TraceFit};
use taillight_driver::kv::postgres::messages as postgres;
use taillight_driver::kv::redis::resp as redis;
use taillight_driver::kv::rocksdb::options::{RocksDbOptions, in_force};
use taillight_driver::net::Frame;
use taillight_driver::ownership::{OwnedDirectory, SIDECAR};
use taillight_driver::s3::{credentials::Credentials, response::ResponseHead, xml as s3};
use taillight_engine::trace::{TraceProfile, load};
use taillight_rundir::ios::ColumnSet;
use taillight_rundir::series::SeriesFile;
use taillight_rundir::{JsonFile, RunDir, fixture, names};
use taillight_suite::host::JobSource;
use taillight_suite::suites::SuiteFile;
use taillight_trace::{bus as analyzer, nvme as drive};

/// Gives `read` a file with these bytes; does nothing where no file can be made.
fn with_file(bytes: &[u8], read: impl FnOnce(&Path)) {
    let file = tempfile::NamedTempFile::new_in("/dev/shm");
    if let Ok(mut file) = file
        && file.write_all(bytes).is_ok()
    {
        read(file.path());
    }
}

/// Gives `read` a directory that holds a file of this name with these bytes; does nothing where none can be made.
fn in_directory(name: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
    let Ok(home) = tempfile::tempdir_in("/dev/shm") else { return };
    if fs::write(home.path().join(name), bytes).is_ok() {
        read(home.path());
    }
}

/// Gives `read` the bytes as text, in which U+FFFD replaces what is no UTF-8.
fn with_text(bytes: &[u8], read: impl FnOnce(&str)) {
    read(&String::from_utf8_lossy(bytes));
}

/// A run that was killed and left these bytes as its capture.
pub fn capture(bytes: &[u8]) {
    let Ok(home) = tempfile::tempdir_in("/dev/shm") else { return };
    let mut manifest = fixture::manifest("fuzz");
    if let Some(process) = &mut manifest.process {
        process.start_ticks += 1;
    }
    let chunks = home.path().join("taillight-fuzz");
    manifest.phases.clear();
    manifest.capture.path = Some(chunks.display().to_string());
    let run = home.path().join("run");
    if RunDir::create(&run, &manifest).is_err()
        || fs::create_dir(&chunks).is_err()
        || fs::write(chunks.join("00000000.chunk"), bytes).is_err()
    {
        return;
    }
    if let Ok(mut dir) = RunDir::open(&run)
        && let Ok(Some(found)) = salvage(&mut dir, &mut |_| true)
        && found.ios > 0
    {
        // What was recovered can be read.
        let read =
            taillight_rundir::ios::read_ios(&run.join(names::IOS), ColumnSet::ALL, &mut |_| Ok(()));
        assert!(read.is_ok(), "{read:?}");
    }
}

pub fn ios(bytes: &[u8]) {
    with_file(bytes, |path| {
        let _ = taillight_rundir::ios::read_ios(path, ColumnSet::ALL, &mut |_| Ok(()));
    });
}

pub fn layers(bytes: &[u8]) {
    with_file(bytes, |path| {
        let _ = taillight_rundir::layers::read_layers(path, &mut |_| Ok(()));
    });
}

pub fn intervals(bytes: &[u8]) {
    with_file(bytes, |path| drop(taillight_rundir::intervals::read_intervals(path)));
}

pub fn host(bytes: &[u8]) {
    with_file(bytes, |path| {
        let _ = taillight_rundir::host::read_host(path, &mut |_| Ok(()));
    });
}

pub fn store(bytes: &[u8]) {
    with_file(bytes, |path| drop(taillight_rundir::store::read_store(path)));
}

pub fn histograms(bytes: &[u8]) {
    let clock = fixture::manifest("fuzz").clock;
    with_file(bytes, |path| {
        let _ = taillight_rundir::histlog::each_histogram(path, &clock, &mut |_| Ok(()));
    });
}

pub fn ledger(bytes: &[u8]) {
    with_file(bytes, |path| {
        let _ = taillight_rundir::ledger::read_ledger(path, &mut |_| {});
    });
}

pub fn manifest(bytes: &[u8]) {
    in_directory(names::MANIFEST, bytes, |dir| drop(RunDir::open(dir)));
}

pub fn series(bytes: &[u8]) {
    in_directory(names::SERIES, bytes, |dir| drop(SeriesFile::read(dir)));
}

pub fn owner(bytes: &[u8]) {
    in_directory(SIDECAR, bytes, |dir| {
        let opened = OwnedDirectory::open(dir, &StopFlag::default());
        drop(opened.and_then(|dir| dir.marks()));
    });
}

pub fn credentials(bytes: &[u8]) {
    with_file(bytes, |path| {
        let file = |name: &str| match name {
            "AWS_SHARED_CREDENTIALS_FILE" => Some(path.display().to_string()),
            _ => None,
        };
        drop(Credentials::find_in("", &file));
    });
}

/// A file of options: as one that a job names, and as one that a database wrote.
pub fn rocksdb(bytes: &[u8]) {
    const FILE: &str = "OPTIONS-000007";
    in_directory(FILE, bytes, |dir| {
        let options_file = dir.join(FILE).display().to_string();
        drop(RocksDbOptions { options_file, ..RocksDbOptions::default() }.strings());
        in_force(dir, "default", &mut Vec::new());
    });
}

pub fn times(bytes: &[u8]) {
    with_file(bytes, |path| {
        drop(taillight_engine::schedule::replay::read(&path.display().to_string()));
    });
}

/// A trace, described, and fitted to a small target in each way.
pub fn trace(bytes: &[u8]) {
    const TARGET: u64 = 1 << 20;
    with_file(bytes, |path| {
        let replay = ReplayPlan { file: path.display().to_string(), ..ReplayPlan::default() };
        let Ok(read) = load(&replay, 1 << 16) else { return };
        drop(TraceProfile::of(&read));
        for fit in [TraceFit::Wrap, TraceFit::Scale, TraceFit::Clip, TraceFit::Compact] {
            let mut ops = read.clone();
            ops.at_speed(0.3);
            let fitted = ops.round_out(512).and_then(|()| ops.fit(fit, TARGET, 512));
            assert!(fitted.is_err() || ops.end() <= TARGET, "{fit:?}");
        }
    });
}

pub fn job(bytes: &[u8]) {
    with_text(bytes, |text| drop(Job::from_toml(text, "fuzz.toml")));
}

pub fn suite(bytes: &[u8]) {
    with_text(bytes, |text| drop(SuiteFile::parse(&JobSource::written("fuzz.toml", text))));
}

pub fn fio(bytes: &[u8]) {
    with_text(bytes, |text| drop(taillight_import::fio::import(text, "fuzz.fio")));
}

pub fn ycsb(bytes: &[u8]) {
    with_text(bytes, |text| drop(taillight_import::ycsb::import(text, "fuzz")));
}

/// A result of another tool, read in the format that is detected.
pub fn results(bytes: &[u8]) {
    use taillight_import::results::{HEAD, ResultSource, detect};
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)]);
    if let Some(format) = detect(&head) {
        let mut source = ResultSource::new("fuzz_clat.1.log", String::new(), Box::new(bytes));
        drop((format.read)(&mut source));
    }
}

pub fn sizes(bytes: &[u8]) {
    with_text(bytes, |text| drop(taillight_core::block_size_file::parse(text)));
}

/// A reply's head, and its body in pieces, each at most a byte longer than the one before.
pub fn http(bytes: &[u8]) {
    let mut head = ResponseHead::default();
    let Ok(Some(length)) = head.parse(bytes, false) else { return };
    let mut rest = bytes.get(length..).unwrap_or_default();
    let mut most = 1;
    while !rest.is_empty() && !head.ended() {
        let piece = &rest[..rest.len().min(most)];
        let Ok(used) = head.absorb(piece, &mut |_| {}) else { return };
        assert!(used > 0 && used <= piece.len(), "{used} of {}", piece.len());
        rest = &rest[used..];
        most += 1;
    }
}

pub fn xml(bytes: &[u8]) {
    with_text(bytes, |text| {
        let all = s3::all(text, "Key");
        let first = s3::first(text, "Key");
        if let Ok(all) = all {
            assert_eq!(all.into_iter().next(), first);
        }
    });
}

/// Replies one after another: a whole one takes at least a byte, a cut one asks for more bytes than there are.
pub fn resp(bytes: &[u8]) {
    let mut rest = bytes;
    while let redis::ParsedReply::Whole(value, used) = redis::parse(rest) {
        assert!(used > 0 && used <= rest.len(), "{used} of {}", rest.len());
        if let redis::RespValue::Array(count, elements) = value {
            assert!(redis::elements(elements).count() <= count.max(elements.len()));
        }
        rest = &rest[used..];
    }
    if let redis::ParsedReply::Needs(bytes) = redis::parse(rest) {
        assert!(bytes > rest.len(), "{bytes} of {}", rest.len());
    }
}

/// Messages of a PostgreSQL server; each body is read as a row, an error and a command tag, whatever its kind.
pub fn postgres(bytes: &[u8]) {
    let mut rest = bytes;
    while let Frame::Whole(message, used) = postgres::parse(rest) {
        assert!(used > message.body.len() && used <= rest.len(), "{used} of {}", rest.len());
        let columns: usize = postgres::columns(message.body).flatten().map(<[u8]>::len).sum();
        assert!(columns <= message.body.len());
        assert!(postgres::field(message.body, b'C').len() <= message.body.len());
        let _ = postgres::affected(message.body);
        rest = &rest[used..];
    }
    if let Frame::Needs(bytes) = postgres::parse(rest) {
        assert!(bytes > rest.len(), "{bytes} of {}", rest.len());
    }
}

pub fn nvme(bytes: &[u8]) {
    let _ = drive::pages::identity(bytes);
    let _ = drive::pages::smart(bytes);
    let _ = drive::pages::errors(bytes);
    let _ = drive::pages::supported(bytes);
    let _ = drive::ocp::parse(bytes);
}

pub fn nvme_json(bytes: &[u8]) {
    with_text(bytes, |text| drop(drive::json::parse(text)));
}

pub fn bus(bytes: &[u8]) {
    let mapping = include_str!("../../../docs/bus-mapping.toml");
    if let Ok(map) = analyzer::mapping::BusMapping::parse(mapping) {
        with_text(bytes, |text| drop(analyzer::commands(text, &map)));
    }
}

/// A mapping, and good tables read by it.
pub fn bus_mapping(bytes: &[u8]) {
    with_text(bytes, |text| {
        if let Ok(map) = analyzer::mapping::BusMapping::parse(text) {
            crate::texts::BUS.iter().for_each(|table| drop(analyzer::commands(table, &map)));
        }
    });
}
