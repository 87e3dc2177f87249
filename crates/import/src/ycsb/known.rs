//! Every property of YCSB's core: mapped, of no meaning here, or refused.
//!
//! Properties that depend on their value (a retry limit of 0 changes nothing) are listed as mapped
//! and judged in `workload`.

use taillight_core::suggest;

/// What becomes of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertyEffect {
    /// It becomes part of a job.
    Mapped,
    /// It changes nothing about the load; why.
    Harmless(&'static str),
    /// It would change the load, and nothing here does that; what it would change.
    Refused(&'static str),
}

use PropertyEffect::{Harmless, Mapped, Refused};

/// Properties and what becomes of them.
#[rustfmt::skip]
const PROPERTIES: &[(&str, PropertyEffect)] = &[
    ("recordcount insertstart insertcount operationcount maxexecutiontime threadcount target \
      fieldcount fieldlength minfieldlength fieldlengthdistribution fieldlengthhistogram \
      fieldnameprefix zeropadding insertorder dataintegrity readproportion updateproportion \
      insertproportion scanproportion readmodifywriteproportion requestdistribution \
      hotspotdatafraction hotspotopnfraction exponential.percentile exponential.frac readallfields \
      writeallfields minscanlength maxscanlength scanlengthdistribution workload db rocksdb.dir \
      core_workload_insertion_retry_limit", Mapped),
    ("core_workload_insertion_retry_interval",
     Harmless("no insert is repeated, so there is no pause before it")),
    ("core_workload_insertion_keep_going_on_error",
     Harmless("a failed insert is counted and the load goes on")),
    ("dotransactions",
     Harmless("the load and the transactions become a job each; run the one you want")),
    ("table", Harmless("a target holds one table: keys have no table in front of them")),
    ("readallfieldsbyname",
     Harmless("a read asks the store for the same bytes with and without their names")),
    ("label", Harmless("runs are named with --set run.name=NAME")),
    ("status status.interval",
     Harmless("the console shows a line for each interval (run.interval)")),
    ("spin.sleep", Harmless("the schedule is exact without it: a worker waits in the kernel and \
                             spins only at the end")),
    ("exporter exportfile", Harmless("results go into the run directory")),
    ("measurement.interval", Harmless("with a target rate both are measured: from the intended and \
                                       from the real start")),
    ("measurementtype measurement.histogram.verbose measurement.raw.output_file \
      measurement.raw.no_summary histogram.buckets hdrhistogram.percentiles hdrhistogram.fileoutput \
      hdrhistogram.output.path hdrhistogram.max hdrhistogram.sig timeseries.granularity",
     Harmless("every operation is kept with its exact latency; the report makes histograms, \
               percentiles and series from them")),
    ("measurement.trackjvm", Harmless("there is no Java machine to watch")),
    ("reportlatencyforeacherror latencytrackederrors",
     Harmless("every failure keeps its status and latency")),
    ("rocksdb.optionsfile", Refused("it sets the options of the store; give the file with \
                                     --set target.options.options_file=PATH")),
];

/// First parts of the properties of YCSB's bindings.
const BINDINGS: &str = "accumulo aerospike as basicdb bigtable cassandra cloudspanner cosmos couchbase \
                        db dynamodb elasticsearch es etcd fdb foundationdb google hbase hosts hypertable \
                        ignite infinispan jdbc kudu leveldb memcached mongodb nosqldb orientdb port \
                        rados redis riak rocksdb s3 scylla solr tarantool voltdb zookeeper";

fn all() -> impl Iterator<Item = (&'static str, PropertyEffect)> {
    PROPERTIES.iter().flat_map(|(names, effect)| {
        let names = names.split_whitespace();
        names.map(|name| (name, *effect))
    })
}

/// What becomes of `name`; `None` when YCSB's core does not know it.
pub fn effect(name: &str) -> Option<PropertyEffect> {
    all().find(|(known, _)| *known == name).map(|(_, effect)| effect)
}

/// Whether `name` is a property of the core.
pub fn is_core(name: &str) -> bool {
    effect(name).is_some()
}

/// Whether `name` belongs to a binding, by its first part.
pub fn is_binding(name: &str) -> bool {
    let binding = |first| BINDINGS.split_whitespace().any(|b| b == first);
    name.split_once('.').is_some_and(|(first, _)| binding(first))
}

/// The nearest known name.
pub fn nearest(name: &str) -> Option<&'static str> {
    suggest::nearest(name, all().map(|(known, _)| known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_listed_once() {
        let mut seen = std::collections::BTreeSet::new();
        for (name, _) in all() {
            assert!(seen.insert(name), "{name}");
        }
        assert_eq!(nearest("recordscount"), Some("recordcount"));
        assert_eq!(nearest("xyz"), None);
        assert!(is_binding("redis.host") && !is_binding("redis") && !is_binding("my.host"));
    }
}
