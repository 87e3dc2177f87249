//! Every I/O in `ios.parquet` as a line of CSV, in the file's order: its columns, and how many I/Os the phase had.

use std::collections::BTreeMap;
use std::io::{self, Write};

use taillight_core::{Result, Stamp};
use taillight_rundir::RunDir;
use taillight_rundir::ios::{ColumnSet, Row, read_ios};

use super::{RunExport, ios, not_kept, unwritten};
use crate::render::csv::csv;

/// See [`super::RUN_EXPORTS`].
pub const IOS_CSV: RunExport = RunExport {
    name: "ios-csv",
    about: "Every I/O of a run as a line of CSV: the columns of ios.parquet, ns and bytes",
    binary: false,
    write,
};

/// The columns; what is not known of an I/O is empty, an unknown `phase_ios` is `unknown`.
const HEAD: &str = "phase,workload,worker,op,target,offset_bytes,key,size_bytes,moved_bytes,count,\
     intended_ns,origin_ns,submit_ns,issued_ns,first_ns,complete_ns,sync_ns,retries,status,phase_ios\n";

fn write(dir: &RunDir, out: &mut dyn Write) -> Result<Vec<String>> {
    let path = ios(dir)?;
    let missing = not_kept(dir)?;
    let mut rows: BTreeMap<String, u64> = BTreeMap::new();
    read_ios(&path, ColumnSet::PHASE, &mut |batch| {
        for i in 0..batch.rows {
            let phase = batch.phase_name(i);
            match rows.get_mut(phase) {
                Some(n) => *n += 1,
                None => drop(rows.insert(phase.to_owned(), 1)),
            }
        }
        Ok(())
    })?;
    let all = rows.into_iter().map(|(phase, rows)| {
        let whole = missing.is_empty().then_some(rows);
        let of = whole.or_else(|| phase_ios(dir, &phase).filter(|n| *n >= rows));
        (phase, of.map_or("unknown".to_owned(), |n| n.to_string()))
    });
    let all: BTreeMap<String, String> = all.collect();
    out.write_all(HEAD.as_bytes()).map_err(unwritten)?;
    read_ios(&path, ColumnSet::ALL, &mut |batch| {
        (0..batch.rows)
            .try_for_each(|i| {
                let phase = batch.phase_name(i);
                let of = all.get(phase).map_or("", String::as_str);
                line(out, (&csv(phase), of), &batch.row(i))
            })
            .map_err(unwritten)
    })?;
    Ok(missing)
}

/// I/Os of a phase as the run counted them.
fn phase_ios(dir: &RunDir, phase: &str) -> Option<u64> {
    let of = dir.manifest().phases.iter().find(|it| it.name == phase);
    of.map(|it| it.ios)
}

/// `of`: how many I/Os the phase had.
fn line(out: &mut dyn Write, (phase, of): (&str, &str), row: &Row) -> io::Result<()> {
    let (workload, worker, op, target) = (row.workload, row.worker, row.op.name(), row.target);
    write!(out, "{phase},{workload},{worker},{op},{target}")?;
    let stamp = |s: Option<Stamp>| s.map(|s| s.0);
    number(out, row.offset)?;
    number(out, row.key)?;
    number(out, Some(row.size))?;
    number(out, row.moved)?;
    number(out, row.count)?;
    number(out, stamp(row.intended))?;
    number(out, stamp(row.origin))?;
    number(out, Some(row.submit.0))?;
    number(out, stamp(row.issued))?;
    number(out, stamp(row.first))?;
    number(out, Some(row.complete.0))?;
    number(out, row.sync_ns)?;
    number(out, row.retries)?;
    writeln!(out, ",{},{of}", row.status.0)
}

fn number(out: &mut dyn Write, value: Option<impl std::fmt::Display>) -> io::Result<()> {
    match value {
        Some(value) => write!(out, ",{value}"),
        None => out.write_all(b","),
    }
}
