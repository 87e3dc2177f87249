//! The faults: what is done, and which layer it happens in.

mod beside;
mod buffered;
mod clients;
mod combined;
mod cpu;
mod crossed;
mod demand;
mod disk;
mod filesystem;
mod formats;
mod memory;
mod objects;
mod program;
mod server;
mod stacked;
mod staged;
mod stopped;
mod store;
mod varied;
mod workers;

pub use stopped::held_by_tracer;

use std::time::Duration;

use anyhow::Result;

use crate::fault_trial::FaultTrial;

/// A fault.
#[derive(Debug)]
pub struct Fault {
    pub name: &'static str,
    /// The layer to be blamed, as explain names it; several where more than one is right.
    pub layer: &'static str,
    /// Engines of the victim.
    pub engines: &'static [&'static str],
    /// How strong, ms: two amplitudes.
    pub ms: [u64; 2],
    /// How long the victim runs.
    pub runtime: Duration,
    /// Each I/O of the victim has block I/O of its own.
    pub blocks: bool,
    /// Makes stage and victim, and does it until the victim's end.
    pub run: fn(&mut FaultTrial<'_>) -> Result<()>,
}

const BOTH: &[&str] = &["sync", "uring"];
const SERVERS: &[&str] = &["redis", "s3"];
const STORES: &[&str] = &["rocksdb", "leveldb"];
const SHORT: Duration = Duration::from_millis(3500);

const fn fault(
    name: &'static str,
    layer: &'static str,
    run: fn(&mut FaultTrial<'_>) -> Result<()>,
) -> Fault {
    Fault { name, layer, engines: BOTH, ms: [20, 100], runtime: SHORT, blocks: false, run }
}

/// The same where each I/O of the victim is direct, to a device.
const fn block(
    name: &'static str,
    layer: &'static str,
    run: fn(&mut FaultTrial<'_>) -> Result<()>,
) -> Fault {
    Fault { blocks: true, ..fault(name, layer, run) }
}

/// All of them.
pub const FAULTS: &[Fault] = &[
    block("clean", "none", disk::clean),
    block("cgroup-io", "throttle", disk::cgroup_io),
    block("slow-device", "device", disk::slow_device),
    block("tags", "block_queue", disk::tags),
    fault("slow-fuse", "file_system", filesystem::slow_fuse),
    block("freeze-ext4", "file_system", filesystem::freeze_ext4),
    block("freeze-xfs", "file_system", filesystem::freeze_xfs),
    block("journal", "file_system", filesystem::journal),
    fault("cpu-quota", "cpu", cpu::quota),
    block("spinners", "cpu|device", cpu::spinners),
    block("rt-hog", "cpu", cpu::hog),
    block("stop", "stopped", stopped::signals),
    block("freezer", "stopped", stopped::freezer),
    fault("dirty", "page_cache", memory::dirty),
    fault("evict", "page_cache", memory::evict),
    fault("reclaim", "page_cache", memory::reclaim),
    block("pause", "application", program::pause),
    Fault { engines: &["uring"], ..block("io-workers", "io_uring", workers::few) },
    Fault { engines: &["rocksdb"], ..fault("stall", "store", store::stall) },
    Fault { engines: &["redis"], ..fault("slow-server", "server", store::slow_server) },
    Fault { ms: [2, 5], ..block("brief-device", "device", disk::slow_device) },
    block("lower-limit", "throttle", disk::lower_limit),
    Fault { engines: &["uring"], ..block("late-completion", "cpu", cpu::late_completion) },
    block("file-lock", "file_system", filesystem::file_lock),
    fault("dirty-file", "page_cache", memory::dirty_file),
    Fault { engines: &["uring"], ..block("stop-workers", "stopped", stopped::workers) },
    Fault { engines: &["redis"], ..fault("stopped-server", "server", store::stopped_server) },
    Fault { engines: &["redis"], ..fault("frozen-server", "server", store::frozen_server) },
    Fault { engines: &["redis"], ..fault("busy-server", "server", store::busy_server) },
    Fault { engines: &["redis"], ..fault("slow-network", "server", store::slow_network) },
    Fault { engines: &["s3"], ..fault("stopped-objects", "server", objects::stopped_objects) },
    Fault { engines: &["rocksdb"], ..fault("slow-gets", "device", store::slow_gets) },
    Fault { engines: &["rocksdb"], ..fault("slow-syncs", "device|store", store::slow_syncs) },
    Fault { ms: [5, 10], ..block("brief-limit", "throttle", disk::cgroup_io) },
    Fault { ms: [2, 5], ..block("brief-stop", "stopped", stopped::signals) },
    block("slow-ramp", "device", disk::slow_ramp),
    block("two-faults", "device|stopped", disk::two_faults),
    block("reads-first", "block_queue", disk::reads_first),
    block("idle-class", "block_queue", disk::idle_class),
    block("writeback", "block_queue", disk::writeback),
    block("insert-range", "file_system", filesystem::insert_range),
    block("xfs-log", "file_system", filesystem::xfs_log),
    block("btrfs", "file_system", filesystem::btrfs),
    block("lower-freeze", "file_system", filesystem::lower_freeze),
    block("lower-dirty", "page_cache", memory::lower_dirty),
    block("swap", "page_cache", memory::swap),
    Fault { engines: &["uring"], ..block("hog-workers", "cpu", cpu::workers) },
    Fault { engines: &["uring"], ..block("pids", "io_uring", workers::pids) },
    block("traced", "stopped", stopped::traced),
    block("deep-device", "device", disk::deep_device),
    block("deep-limit", "throttle", disk::deep_limit),
    fault("cold-reads", "device", disk::cold_reads),
    Fault { engines: &["uring"], ..block("sqpoll-device", "device", disk::polled_submission) },
    Fault { engines: &["uring"], ..block("sqpoll-hog", "cpu", cpu::polling) },
    block("idle-policy", "cpu", cpu::idle_policy),
    Fault { engines: STORES, ..fault("store-freeze", "file_system", store::frozen_files) },
    Fault { engines: STORES, ..fault("store-stop", "stopped", store::stopped_store) },
    Fault { engines: &["rocksdb"], ..fault("store-limit", "throttle", store::limited_gets) },
    Fault { engines: &["s3"], ..fault("object-network", "server", objects::slow_object_network) },
    block("loop-worker", "cpu", cpu::loop_worker),
    block("committer", "cpu", cpu::committer),
    block("one-frozen", "stopped", stopped::one_thread),
    Fault { engines: &["uring"], ..block("sqpoll-stop", "stopped", stopped::polled) },
    Fault { engines: &["uring"], ..block("sqpoll-limit", "throttle", disk::polled_limit) },
    block("lower-tags", "block_queue", disk::lower_tags),
    block("overlay", "device", disk::overlay),
    fault("sync-limit", "throttle", buffered::sync_limit),
    fault("cold-limit", "throttle", buffered::cold_limit),
    fault("sync-device", "device", buffered::sync_device),
    fault("sync-device-xfs", "device", buffered::sync_device_xfs),
    fault("read-ahead", "device|page_cache", buffered::read_ahead),
    fault("buffered-freeze", "file_system", buffered::freeze),
    Fault { engines: &["redis"], ..fault("hogged-server", "server", store::hogged_server) },
    block("switched", "block_queue", beside::switched),
    block("lower-switched", "block_queue", beside::lower_switched),
    block("flush-beside", "device", beside::flush),
    block("ordered", "file_system", beside::ordered),
    block("lower-journal", "file_system", beside::lower_journal),
    block("lower-lock", "file_system", beside::lower_lock),
    block("scanner", "file_system", beside::scanner),
    block("shared-limit", "throttle", beside::shared_limit),
    block("paced", "device", demand::paced),
    block("bursts", "schedule", demand::bursts),
    fault("same-pages", "device|page_cache", beside::same_pages),
    fault("stable-pages", "device|page_cache", beside::stable_pages),
    fault("writeback-limit", "throttle|block_queue", beside::writeback_limit),
    block("slow-trim", "device", beside::slow_trim),
    block("durable", "device", beside::durable),
    Fault { engines: &["rocksdb"], ..fault("frozen-flush", "store|stopped", store::frozen_flush) },
    block("group-weight", "block_queue", disk::group_weight),
    block("other-partition", "block_queue", disk::other_partition),
    fault("real-time-quota", "cpu", cpu::real_time_quota),
    block("preempted-holder", "file_system", cpu::preempted_holder),
    fault("short-journal", "file_system", filesystem::short_journal),
    block("cloned", "file_system", filesystem::cloned),
    block("trimmed", "device", beside::trimmed),
    fault("compressed", "device|page_cache", buffered::compressed),
    fault("encrypted", "device|page_cache", buffered::encrypted),
    fault("partial-writes", "device|page_cache", buffered::partial_writes),
    Fault { engines: STORES, ..fault("mapped-gets", "device|page_cache", store::mapped_gets) },
    Fault { engines: &["rocksdb"], ..fault("braked", "store", store::braked) },
    Fault { engines: &["redis"], ..fault("lost-packets", "server", server::lost_packets) },
    Fault { engines: &["redis"], ..fault("paused-clients", "server", server::paused_clients) },
    Fault { engines: &["redis"], ..fault("server-syncs", "server", server::server_syncs) },
    Fault { engines: &["redis"], ..fault("limited-server", "server", server::limited_server) },
    Fault { engines: &["redis"], ..fault("shared-network", "server", server::shared_network) },
    block("saturated", "schedule", demand::saturated),
    block("mirror", "device", disk::mirror),
    block("kyber", "block_queue", disk::kyber),
    block("real-time-class", "block_queue", disk::real_time_class),
    fault("busy-fuse", "file_system", filesystem::busy_fuse),
    block("external-journal", "file_system|device", filesystem::external_journal),
    block("limited-holder", "file_system", beside::limited_holder),
    fault("cached-lock", "file_system", filesystem::cached_lock),
    block("light-group", "cpu", cpu::light_group),
    block("unified-freezer", "stopped", stopped::unified_freezer),
    Fault {
        engines: &["rocksdb"],
        ..fault("frozen-writer", "store|stopped", store::frozen_writer)
    },
    Fault { engines: &["leveldb"], ..fault("slow-flush", "store", store::slow_flush) },
    Fault { engines: &["redis"], ..fault("swapped-server", "server", server::swapped_server) },
    Fault { engines: &["s3"], ..fault("lost-objects", "server", objects::lost_objects) },
    Fault { engines: &["s3"], ..fault("limited-objects", "server", objects::limited_objects) },
    Fault { engines: &["rocksdb"], ..fault("log-disk", "device|store", store::log_disk) },
    Fault { engines: &["redis"], ..fault("sleeping-server", "server", store::sleeping_server) },
    Fault { engines: &["s3"], ..fault("hogged-objects", "server", objects::hogged_objects) },
    block("one-cpu", "cpu", cpu::one_cpu),
    block("overlay-freeze", "file_system", disk::overlay_freeze),
    block("durable-limit", "throttle", disk::durable_limit),
    block("resized", "block_queue", beside::resized),
    block("lower-freeze-xfs", "file_system", filesystem::lower_freeze_xfs),
    Fault { ms: [5, 10], ..block("brief-freeze", "file_system", filesystem::freeze_ext4) },
    Fault { ms: [5, 10], ..block("brief-hog", "cpu", cpu::hog) },
    Fault { engines: SERVERS, ..fault("stopped-client", "stopped", clients::stopped_client) },
    Fault { engines: SERVERS, ..fault("limited-client", "cpu", clients::limited_client) },
    Fault { engines: SERVERS, ..fault("hogged-client", "cpu", clients::hogged_client) },
    Fault { engines: STORES, ..fault("hogged-store", "cpu", clients::hogged_store) },
    Fault { engines: STORES, ..fault("limited-store", "cpu", clients::limited_store) },
    Fault { engines: &["leveldb"], ..fault("store-syncs", "device|store", store::slow_syncs) },
    block("nested", "device", disk::nested),
    fault("swapped-file", "page_cache|device", memory::swapped_file),
    fault("sync-device-btrfs", "device", buffered::sync_device_btrfs),
    fault("sync-limit-xfs", "throttle", buffered::sync_limit_xfs),
    block("without-journal", "device", beside::without_journal),
    block("summed", "device", crossed::summed),
    block("summed-limit", "throttle", crossed::summed_limit),
    block("growing", "device", crossed::growing),
    block("growing-limit", "throttle", crossed::growing_limit),
    block("truncated", "file_system", crossed::truncated),
    fault("sync-freeze", "file_system", crossed::sync_freeze),
    fault("sync-stop", "stopped", crossed::sync_stop),
    fault("sync-hog", "cpu", crossed::sync_hog),
    fault("sync-quota", "cpu", crossed::sync_quota),
    fault("overlay-syncs", "device", crossed::overlay_syncs),
    fault("cold-hog", "cpu", crossed::cold_hog),
    fault("cold-frozen", "stopped", crossed::cold_frozen),
    Fault {
        engines: STORES,
        ..fault("store-sync-limit", "throttle|store", crossed::store_sync_limit)
    },
    block("summed-hog", "cpu", crossed::summed_hog),
    block("growing-freeze", "file_system", crossed::growing_freeze),
    block("growing-stop", "stopped", crossed::growing_stop),
    block("truncated-xfs", "file_system", crossed::truncated_xfs),
    fault("sync-limit-btrfs", "throttle", crossed::sync_limit_btrfs),
    fault("sync-frozen", "stopped", crossed::sync_frozen),
    block("durable-freeze", "file_system", crossed::durable_freeze),
    fault("overlay-sync-freeze", "file_system", crossed::overlay_sync_freeze),
    block("overlay-limit", "throttle", crossed::overlay_limit),
    fault("cold-file", "device|page_cache", crossed::cold_file),
    fault("cold-quota", "cpu", crossed::cold_quota),
    block("large-limit", "throttle", disk::large_limit),
    block("mixed-freeze", "file_system", crossed::mixed_freeze),
    block("mixed-device", "device", crossed::mixed_device),
    block("mixed-limit", "throttle", crossed::mixed_limit),
    block("paced-stop", "stopped|schedule", crossed::paced_stop),
    block("paced-limit", "throttle|schedule", crossed::paced_limit),
    Fault { engines: &["uring"], ..block("polled-freeze", "file_system", crossed::polled_freeze) },
    block("durable-hog", "cpu", crossed::durable_hog),
    block("durable-stop", "stopped", crossed::durable_stop),
    fault("cold-stop", "stopped", crossed::cold_stop),
    block("punched", "file_system", crossed::punched),
    Fault {
        engines: STORES,
        ..fault("store-syncs-btrfs", "device|store", crossed::store_syncs_btrfs)
    },
    Fault { engines: &["s3"], ..fault("frozen-objects", "server", objects::frozen_objects) },
    fault("cached-durable", "device", formats::cached_durable),
    fault("cached-durable-limit", "throttle", formats::cached_durable_limit),
    fault("cached-durable-freeze", "file_system", formats::cached_durable_freeze),
    fault("growing-syncs", "device", formats::growing_syncs),
    fault("journaled", "device|file_system", formats::journaled),
    block("striped", "device", formats::striped),
    block("large", "device", formats::large),
    fault("large-syncs-limit", "throttle", formats::large_syncs_limit),
    fault("growing-syncs-limit", "throttle", formats::growing_syncs_limit),
    fault("growing-syncs-xfs", "device", formats::growing_syncs_xfs),
    fault("growing-syncs-freeze", "file_system", formats::growing_syncs_freeze),
    fault("cached-durable-frozen", "stopped", formats::cached_durable_frozen),
    fault("cached-durable-hog", "cpu", formats::cached_durable_hog),
    fault("ext2-limit", "throttle", formats::ext2_limit),
    block("large-freeze", "file_system", formats::large_freeze),
    fault("large-cold", "device|page_cache", formats::large_cold),
    fault("striped-syncs", "device", formats::striped_syncs),
    Fault {
        engines: &["uring"],
        ..fault("polled-cold", "device|page_cache", formats::polled_cold)
    },
    Fault { engines: &["uring"], ..block("polled-durable", "device", formats::polled_durable) },
    block("paced-freeze", "file_system|schedule", formats::paced_freeze),
    fault("without-journal-limit", "throttle", formats::without_journal_limit),
    Fault { engines: STORES, ..fault("store-syncs-xfs", "device|store", formats::store_syncs_xfs) },
    Fault { engines: &["redis"], ..fault("pooled-server", "server", store::pooled_server) },
    Fault { engines: &["s3"], ..fault("large-objects", "server", objects::large_objects) },
    fault("lower-limit-syncs", "throttle", stacked::lower_limit_syncs),
    fault("lower-freeze-syncs", "file_system", stacked::lower_freeze_syncs),
    fault("nested-syncs", "device", stacked::nested_syncs),
    fault("lower-limit-cold", "throttle", stacked::lower_limit_cold),
    fault("overlay-cold", "device|page_cache", stacked::overlay_cold),
    block("durable-btrfs", "device", stacked::durable_btrfs),
    block("durable-limit-btrfs", "throttle", stacked::durable_limit_btrfs),
    block("mixed-hog", "cpu", stacked::mixed_hog),
    block("mixed-stop", "stopped", stacked::mixed_stop),
    Fault {
        engines: &["uring"],
        ..fault("polled-cold-limit", "throttle", stacked::polled_cold_limit)
    },
    Fault { engines: &["uring"], ..fault("polled-cold-hog", "cpu", stacked::polled_cold_hog) },
    Fault { engines: &["redis"], ..fault("saving-server", "server", stacked::saving_server) },
    Fault {
        engines: STORES,
        ..fault("store-sync-freeze", "file_system", stacked::store_sync_freeze)
    },
    Fault { engines: STORES, ..fault("store-sync-hog", "cpu", stacked::store_sync_hog) },
    block("large-hog", "cpu", stacked::large_hog),
    block("growing-hog", "cpu", stacked::growing_hog),
    block("paced-hog", "cpu|schedule", stacked::paced_hog),
    fault("paced-syncs", "device", stacked::paced_syncs),
    Fault { engines: &["redis"], ..fault("pipelined-server", "server", stacked::pipelined_server) },
    Fault {
        engines: &["redis"],
        ..fault("pipelined-client", "stopped", stacked::pipelined_client)
    },
    fault("loop-worker-syncs", "cpu", stacked::loop_worker_syncs),
    fault("flushed-buffers", "device|page_cache", varied::flushed_buffers),
    Fault { engines: &["uring"], ..block("deep-queue", "device", varied::deep_queue) },
    block("many-files-freeze", "file_system", varied::many_files_freeze),
    block("trims-hog", "cpu", varied::trims_hog),
    block("trims-stop", "stopped", varied::trims_stop),
    fault("eighth-synced", "device", varied::eighth_synced),
    Fault { engines: &["s3"], ..fault("pooled-objects", "server", varied::pooled_objects) },
    Fault { engines: &["rocksdb"], ..fault("slow-scans", "device", varied::slow_scans) },
    Fault { engines: &["rocksdb"], ..fault("scans-limit", "throttle", varied::scans_limit) },
    Fault { engines: STORES, ..fault("store-mixed", "device|store", varied::store_mixed) },
    block("crowded-device", "device", varied::crowded_device),
    fault("crowded-syncs", "device", varied::crowded_syncs),
    block("crowded-freeze", "file_system", varied::crowded_freeze),
    block("crowded-quota", "cpu", varied::crowded_quota),
    fault("single-syncs-limit", "throttle", varied::single_syncs_limit),
    fault("single-syncs", "device", varied::single_syncs),
    block("snapshots", "device|file_system", varied::snapshots),
    block("lower-limit-durable", "throttle", combined::lower_limit_durable),
    block("nested-durable", "device", combined::nested_durable),
    block("overlay-hog", "cpu", combined::overlay_hog),
    block("overlay-stop", "stopped", combined::overlay_stop),
    Fault { engines: &["uring"], ..fault("polled-syncs", "device", combined::polled_syncs) },
    Fault {
        engines: &["uring"],
        ..block("polled-durable-limit", "throttle", combined::polled_durable_limit)
    },
    block("mixed-quota", "cpu", combined::mixed_quota),
    fault("mixed-cached", "device|page_cache", combined::mixed_cached),
    block("crowded-limit", "throttle", combined::crowded_limit),
    block("crowded-lock", "file_system", combined::crowded_lock),
    Fault { engines: STORES, ..fault("store-sync-stop", "stopped", combined::store_sync_stop) },
    Fault {
        engines: STORES,
        ..fault("store-freeze-btrfs", "file_system", combined::store_freeze_btrfs)
    },
    Fault { engines: &["rocksdb"], ..fault("scans-stop", "stopped", combined::scans_stop) },
    Fault {
        engines: &["redis"],
        ..fault("pipelined-network", "server", combined::pipelined_network)
    },
    Fault { engines: &["redis"], ..fault("pipelined-hog", "cpu", combined::pipelined_hog) },
    Fault {
        engines: &["s3"],
        ..fault("large-objects-stop", "server", combined::large_objects_stop)
    },
    Fault {
        engines: &["s3"],
        ..fault("large-objects-client", "stopped", combined::large_objects_client)
    },
    fault("growing-cached-freeze", "file_system", combined::growing_cached_freeze),
    block("limit-and-stop", "throttle|stopped", combined::limit_and_stop),
    block("striped-limit", "throttle", staged::striped_limit),
    fault("mirror-syncs", "device", staged::mirror_syncs),
    fault("encrypted-syncs", "device", staged::encrypted_syncs),
    fault("overlay-cold-limit", "throttle", staged::overlay_cold_limit),
    block("overlay-durable", "device", staged::overlay_durable),
    fault("nested-cold", "device|page_cache", staged::nested_cold),
    fault("loop-worker-cold", "cpu", staged::loop_worker_cold),
    block("growing-durable", "device", staged::growing_durable),
    block("growing-durable-limit", "throttle", staged::growing_durable_limit),
    Fault { engines: &["sync"], ..block("crowded-durable", "device", staged::crowded_durable) },
    fault("crowded-sync-limit", "throttle", staged::crowded_sync_limit),
    fault("crowded-sync-freeze", "file_system", staged::crowded_sync_freeze),
    block("crowded-hog", "cpu", staged::crowded_hog),
    Fault {
        engines: &["uring"],
        ..fault("polled-cached-freeze", "file_system", staged::polled_cached_freeze)
    },
    Fault { engines: &["uring"], ..block("polled-quota", "cpu", staged::polled_quota) },
    Fault { engines: &["rocksdb"], ..fault("scans-hog", "cpu", staged::scans_hog) },
    Fault {
        engines: STORES,
        ..fault("store-mixed-limit", "throttle|store", staged::store_mixed_limit)
    },
    Fault { engines: STORES, ..fault("crowded-store", "device|store", staged::crowded_store) },
    Fault { engines: &["redis"], ..fault("pipelined-lossy", "server", staged::pipelined_lossy) },
    Fault {
        engines: &["s3"],
        ..fault("lossy-large-objects", "server", staged::lossy_large_objects)
    },
    fault("swap-syncs", "page_cache", staged::swap_syncs),
    fault("overlay-fuse", "file_system", filesystem::overlay_fuse),
];

pub fn find(name: &str) -> Option<&'static Fault> {
    FAULTS.iter().find(|f| f.name == name)
}
