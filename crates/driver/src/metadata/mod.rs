//! `metadata`: names and attributes of files: create, stat, open-read-close, rename, unlink, mkdir, rmdir, readdir, on
//! any file system. A file's number is its identity: name and directory follow from it (`names`), so that its
//! content can be checked like a record's. `tree` is the guard, `session` and `uring` are the engines.

mod files;
mod form;
mod names;
pub mod options;
mod session;
mod sys;
mod target;
mod tree;
mod uring;

use std::path::Path;

use taillight_core::capability::{Capabilities, DriverFacts, TargetKind};
use taillight_core::plan::{Plan, TargetPlan, WorkShare, WorkloadPlan};
use taillight_core::progress::OnProgress;
use taillight_core::{Error, ErrorKind, OpKind, Result};

use crate::contract::{AdminAction, BoundDriver, Driver, OpenSpec, Target};
use crate::options::{DriverOptions, OptionSet, complete};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};
use options::{MetadataEngine, MetadataOptions};
use target::{DROP_CACHES, MetadataTarget, uses_rings};
use tree::NAME;
pub use tree::remove_kept;

/// Operations in flight of a worker at most.
const DEEPEST: u32 = 4096;

/// The driver.
pub struct MetadataDriver;

impl Driver for MetadataDriver {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "names and attributes of files: create, stat, open-read-close, rename, unlink, mkdir, readdir"
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<MetadataOptions>()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        Ok(Box::new(MetadataOptions::parse(NAME, &target.options)?))
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, dir: &std::path::Path) -> TestSetup {
        // Options with `sync` are left out, as each fsync waits for the disk: other tests have
        // them, with few operations.
        let mut all = vec![
            "engine = \"sync\"",
            "engine = \"sync\"\ndirectories = \"shared\"\nspread = 3\ndepth = 2",
        ];
        if uring::check().is_ok() {
            all.extend(["engine = \"io_uring\"", "engine = \"io_uring\"\nspread = 2\ndepth = 1"]);
        }
        Ok(TestTarget::local(dir, "files", &all))
    }
}

impl BoundDriver for MetadataOptions {
    fn options(&self) -> Result<toml::Table> {
        complete(self)
    }
    fn capabilities(&self) -> Capabilities {
        let mut admin = vec![AdminAction::Flush, AdminAction::Purge];
        if rustix::fs::access(DROP_CACHES, rustix::fs::Access::WRITE_OK).is_ok() {
            admin.push(AdminAction::DropCaches);
        }
        Capabilities {
            ops: vec![
                OpKind::Create,
                OpKind::Stat,
                OpKind::OpenReadClose,
                OpKind::Rename,
                OpKind::Readdir,
                OpKind::Unlink,
                OpKind::Mkdir,
                OpKind::Rmdir,
            ],
            max_depth: if self.engine == MetadataEngine::Sync { 1 } else { DEEPEST },
            sync_with: Some("options.sync = \"file\" or \"directory\""),
            stores_data: true,
            guarded: true,
            admin,
            empty_values: true,
            facts: DriverFacts {
                kind: TargetKind::Keyed,
                in_process: true,
                ..DriverFacts::default()
            },
            ..Capabilities::default()
        }
    }
    fn fix_auto_options(&self, target: &mut TargetPlan, deepest: u32) {
        if self.engine == MetadataEngine::Auto && deepest > 1 {
            target.options.insert("engine".to_owned(), "io_uring".into());
        }
    }
    fn plan_notes(&self, plan: &Plan) -> Vec<String> {
        let does = |w: &WorkloadPlan| w.mix.iter().any(|part| part.op == OpKind::Readdir);
        let note =
            "readdir has no form for io_uring: it is one call after another, inside the worker";
        let both = uses_rings(plan, self) && plan.workloads.iter().any(does);
        both.then(|| note.to_owned()).into_iter().collect()
    }
    fn check_shared(&self, _: &TargetPlan, share: WorkShare) -> Result<()> {
        match share {
            WorkShare::Strided => Ok(()),
            other => Err(Error::usage("ranks share numbered files in turns")
                .with("run.share", other.name())
                .hint("use run.share = \"strided\", or leave it out: each rank then has a directory of its own")),
        }
    }
    fn take_back(&self, plan: &Plan, run_ids: &[String]) -> Result<()> {
        let path = plan.target.path.as_deref().map(Path::new).filter(|path| path.is_dir());
        match path.map_or(Ok(()), |path| tree::take_back(path, run_ids)) {
            // Another run had begun the directory: it is for the next one to look at.
            Err(e) if e.kind() == ErrorKind::Unavailable => Ok(()),
            taken => taken,
        }
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        tree::check(spec, self)
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        Ok(Box::new(MetadataTarget::open(spec, self)?))
    }
}
