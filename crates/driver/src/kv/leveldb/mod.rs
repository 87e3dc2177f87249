//! `leveldb`: Google's LevelDB through its C API, any build of it, loaded at run time.
//!
//! What it is: options, the store behind the shared target and session, statistics. What it is
//! not: LevelDB, or one of its ports; the system under test is no part of the tool.

pub mod options;
mod sample;
mod sys;

use std::path::Path;
use std::sync::Arc;

use taillight_core::capability::Capabilities;
use taillight_core::plan::TargetPlan;
use taillight_core::progress::OnProgress;
use taillight_core::{OpKind, Result};

use super::target::{DatabaseSpec, KvTarget};
use super::{KeyValueStore, StoreEngine, StoreError, rules};
use crate::contract::{AdminAction, Driver, OpenSpec, OptionDoc, Target};
use options::LevelDbOptions;
use sys::{LevelDbConnection, LevelDbLibrary, LevelDbSettings, LevelDbStore};

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
    fn options(&self) -> Vec<OptionDoc> {
        crate::options::docs::<LevelDbOptions>()
    }
    fn resolve(&self, target: &TargetPlan) -> Result<toml::Table> {
        crate::options::complete(&LevelDbOptions::parse(&target.options)?)
    }
    fn capabilities(&self, target: &TargetPlan) -> Result<Capabilities> {
        let options = LevelDbOptions::parse(&target.options)?;
        let mut can = super::capabilities(false, false, options.snapshot);
        can.batches = vec![OpKind::Put, OpKind::Insert, OpKind::Update];
        can.admin.push(AdminAction::Compact);
        Ok(can)
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(
        &self,
        dir: &std::path::Path,
    ) -> std::result::Result<crate::conformance::TestTarget, String> {
        LevelDbLibrary::load("").map_err(|e| e.to_string())?;
        let all = [
            "",
            "bounded_scans = true\nbloom_bits = 10",
            "block_cache = \"1MiB\"\nwrite_buffer_size = \"64KiB\"\ncompression = \"none\"",
            "snapshot = true",
        ];
        Ok(crate::conformance::TestTarget::local(dir, "db", &all))
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        let options = LevelDbOptions::parse(&spec.plan.target.options)?;
        let ask = DatabaseSpec {
            spec,
            keep: options.keep,
            read_only: false,
            bounded: options.bounded_scans,
            snapshot: options.snapshot,
        };
        if options.snapshot {
            rules::fit_snapshot(spec.plan)?;
        }
        let engine = LevelDbEngine {
            library: LevelDbLibrary::load(&options.library)?,
            settings: options.settings(),
        };
        if options.snapshot && !engine.library.has_snapshots() {
            return Err(rules::no_snapshots("LevelDB", "leveldb_create_snapshot"));
        }
        Ok(Box::new(KvTarget::open(engine, &ask)?))
    }
}

/// The library with this run's options.
struct LevelDbEngine {
    library: LevelDbLibrary,
    settings: LevelDbSettings,
}

impl StoreEngine for LevelDbEngine {
    type KeyValueStore = LevelDbStore;
    const NAME: &'static str = "leveldb";

    fn open(&self, dir: &Path, create: bool) -> Result<LevelDbStore> {
        let mut db = LevelDbStore::open(&self.library, &self.settings, dir, create)?;
        db.facts = self.facts();
        Ok(db)
    }
    fn destroy(&self, dir: &Path) -> Result<()> {
        self.library.destroy(dir)
    }
}

impl LevelDbEngine {
    fn facts(&self) -> Vec<(String, String)> {
        let s = &self.settings;
        let or = |n: Option<usize>| n.map_or("default".to_owned(), |n| n.to_string());
        let compression = match s.compress {
            None => "default",
            Some(false) => "none",
            Some(true) => "snappy",
        };
        let file = self.library.file.as_ref();
        let library = file.map_or("unknown".to_owned(), |f| f.display().to_string());
        [
            ("library", library),
            ("version", self.library.version()),
            ("block_cache", or(s.block_cache)),
            ("bloom_bits", s.bloom_bits.to_string()),
            ("compression", compression.to_owned()),
            ("write_buffer_size", or(s.write_buffer)),
            ("block_size", or(s.block_size)),
            ("max_file_size", or(s.file_size)),
            ("max_open_files", or(s.open_files.map(|n| n as usize))),
        ]
        .map(|(name, value)| (format!("store.{name}"), value))
        .to_vec()
    }
}

impl KeyValueStore for LevelDbStore {
    type Connection = LevelDbConnection;

    fn connect(self: &Arc<Self>, snapshot: bool) -> LevelDbConnection {
        LevelDbConnection::new(Arc::clone(self), snapshot)
    }
    fn make_durable(&self) -> Result<(), StoreError> {
        LevelDbStore::make_durable(self)
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
}
