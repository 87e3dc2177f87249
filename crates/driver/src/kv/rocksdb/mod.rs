//! The driver `rocksdb`: RocksDB through its C API, in a build of the user's choice, loaded at run time; no RocksDB
//! is linked in, because the system under test is no part of the tool. Opening goes: options -> library -> option
//! strings, parsed by the library -> guard -> database. Target and session are those of all embedded stores; here are
//! the checks of options, capabilities, facts and statistics of the store behind them.

pub mod options;
mod outside;
mod sample;
mod sys;

/// The calls of the hot path, apart from the rest of the C API.
mod connection {
    mod sys;
    pub use sys::RocksDbConnection;
}

use std::path::{Path, PathBuf};
use std::sync::Arc;

use taillight_core::capability::Capabilities;
use taillight_core::plan::{Plan, Sync, TargetPlan, WorkloadPlan};
use taillight_core::progress::OnProgress;
use taillight_core::samples::SampleDisplay;
use taillight_core::witness::{WitnessCount, WitnessUnit};
use taillight_core::{Error, OpKind, Result};

use super::target::{DatabaseSpec, KvTarget};
use super::{KeyValueStore, OpenAs, OutsideFiles, StoreEngine, StoreError, rules};
use crate::contract::{AdminAction, BoundDriver, Driver, OpenSpec, Target};
use crate::kv::sys::StoreApi;
use crate::options::{DriverOptions, OptionSet, complete};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};
use connection::RocksDbConnection;
use options::RocksDbOptions;
use sys::{RocksDbConfig, RocksDbLibrary, RocksDbStore};

/// The driver.
pub struct RocksDbDriver;

impl Driver for RocksDbDriver {
    fn name(&self) -> &'static str {
        RocksDbEngine::NAME
    }
    fn about(&self) -> &'static str {
        "RocksDB through its C library, loaded at run time"
    }
    fn library(&self) -> Option<&'static str> {
        Some("librocksdb")
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<RocksDbOptions>()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        Ok(Box::new(RocksDbOptions::parse(self.name(), &target.options)?))
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, dir: &std::path::Path) -> TestSetup {
        RocksDbLibrary::load("").map_err(|e| e.to_string())?;
        let all = [
            "",
            "bounded_scans = true\nstatistics = true",
            "column_family = \"other\"\nwal = false\nbloom_bits = 10\nblock_cache = \"1MiB\"",
            "write_buffer_size = \"64KiB\"\ncompression = \"none\"\nmax_background_jobs = 3",
            "snapshot = true",
        ];
        Ok(TestTarget::local(dir, "db", &all))
    }
}

impl BoundDriver for RocksDbOptions {
    fn options(&self) -> Result<toml::Table> {
        complete(self)
    }
    fn samples(&self) -> SampleDisplay {
        sample::display()
    }
    fn capabilities(&self) -> Capabilities {
        let mut can = super::capabilities(
            self.direct_reads || self.direct_writes,
            self.read_only,
            self.snapshot,
        );
        can.sync = self.wal;
        can.sync_with = (!self.wal).then_some("target.options.wal = true");
        can.batches = vec![OpKind::Put, OpKind::Insert, OpKind::Update, OpKind::Get];
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

/// The library with the options of the run, and what is asked of the directory. Errors: `Usage` for options that
/// contradict each other or the plan, or that the library does not take; `Unavailable` for a library that cannot be
/// used or lacks what the plan needs; those of [`outside::fit_outside`].
fn engine<'a>(
    options: &RocksDbOptions,
    spec: &'a OpenSpec<'a>,
) -> Result<(RocksDbEngine, DatabaseSpec<'a>)> {
    if !options.wal && syncs(spec.plan) {
        return Err(Error::usage("a write without a log cannot be synced")
            .hint("use sync = \"none\", or set options.wal = true"));
    }
    let mut strings = options.strings()?;
    if outside::is_asked(&strings) {
        // Before the user's own option strings, so that those prevail.
        strings.insert(0, outside::no_scans());
    }
    let ask = DatabaseSpec {
        read_only: options.read_only,
        bounded: options.bounded_scans,
        snapshot: options.snapshot,
        compresses: options::compresses(&strings),
        log: outside::log(&strings).filter(|_| options.wal),
        ..DatabaseSpec::new(spec, options.keep)
    };
    if options.snapshot {
        rules::fit_snapshot(spec.plan)?;
    }
    let makes = outside::absent_dirs(&strings);
    let library = RocksDbLibrary::load(&options.library)?;
    let engine = RocksDbEngine { makes, strings, library, options: options.clone() };
    engine.config()?;
    if !ask.read_only {
        outside::fit_outside(&engine.strings, spec.plan.target.path.as_deref().map(Path::new))?;
    }
    if ask.snapshot && options::updates_in_place(&engine.strings) {
        return Err(Error::usage(
            "options contradict each other: RocksDB takes no snapshots with \
                 inplace_update_support",
        )
        .hint("leave one of them out"));
    }
    let many = spec.plan.workloads.iter().any(gets_many);
    if many && engine.library.api.multi_get.is_none() {
        return Err(Error::unavailable("this RocksDB has no multi-get")
            .with("missing", "rocksdb_batched_multi_get_cf")
            .hint("leave `batch` out of workloads that get, or use RocksDB 6.23 or newer"));
    }
    if ask.snapshot && engine.library.api.snapshots().is_none() {
        return Err(rules::no_snapshots("RocksDB", "rocksdb_create_snapshot"));
    }
    Ok((engine, ask))
}

fn syncs(plan: &Plan) -> bool {
    plan.workloads.iter().any(|w| w.sync != Sync::None)
}

/// Whether a get of the workload is one of several records.
fn gets_many(w: &WorkloadPlan) -> bool {
    w.batch > 1 && w.mix.iter().any(|part| part.op == OpKind::Get)
}

/// The library with this run's options.
struct RocksDbEngine {
    library: Arc<RocksDbLibrary>,
    strings: Vec<(&'static str, String)>,
    /// Named directories for logs or messages that were absent before the run.
    makes: Vec<PathBuf>,
    options: RocksDbOptions,
}

impl StoreEngine for RocksDbEngine {
    type KeyValueStore = RocksDbStore;
    const NAME: &'static str = "rocksdb";

    fn open(&self, dir: &Path, how: OpenAs) -> Result<RocksDbStore> {
        let writes = how != OpenAs::ReadOnly;
        if writes {
            // At each opening RocksDB takes what it finds in such directories for its own.
            outside::fit_outside(&self.strings, Some(dir))?;
        }
        let mut options = self.config()?;
        options.create(how);
        if !options::chooses_its_log(&self.strings) {
            options.log_little();
        }
        let counters = if !self.options.statistics {
            "off"
        } else if options.count() {
            "on, without clocks"
        } else {
            "on, with clocks (this version has no other)"
        };
        let family = &self.options.column_family;
        let mut db = RocksDbStore::open(options, dir, family, writes, self.options.wal)?;
        let mut facts = Vec::new();
        let mut add = |name: &str, value: String| facts.push((name.to_owned(), value));
        add("store.library", self.library.loaded_from());
        add("store.column_family", family.clone());
        add("store.wal", self.options.wal.to_string());
        add("store.statistics", counters.to_owned());
        for (from, string) in &self.strings {
            add(&format!("store.from {from}"), string.clone());
        }
        options::in_force(dir, family, &mut facts);
        db.facts = facts;
        db.counts = self.options.statistics;
        db.outside = outside::is_asked(&self.strings);
        Ok(db)
    }

    fn try_open(&self, dir: &Path) -> Result<()> {
        // In a directory for logs elsewhere the database that is to give way may still have its own.
        let options = self.config()?.with("wal_dir=;db_log_dir=");
        let mut options = options.map_err(|fault| fault.into_error("to try the options"))?;
        options.create(OpenAs::New);
        options.log_little();
        let family = &self.options.column_family;
        RocksDbStore::open(options, dir, family, true, self.options.wal).map(drop)
    }

    fn auxiliary_dirs(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        outside::log_dirs(dir)
    }

    fn alone(&self, dir: &Path) -> Result<()> {
        outside::fit_outside(&self.strings, Some(dir))
    }

    fn outside(&self, store: &RocksDbStore, dir: &Path) -> Result<OutsideFiles> {
        let mut logs = outside::log_dirs(dir)?;
        logs.retain(|logs| logs != dir);
        if self.options.read_only {
            logs.clear();
        }
        if logs.is_empty() {
            return Ok(OutsideFiles::default());
        }
        // Flushed, a database needs only the log that it writes to, and deletes its older ones.
        let _ = store.flush();
        outside::own_logs(logs, &self.makes)
    }
}

impl RocksDbEngine {
    /// The option strings of the run, parsed by the library. Errors: `Usage` with the store's words.
    fn config(&self) -> Result<RocksDbConfig> {
        let mut options = RocksDbConfig::new(&self.library);
        for (from, string) in &self.strings {
            options = options.with(string).map_err(|fault| {
                Error::usage("RocksDB does not accept the options")
                    .with("from", from)
                    .with("store says", fault.0)
                    .hint("correct what it names under [target.options]")
            })?;
        }
        Ok(options)
    }
}

impl KeyValueStore for RocksDbStore {
    type Connection = RocksDbConnection;

    fn connect(self: &Arc<Self>, snapshot: bool) -> Result<RocksDbConnection> {
        Ok(RocksDbConnection::new(Arc::clone(self), snapshot))
    }
    fn make_durable(&self) -> Result<(), StoreError> {
        RocksDbStore::make_durable(self)
    }
    fn flush(&self) -> Result<(), StoreError> {
        RocksDbStore::flush(self)
    }
    fn compact(&self) -> Result<(), StoreError> {
        RocksDbStore::compact(self);
        Ok(())
    }
    fn facts(&self, out: &mut Vec<(String, String)>) {
        out.extend_from_slice(&self.facts);
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        let (mut sst, mut live) = (0.0, 0.0);
        for (property, series) in sample::LEVELS {
            let value = self.property(property).and_then(|v| v.parse::<f64>().ok());
            let Some(value) = value else { continue };
            match series {
                "sst_bytes" => sst = value,
                "live_bytes" => live = value,
                _ => {}
            }
            out(series, value);
        }
        let dbstats = self.property(c"rocksdb.dbstats");
        if let Some(ns) = dbstats.as_deref().and_then(sample::stall_ns) {
            out("stall_ns_total", ns);
        }
        let cfstats = self.property(c"rocksdb.cfstats-no-file-histogram");
        if let Some(times) = cfstats.as_deref().and_then(sample::write_amplification) {
            out("write_amplification", times);
        }
        let above = cfstats.as_deref().and_then(sample::above_last_level);
        if let Some(times) = above.and_then(|a| sample::space_amplification(sst, live, a)) {
            out("space_amplification", times);
        }
        if self.counts
            && let Some(text) = self.statistics()
        {
            sample::counters(&text, out);
        }
    }
    fn witness(&self) -> Vec<WitnessCount> {
        let records = WitnessUnit::Records;
        let writes = self.sequence().map(|number| {
            WitnessCount::new("RocksDB's sequence numbers", records, &super::WRITES, number)
        });
        let text = self.counts.then(|| self.statistics()).flatten();
        let reads = text.and_then(|text| sample::keys_read(&text)).map(|keys| {
            WitnessCount::new("RocksDB's statistics, keys read", records, &super::READS, keys)
        });
        writes.into_iter().chain(reads).collect()
    }
}
