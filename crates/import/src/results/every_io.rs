//! Results that have every I/O: what the first reading notes, and how the second one goes into `ios.parquet`.

use std::collections::BTreeMap;
use std::path::Path;

use taillight_core::{Error, OpKind, Record, Result};
use taillight_rundir::ios::{IosWriter, RowKey};
use taillight_rundir::origin::ImportedOp;
use taillight_rundir::reorder::{Order, ReorderScan};
use taillight_rundir::{Manifest, RunDir};

use super::ResultSource;
use super::agree::MOST;

/// Stamp of the moment that a result counts from, ns: I/Os that were under way before it have stamps, too.
pub const BASE_NS: i64 = 1_000_000_000_000;

/// Workload and worker.
type IoOwner = (u16, u16);
/// Takes the I/Os of a result in the order of the file.
pub type IoSink<'a> = dyn FnMut(IoOwner, &Record) -> Result<()> + 'a;
/// Reads a result a second time.
pub type IoReader = Box<dyn Fn(&mut ResultSource<'_>, &mut IoSink<'_>) -> Result<()>>;

/// What the first reading of a result with every I/O notes.
#[derive(Default)]
pub struct EveryIo {
    tallies: BTreeMap<(u16, OpKind), ImportedOp>,
    scans: BTreeMap<IoOwner, ReorderScan>,
    /// First submit and last completion, ns.
    span: Option<(i64, i64)>,
    /// Bytes, latencies and syncs, ns.
    sums: [u128; 3],
}

impl EveryIo {
    /// Counts an I/O. Errors: `Corrupt` where bytes, or times in ns, now add up to more than [`MOST`].
    pub fn add(&mut self, owner: IoOwner, record: &Record) -> Result<()> {
        let begun =
            [record.intended, record.origin, Some(record.submit)].into_iter().flatten().min();
        let took = record.complete.0.saturating_sub(begun.map_or(0, |at| at.0)).max(0);
        let each =
            [record.size.max(record.moved.unwrap_or(0)), took as u64, record.sync_ns.unwrap_or(0)];
        for (sum, one) in self.sums.iter_mut().zip(each) {
            *sum += u128::from(one);
        }
        if self.sums.iter().any(|sum| *sum > u128::from(MOST)) {
            return Err(Error::corrupt("a size or a time that no run has")
                .hint("look for a number that is damaged"));
        }
        let tally = self.tallies.entry((owner.0, record.op)).or_default();
        tally.count += 1;
        tally.errors += u64::from(!record.status.is_ok());
        tally.bytes = tally.bytes.saturating_add(record.moved.unwrap_or(record.size));
        let at = (record.submit.0, record.complete.0);
        let span = self.span.get_or_insert(at);
        *span = (span.0.min(at.0), span.1.max(at.1));
        self.scans.entry(owner).or_default().add(record.submit.0, || *record);
        Ok(())
    }

    pub fn any(&self) -> bool {
        self.span.is_some()
    }

    pub fn span(&self) -> (i64, i64) {
        self.span.unwrap_or_default()
    }

    /// Operations of a workload; rates are over the time of all.
    pub fn ops(&self, workload: u16) -> BTreeMap<OpKind, ImportedOp> {
        let (from, to) = self.span();
        let duration_ns = to.saturating_sub(from).max(1) as u64;
        let of = self.tallies.iter().filter(|((of, _), _)| *of == workload);
        let seconds = duration_ns as f64 / 1e9;
        of.map(|((_, op), it)| {
            let it = ImportedOp {
                duration_ns,
                iops: it.count as f64 / seconds,
                bytes_per_s: it.bytes as f64 / seconds,
                ..it.clone()
            };
            (*op, it)
        })
        .collect()
    }

    /// What the second reading needs.
    pub fn rows(self, read: IoReader) -> ForeignRows {
        let span = self.span();
        let orders = self.scans.into_iter().map(|(owner, scan)| (owner, scan.finish())).collect();
        ForeignRows { span, orders, read }
    }
}

/// The I/Os of a result, still in its file.
pub struct ForeignRows {
    /// First submit and last completion, ns.
    pub(super) span: (i64, i64),
    orders: BTreeMap<IoOwner, Order>,
    read: IoReader,
}

impl ForeignRows {
    /// Makes the run directory at `path`: each worker's I/Os in submit order. Errors: as [`RunDir::create`] and those
    /// of the result; `Unavailable` for a file that has become another one since it was read first.
    pub fn write(
        mut self,
        path: &Path,
        manifest: &Manifest,
        source: &mut ResultSource<'_>,
    ) -> Result<()> {
        let dir = RunDir::create(path, manifest)?;
        let mut writer = IosWriter::create(&dir)?;
        let mut last = None;
        let mut put = |writer: &mut IosWriter, owner: IoOwner, record: &Record| {
            if last.replace(owner) != Some(owner) {
                writer.begin(RowKey { phase: "measure", workload: owner.0, worker: owner.1 });
            }
            writer.push(record)
        };
        let changed = || Error::unavailable("the file changed while it was read");
        let orders = &mut self.orders;
        (self.read)(source, &mut |owner, record| {
            let order = orders.get_mut(&owner).ok_or_else(changed)?;
            order.push(record, &mut |record| put(&mut writer, owner, record))
        })?;
        for (owner, order) in orders.iter_mut() {
            order.finish(&mut |record| put(&mut writer, *owner, record))?;
        }
        match writer.finish()? == manifest.capture.kept {
            true => Ok(()),
            false => Err(changed().with("path", source.file)),
        }
    }
}
