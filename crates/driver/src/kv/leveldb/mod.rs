//! The driver `leveldb`: Google's LevelDB through its C API, in a build of the user's choice, loaded at run time; no
//! LevelDB is linked in, because the system under test is no part of the tool. Target and session are those of all
//! embedded stores; here are capabilities, facts, statistics, durability and compaction of the store behind them.

pub mod options;
mod sample;
mod sys;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use taillight_core::capability::Capabilities;
use taillight_core::plan::TargetPlan;
use taillight_core::progress::OnProgress;
use taillight_core::samples::SampleDisplay;
use taillight_core::units::ByteSize;
use taillight_core::witness::{WitnessCount, WitnessUnit};
use taillight_core::{OpKind, Result};
use taillight_machine::Sys;
use taillight_machine::io_counters::ProcessIo;

use super::numbers::StoreFile;
use super::target::{DatabaseSpec, KvTarget};
use super::{KeyValueStore, OpenAs, StoreEngine, StoreError, rules};
use crate::contract::{AdminAction, BoundDriver, Driver, OpenSpec, Target};
use crate::kv::sys::StoreApi;
use crate::options::{DriverOptions, OptionSet, OrDefault, complete};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};
use options::{LevelDbCompression, LevelDbOptions};
use sys::{LevelDbConnection, LevelDbLibrary, LevelDbStore};

/// The driver.
pub struct LevelDbDriver;

impl Driver for LevelDbDriver {
    fn name(&self) -> &'static str {
        LevelDbEngine::NAME
    }
    fn about(&self) -> &'static str {
        "LevelDB through its C library, loaded at run time"
    }
    fn library(&self) -> Option<&'static str> {
        Some("libleveldb")
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<LevelDbOptions>()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        Ok(Box::new(LevelDbOptions::parse(self.name(), &target.options)?))
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, dir: &std::path::Path) -> TestSetup {
        LevelDbLibrary::load("").map_err(|e| e.to_string())?;
        let all = [
            "",
            "bounded_scans = true\nbloom_bits = 10",
            "block_cache = \"1MiB\"\nwrite_buffer_size = \"64KiB\"\ncompression = \"none\"",
            "snapshot = true",
        ];
        Ok(TestTarget::local(dir, "db", &all))
    }
}

impl BoundDriver for LevelDbOptions {
    fn options(&self) -> Result<toml::Table> {
        complete(self)
    }
    fn samples(&self) -> SampleDisplay {
        sample::display()
    }
    fn capabilities(&self) -> Capabilities {
        let mut can = super::capabilities(false, false, self.snapshot);
        can.batches = vec![OpKind::Put, OpKind::Insert, OpKind::Update];
        can.admin.push(AdminAction::Compact);
        can
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        let (engine, ask) = engine(self, spec)?;
        KvTarget::check(&engine, &ask)
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        let (engine, ask) = engine(self, spec)?;
        Ok(Box::new(KvTarget::open(engine, &ask)?))
    }
}

/// The library with the options of the run, and what is asked of the directory. Errors: `Unavailable` where the library
/// cannot be used, `Usage` where snapshots do not fit the plan.
fn engine<'a>(
    options: &LevelDbOptions,
    spec: &'a OpenSpec<'a>,
) -> Result<(LevelDbEngine, DatabaseSpec<'a>)> {
    let ask = DatabaseSpec {
        bounded: options.bounded_scans,
        snapshot: options.snapshot,
        compresses: options.compression != LevelDbCompression::None,
        ..DatabaseSpec::new(spec, options.keep)
    };
    if options.snapshot {
        rules::fit_snapshot(spec.plan)?;
    }
    let library = LevelDbLibrary::load(&options.library)?;
    let engine = LevelDbEngine { library, options: options.clone() };
    if ask.snapshot && engine.library.api.snapshots().is_none() {
        return Err(rules::no_snapshots("LevelDB", "leveldb_create_snapshot"));
    }
    Ok((engine, ask))
}

/// The library with this run's options.
struct LevelDbEngine {
    library: Arc<LevelDbLibrary>,
    options: LevelDbOptions,
}

impl StoreEngine for LevelDbEngine {
    type KeyValueStore = LevelDbStore;
    const NAME: &'static str = "leveldb";

    fn open(&self, dir: &Path, how: OpenAs) -> Result<LevelDbStore> {
        let mut db = LevelDbStore::open(&self.library, &self.options, dir, how)?;
        db.facts = self.facts();
        Ok(db)
    }
}

/// Makes all logs in `dir` and their names durable; a log that is gone is passed over, since the records of a log that
/// is deleted are in a synced table.
fn sync_earlier_logs(dir: &Path) -> io::Result<()> {
    let sync = |path: &Path| match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        file => file?.sync_all(),
    };
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let kind = name.to_str().and_then(|name| StoreFile::of(LevelDbEngine::NAME, name));
        if matches!(kind, Some(StoreFile::Log(_))) {
            sync(&dir.join(name))?;
        }
    }
    sync(dir)
}

impl LevelDbEngine {
    /// Library and options as facts for the manifest: `store.NAME`, and the value. `default` is what LevelDB decides.
    fn facts(&self) -> Vec<(String, String)> {
        let o = &self.options;
        let or_default = |n: Option<u64>| n.map_or("default".to_owned(), |n| n.to_string());
        let bytes = |size: OrDefault<ByteSize>| or_default(size.set().map(|s| s.0));
        let files = Some(u64::from(o.max_open_files)).filter(|n| *n > 0);
        [
            ("library", self.library.loaded_from()),
            ("version", self.library.version()),
            ("block_cache", bytes(o.block_cache)),
            ("bloom_bits", o.bloom_bits.to_string()),
            ("compression", format!("{:?}", o.compression).to_lowercase()),
            ("write_buffer_size", bytes(o.write_buffer_size)),
            ("block_size", bytes(o.block_size)),
            ("max_file_size", bytes(o.max_file_size)),
            ("max_open_files", or_default(files)),
        ]
        .map(|(name, value)| (format!("store.{name}"), value))
        .to_vec()
    }
}

impl KeyValueStore for LevelDbStore {
    type Connection = LevelDbConnection;

    fn connect(self: &Arc<Self>, snapshot: bool) -> Result<LevelDbConnection> {
        Ok(LevelDbConnection::new(Arc::clone(self), snapshot))
    }
    fn make_durable(&self) -> Result<(), StoreError> {
        self.sync_log()?;
        sync_earlier_logs(&self.dir).map_err(|e| StoreError(format!("syncing earlier logs: {e}")))
    }
    fn compact(&self) -> Result<(), StoreError> {
        LevelDbStore::compact(self);
        Ok(())
    }
    fn facts(&self, out: &mut Vec<(String, String)>) {
        out.extend_from_slice(&self.facts);
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        let number = |name| self.property(name).and_then(|v| v.parse::<f64>().ok());
        if let Some(files) = number(c"leveldb.num-files-at-level0") {
            out("level0_files", files);
        }
        if let Some(bytes) = number(c"leveldb.approximate-memory-usage") {
            out("memory_bytes", bytes);
        }
        if let Some(text) = self.property(c"leveldb.stats") {
            let sum = sample::compactions(&text);
            out("files", sum.files);
            out("sst_bytes", sum.table_bytes);
            out("compaction_ns_total", sum.time_ns);
            out("compaction_read_bytes_total", sum.read_bytes);
            out("compaction_written_bytes_total", sum.written_bytes);
        }
    }
    /// LevelDB counts no operations. Bytes that this process has passed to write calls stand in for them: what is put
    /// goes through such calls into the log.
    fn witness(&self) -> Vec<WitnessCount> {
        let count = |io: ProcessIo| WitnessCount {
            more: Some("keys, the log's own bytes, compaction"),
            ..WitnessCount::new(
                "/proc/self/io, written",
                WitnessUnit::Bytes,
                &super::PUTS,
                io.passed,
            )
        };
        ProcessIo::here(&Sys::default()).map(count).into_iter().collect()
    }
}
