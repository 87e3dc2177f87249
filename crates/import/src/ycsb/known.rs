//! Every property of YCSB's core, and those of its bindings that name a store for RocksDB or Redis: mapped, without
//! effect here, or refused. Properties of other bindings are told by their first part.
//!
//! Properties that depend on their value (a retry limit of 0 changes nothing) are listed as mapped
//! and judged in `workload`.

use crate::effect::Effect::{Mapped, Refused, Same};
use crate::effect::OptionTable;

#[rustfmt::skip]
pub const PROPERTIES: OptionTable = OptionTable(&[
    ("recordcount insertstart insertcount operationcount maxexecutiontime threadcount target \
      fieldcount fieldlength minfieldlength fieldlengthdistribution fieldlengthhistogram \
      fieldnameprefix zeropadding insertorder dataintegrity readproportion updateproportion \
      insertproportion scanproportion readmodifywriteproportion requestdistribution \
      hotspotdatafraction hotspotopnfraction exponential.percentile exponential.frac readallfields \
      writeallfields minscanlength maxscanlength scanlengthdistribution workload db rocksdb.dir redis.host \
      redis.port redis.timeout redis.cluster \
      core_workload_insertion_retry_limit", Mapped),
    ("core_workload_insertion_retry_interval",
     Same("no insert is repeated, so there is no pause before it")),
    ("core_workload_insertion_keep_going_on_error",
     Same("a failed insert is counted and the load goes on")),
    ("dotransactions",
     Same("the load and the transactions become a job each; run the one you want")),
    ("table", Same("a target holds one table: keys have no table in front of them")),
    ("readallfieldsbyname",
     Same("a read asks the store for the same bytes with and without their names")),
    ("label", Same("runs are named with --set run.name=NAME")),
    ("status status.interval",
     Same("the console shows a line for each interval (run.interval)")),
    ("spin.sleep", Same("the schedule is exact without it: a worker waits in the kernel and \
                             spins only at the end")),
    ("exporter exportfile", Same("results go into the run directory")),
    ("measurement.interval", Same("with a target rate both are measured: from the intended and \
                                       from the real start")),
    ("measurementtype measurement.histogram.verbose measurement.raw.output_file \
      measurement.raw.no_summary histogram.buckets hdrhistogram.percentiles hdrhistogram.fileoutput \
      hdrhistogram.output.path hdrhistogram.max hdrhistogram.sig timeseries.granularity",
     Same("every operation is kept with its exact latency; the report makes histograms, \
               percentiles and series from them")),
    ("measurement.trackjvm", Same("there is no Java machine to watch")),
    ("reportlatencyforeacherror latencytrackederrors",
     Same("every failure keeps its status and latency")),
    ("redis.password",
     Refused { unless: &[], changes: "a password in a file of properties is not taken over: set \
                                      REDIS_PASSWORD (docs/credentials.md)" }),
    ("rocksdb.optionsfile",
     Refused { unless: &[], changes: "it sets the options of the store; give the file with \
                                      --set target.options.options_file=PATH" }),
]);

/// First parts of the properties of YCSB's bindings.
const BINDINGS: &str = "accumulo aerospike as basicdb bigtable cassandra cloudspanner cosmos couchbase \
                        db dynamodb elasticsearch es etcd fdb foundationdb google hbase hosts hypertable \
                        ignite infinispan jdbc kudu leveldb memcached mongodb nosqldb orientdb port \
                        rados redis riak rocksdb s3 scylla solr tarantool voltdb zookeeper";

/// Whether `name` belongs to a binding, by its first part.
pub fn is_binding(name: &str) -> bool {
    let binding = |first| BINDINGS.split_whitespace().any(|b| b == first);
    name.split_once('.').is_some_and(|(first, _)| binding(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_listed_once() {
        let mut seen = std::collections::BTreeSet::new();
        for name in PROPERTIES.names() {
            assert!(seen.insert(name), "{name}");
        }
        assert_eq!(PROPERTIES.nearest("recordscount"), Some("recordcount"));
        assert_eq!(PROPERTIES.nearest("xyz"), None);
        assert!(is_binding("mongodb.url") && !is_binding("redis") && !is_binding("my.host"));
    }
}
