//! Every property of YCSB's core, once: mapped, of no meaning here, or refused.
//!
//! Properties that depend on their value (a retry limit of 0 changes nothing) are listed as mapped
//! and judged in `read`.

/// What becomes of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It becomes part of a job.
    Mapped,
    /// It changes nothing about the load; why.
    Harmless(&'static str),
    /// It would change the load, and nothing here does that; what it would change.
    Refused(&'static str),
}

use Fate::{Harmless, Mapped, Refused};

const KEPT: &str = "every operation is kept with its exact latency; the report makes histograms, \
                    percentiles and series from them";
const FILES: &str = "results go into the run directory";
const SHOWN: &str = "the console shows a line for each interval (run.interval)";
const CODES: &str = "every failure keeps its status and latency";

/// All of them.
pub const LIST: &[(&str, Fate)] = &[
    ("recordcount", Mapped),
    ("insertstart", Mapped),
    ("insertcount", Mapped),
    ("operationcount", Mapped),
    ("maxexecutiontime", Mapped),
    ("threadcount", Mapped),
    ("target", Mapped),
    ("fieldcount", Mapped),
    ("fieldlength", Mapped),
    ("minfieldlength", Mapped),
    ("fieldlengthdistribution", Mapped),
    ("fieldlengthhistogram", Mapped),
    ("fieldnameprefix", Mapped),
    ("zeropadding", Mapped),
    ("insertorder", Mapped),
    ("dataintegrity", Mapped),
    ("readproportion", Mapped),
    ("updateproportion", Mapped),
    ("insertproportion", Mapped),
    ("scanproportion", Mapped),
    ("readmodifywriteproportion", Mapped),
    ("requestdistribution", Mapped),
    ("hotspotdatafraction", Mapped),
    ("hotspotopnfraction", Mapped),
    ("exponential.percentile", Mapped),
    ("exponential.frac", Mapped),
    ("readallfields", Mapped),
    ("writeallfields", Mapped),
    ("minscanlength", Mapped),
    ("maxscanlength", Mapped),
    ("scanlengthdistribution", Mapped),
    ("workload", Mapped),
    ("db", Mapped),
    ("rocksdb.dir", Mapped),
    ("core_workload_insertion_retry_limit", Mapped),
    (
        "core_workload_insertion_retry_interval",
        Harmless("no insert is repeated, so there is no pause before it"),
    ),
    (
        "core_workload_insertion_keep_going_on_error",
        Harmless("a failed insert is counted and the load goes on"),
    ),
    (
        "dotransactions",
        Harmless("the load and the transactions become a job each; run the one you want"),
    ),
    (
        "table",
        Harmless("a target holds one table: keys have no table in front of them"),
    ),
    (
        "readallfieldsbyname",
        Harmless("a read asks the store for the same bytes with and without their names"),
    ),
    ("label", Harmless("runs are named with --set run.name=NAME")),
    ("status", Harmless(SHOWN)),
    ("status.interval", Harmless(SHOWN)),
    (
        "spin.sleep",
        Harmless(
            "the schedule is exact without it: a worker waits in the kernel and spins only at the end",
        ),
    ),
    ("exporter", Harmless(FILES)),
    ("exportfile", Harmless(FILES)),
    (
        "measurement.interval",
        Harmless("with a target rate both are measured: from the intended and from the real start"),
    ),
    ("measurementtype", Harmless(KEPT)),
    ("measurement.histogram.verbose", Harmless(KEPT)),
    ("measurement.raw.output_file", Harmless(KEPT)),
    ("measurement.raw.no_summary", Harmless(KEPT)),
    ("histogram.buckets", Harmless(KEPT)),
    ("hdrhistogram.percentiles", Harmless(KEPT)),
    ("hdrhistogram.fileoutput", Harmless(KEPT)),
    ("hdrhistogram.output.path", Harmless(KEPT)),
    ("hdrhistogram.max", Harmless(KEPT)),
    ("hdrhistogram.sig", Harmless(KEPT)),
    ("timeseries.granularity", Harmless(KEPT)),
    (
        "measurement.trackjvm",
        Harmless("there is no Java machine to watch"),
    ),
    ("reportlatencyforeacherror", Harmless(CODES)),
    ("latencytrackederrors", Harmless(CODES)),
    (
        "rocksdb.optionsfile",
        Refused(
            "it sets the options of the store; give the file with --set target.options.options_file=PATH",
        ),
    ),
];

/// First parts of the properties of YCSB's bindings.
const BINDINGS: &[&str] = &[
    "accumulo",
    "aerospike",
    "as",
    "basicdb",
    "bigtable",
    "cassandra",
    "cloudspanner",
    "cosmos",
    "couchbase",
    "db",
    "dynamodb",
    "elasticsearch",
    "es",
    "etcd",
    "fdb",
    "foundationdb",
    "google",
    "hbase",
    "hosts",
    "hypertable",
    "ignite",
    "infinispan",
    "jdbc",
    "kudu",
    "leveldb",
    "memcached",
    "mongodb",
    "nosqldb",
    "orientdb",
    "port",
    "rados",
    "redis",
    "riak",
    "rocksdb",
    "s3",
    "scylla",
    "solr",
    "tarantool",
    "voltdb",
    "zookeeper",
];

/// What becomes of `name`; `None` when YCSB's core does not know it.
pub fn fate(name: &str) -> Option<Fate> {
    LIST.iter().find(|(n, _)| *n == name).map(|(_, fate)| *fate)
}

/// Whether `name` is a property of the core.
pub fn is_core(name: &str) -> bool {
    fate(name).is_some()
}

/// Whether `name` belongs to a binding, by its first part.
pub fn is_binding(name: &str) -> bool {
    let first = name.split('.').next().unwrap_or_default();
    name.contains('.') && BINDINGS.contains(&first)
}

/// The nearest known name.
pub fn nearest(name: &str) -> Option<&'static str> {
    LIST.iter()
        .map(|(known, _)| (strsim::jaro_winkler(name, known), *known))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(score, _)| *score > 0.8)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_listed_once() {
        for (i, (name, _)) in LIST.iter().enumerate() {
            assert!(LIST[i + 1..].iter().all(|(n, _)| n != name), "{name}");
        }
        assert_eq!(nearest("recordscount"), Some("recordcount"));
        assert_eq!(nearest("xyz"), None);
        assert!(is_binding("redis.host") && !is_binding("redis") && !is_binding("my.host"));
    }
}
