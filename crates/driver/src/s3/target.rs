//! An opened prefix of a bucket as a target: sessions, purge, and at the end the uploads that are
//! aborted and the objects that are deleted.

use std::sync::Arc;

use taillight_core::plan::Plan;
use taillight_core::{Error, OpKind, Result};

use super::client::S3Client;
use super::counters::S3Counters;
use super::credentials::{Credentials, Origin};
use super::location::PrefixLocation;
use super::lost::LostUploads;
use super::naming::ObjectNaming;
use super::options::{PARTS_MAX, S3Options};
use super::prefix::OwnedPrefix;
use super::scan::SCAN_MAX;
use super::session::S3Session;
use crate::contract::{AdminAction, Geometry, KeyedTarget, OpenSpec, Session, SessionSpec, Target};
use crate::kv::rules;
use crate::ownership::refusal;

/// What all workers share.
pub struct S3Shared {
    pub store: S3Client,
    pub prefix: OwnedPrefix,
    pub names: Vec<ObjectNaming>,
    /// Bytes of the smallest object, by workload.
    pub smallest: Vec<u64>,
    pub counts: S3Counters,
    pub lost: LostUploads,
}

/// The target.
pub struct S3Target {
    shared: Arc<S3Shared>,
    facts: Vec<(String, String)>,
    lanes: u32,
    closed: bool,
}

impl S3Target {
    /// Passes the guard. Errors: `Usage`, `Refused` or `Unavailable`; then nothing was changed, unless objects that
    /// give way could be deleted in part only.
    pub fn open(spec: &OpenSpec<'_>, options: S3Options) -> Result<S3Target> {
        // A wrong path is told before missing credentials.
        PrefixLocation::parse(spec.plan.target.path.as_deref(), &options.endpoints)?;
        let (credentials, origin) = Credentials::find(&options.profile)?;
        S3Target::open_as(spec, options, credentials, origin)
    }

    /// [`S3Target::open`] with credentials already found, and where.
    pub fn open_as(
        spec: &OpenSpec<'_>,
        options: S3Options,
        credentials: Credentials,
        origin: Origin,
    ) -> Result<S3Target> {
        let plan = spec.plan;
        let location = PrefixLocation::parse(plan.target.path.as_deref(), &options.endpoints)?;
        let names = plan.workloads.iter().map(|w| ObjectNaming::of(w, &location.prefix));
        let names = names.collect::<Result<Vec<_>>>()?;
        let smallest = check(plan, &options)?;
        let store = S3Client::new(location, options, credentials, spec.stop)?;
        let (prefix, server, unfinished) = OwnedPrefix::take(&store, spec, &names)?;
        let mut facts = vec![
            ("target.kind".to_owned(), "bucket prefix".to_owned()),
            ("s3.place".to_owned(), store.location.to_text()),
            ("s3.credentials".to_owned(), origin),
        ];
        let addresses = (0..store.servers()).map(|n| store.address(n).to_string());
        facts.push(("s3.addresses".to_owned(), addresses.collect::<Vec<_>>().join(" ")));
        facts.push(("s3.server".to_owned(), server));
        facts.extend(unfinished.map(|what| ("s3.unfinished_uploads".to_owned(), what)));
        Ok(S3Target {
            shared: Arc::new(S3Shared {
                store,
                prefix,
                names,
                smallest,
                counts: S3Counters::default(),
                lost: LostUploads::default(),
            }),
            facts,
            lanes: rules::lanes(plan),
            closed: false,
        })
    }

    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let S3Shared { store, prefix, names, lost, .. } = &*self.shared;
        let aborted = lost.abort(store);
        prefix.leave(store, names).and(aborted)
    }
}

/// What [`S3Target::open`] refuses by the plan, the options and the guard, which a rank that joins
/// another does not ask; nothing is changed. Errors: as there.
pub fn check_open(spec: &OpenSpec<'_>, options: S3Options) -> Result<()> {
    let plan = spec.plan;
    let location = PrefixLocation::parse(plan.target.path.as_deref(), &options.endpoints)?;
    let (credentials, _) = Credentials::find(&options.profile)?;
    let names = plan.workloads.iter().map(|w| ObjectNaming::of(w, &location.prefix));
    let names = names.collect::<Result<Vec<_>>>()?;
    check(plan, &options)?;
    let store = S3Client::new(location, options, credentials, spec.stop)?;
    if spec.joins() {
        return Ok(());
    }
    OwnedPrefix::decide(&store, spec, &names).map(drop)
}

/// Bytes of the smallest object of each workload. Errors: `Usage` for a workload that S3 cannot do.
fn check(plan: &Plan, o: &S3Options) -> Result<Vec<u64>> {
    let one = |w: &taillight_core::plan::WorkloadPlan| {
        let values = w.value.clone().unwrap_or_default();
        let smallest = values.value_bytes(w.block_size.min());
        let fields = values.fields > 1 && !values.write_all;
        let changes = |op| matches!(op, OpKind::Update | OpKind::Rmw);
        if fields && w.mix.iter().any(|part| changes(part.op)) {
            return Err(Error::usage("an object cannot be changed in one field")
                .with("workload", &w.name)
                .hint("set value = { write_all = true }: whole objects are written"));
        }
        let scans = w.mix.iter().any(|part| part.op == OpKind::Scan);
        let scan = w.scan.clone().unwrap_or_default();
        if scans && (scan.reverse || scan.max > SCAN_MAX) {
            return Err(Error::usage("S3 lists upwards, 1,000 names at a time: no such scan")
                .with("workload", &w.name)
                .hint("set scan = { max = 1000 } at most, without reverse"));
        }
        if o.range.0 > smallest {
            return Err(Error::usage("options.range is larger than the smallest object")
                .with("workload", &w.name)
                .with("smallest", smallest)
                .with("range", o.range.0)
                .hint("ask for a smaller range, or write larger objects"));
        }
        let largest = values.value_bytes(w.block_size.max());
        if largest.div_ceil(o.part_size.0) > PARTS_MAX {
            return Err(Error::usage("an object would have more than 10,000 parts")
                .with("workload", &w.name)
                .hint("set a larger options.part_size"));
        }
        Ok(smallest)
    };
    plan.workloads.iter().map(one).collect()
}

impl Drop for S3Target {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Target for S3Target {
    fn geometry(&self) -> Geometry {
        Geometry::keyed()
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        if usize::from(spec.workload) >= self.shared.names.len() {
            return Err(Error::internal("a session of no workload"));
        }
        Ok(Box::new(S3Session::new(self.shared.clone(), spec)?))
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        match action {
            // What a store acknowledged is durable as far as it says anything about it.
            AdminAction::Flush => Ok(()),
            AdminAction::Purge if self.shared.prefix.joined => Err(refusal::not_alone()),
            AdminAction::Purge => {
                let S3Shared { store, prefix, names, lost, .. } = &*self.shared;
                lost.abort(store)?;
                let foreign = prefix.empty(store, names)?;
                prefix.note(store, 0)?;
                foreign.told()
            }
            AdminAction::Compact | AdminAction::DropCaches => Err(Error::unavailable(
                "an object store cannot be told to compact or to drop its caches",
            )),
        }
    }
    fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        Some(self)
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        self.shared.counts.show(out);
    }
    fn close(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl KeyedTarget for S3Target {
    fn records(&self) -> u64 {
        self.shared.prefix.records()
    }
    fn lanes(&self) -> u32 {
        self.lanes
    }
    fn written(&self) -> Option<[u64; 3]> {
        Some(self.shared.prefix.written.told())
    }
    fn also_written(&self, by_another: [u64; 3]) {
        self.shared.prefix.written.add(by_another);
    }
    fn loaded(&self, records: u64) -> Result<()> {
        let store = &self.shared.store;
        if store.stop().stopped() {
            store.detach_from_stop()?;
        }
        self.shared.prefix.note(store, records)
    }
}
