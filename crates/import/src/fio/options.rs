//! Every option of fio that Taillight knows of, one visible list: mapped, accepted because it
//! changes nothing, or refused with what it would change.
//!
//! Values are judged elsewhere; this is about names. A test asks the installed fio for its options
//! and fails when one is missing here.

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Mapped to these fields of the job file.
    Maps(&'static str),
    /// Accepted: it changes nothing here, for this reason.
    Same(&'static str),
    /// Refused, unless the value is one of these that mean "not at all".
    Refused {
        /// Values that change nothing.
        unless: &'static [&'static str],
        /// What it would change.
        changes: &'static str,
    },
}

use Effect::{Maps, Refused, Same};

const LOGS: &str = "every I/O is kept; the report and ios.parquet replace the logs";
const ALWAYS: &str = "latency is always measured and reported in full";
const MEMORY: &str = "Taillight needs no memory for it";
const RING: &str = "what is ready is submitted at once and all that is complete is reaped";
const NO: &[&str] = &["0"];

const fn refused(unless: &'static [&'static str], changes: &'static str) -> Effect {
    Refused { unless, changes }
}

/// Names (aliases after `|`, options that share a fate after a blank) and what becomes of them.
pub const OPTIONS: &[(&str, Effect)] = &[
    // Who and where.
    ("name", Maps("run.name")),
    ("description", Maps("a comment")),
    ("filename", Maps("target.path")),
    ("directory", Maps("target.path")),
    ("ioengine", Maps("target.driver, target.options.engine")),
    ("direct", Maps("target.options.direct")),
    ("buffered", Maps("target.options.direct")),
    ("size", Maps("target.size, access.length")),
    ("filesize", Maps("target.size")),
    ("offset|fileoffset", Maps("access.offset")),
    ("offset_increment", Maps("access.offset")),
    ("nrfiles|nr_files", Maps("target.options.files")),
    ("invalidate", Maps("target.options.cache")),
    ("pre_read", Maps("target.options.cache")),
    ("overwrite", Maps("target.options.layout")),
    ("unlink", Maps("target.options.keep")),
    ("fixedbufs", Maps("target.options.fixed_buffers")),
    ("registerfiles", Maps("target.options.registered_files")),
    ("hipri", Maps("target.options.iopoll")),
    ("sqthread_poll", Maps("target.options.sqpoll")),
    ("sqthread_poll_cpu", Maps("target.options.sqpoll_cpu")),
    // What.
    ("rw|readwrite", Maps("mix, access.kind")),
    ("rwmixread", Maps("mix")),
    ("rwmixwrite", Maps("mix")),
    ("bs|blocksize", Maps("block_size")),
    ("bsrange|blocksize_range", Maps("block_size")),
    ("bssplit", Maps("block_size")),
    ("ba|blockalign", Maps("access.align")),
    ("random_distribution", Maps("access")),
    ("norandommap", Maps("access.cover")),
    ("random_generator", Maps("access.cover")),
    ("randrepeat", Maps("run.seed")),
    ("allrandrepeat", Maps("run.seed")),
    ("randseed", Maps("run.seed")),
    ("file_service_type", Maps("access.kind")),
    ("sync", Maps("sync")),
    ("fsync", Maps("sync")),
    ("fdatasync", Maps("sync")),
    ("zero_buffers", Maps("payload")),
    ("buffer_pattern", Maps("payload")),
    ("buffer_compress_percentage", Maps("payload.compressible")),
    ("dedupe_percentage", Maps("payload.duplicate")),
    ("verify", Maps("verify.mode")),
    ("do_verify", Maps("verify.mode")),
    // How much and when.
    ("numjobs", Maps("workers")),
    ("iodepth", Maps("queue_depth")),
    ("io_size|io_limit", Maps("run.bytes, passes")),
    ("loops", Maps("run.bytes, passes")),
    ("number_ios", Maps("run.operations")),
    ("runtime|timeout", Maps("run.duration")),
    ("time_based", Maps("run.duration")),
    ("ramp_time", Maps("run.warmup")),
    ("rate", Maps("arrival")),
    ("rate_iops", Maps("arrival")),
    ("rate_process", Maps("arrival.kind")),
    ("thinktime", Maps("think.time")),
    ("thinktime_blocks", Maps("think.every")),
    ("cpus_allowed", Maps("cpus")),
    ("stonewall|wait_for_previous", Maps("a job of its own")),
    ("percentile_list", Maps("qos.percentiles")),
    ("kb_base", Maps("units")),
    // Nothing changes.
    (
        "group_reporting",
        Same("the workers of a workload are one row already"),
    ),
    ("new_group", Same("each workload has its own rows already")),
    ("thread", Same("workers are always threads")),
    (
        "unified_rw_reporting",
        Same("the report shows each operation and all together"),
    ),
    (
        "clat_percentiles lat_percentiles slat_percentiles stats disk_util",
        Same(ALWAYS),
    ),
    (
        "gtod_reduce disable_lat disable_clat disable_slat disable_bw_measurement|disable_bw \
         gtod_cpu clocksource",
        Same(ALWAYS),
    ),
    (
        "significant_figures unit_base block_error_percentiles",
        Same("only fio's own output"),
    ),
    (
        "write_bw_log write_lat_log write_iops_log write_hist_log write_iolog bwavgtime iopsavgtime \
         log_avg_msec log_hist_msec log_hist_coarseness log_max_value log_offset log_prio \
         log_compression log_compression_cpus log_store_compressed log_unix_epoch \
         log_alternate_epoch log_alternate_epoch_clock_id log_entries per_job_logs",
        Same(LOGS),
    ),
    ("softrandommap", Same(MEMORY)),
    (
        "refill_buffers scramble_buffers",
        Same("no two writes carry the same bytes"),
    ),
    (
        "buffer_compress_chunk",
        Same("every part of a block compresses alike"),
    ),
    (
        "iodepth_batch|iodepth_batch_submit iodepth_batch_complete_min|iodepth_batch_complete \
         iodepth_batch_complete_max",
        Same(RING),
    ),
    (
        "nonvectored userspace_reap",
        Same("how fio calls the kernel, not what it asks"),
    ),
    (
        "create_serialize create_fsync openfiles",
        Same("files are made and opened before the run"),
    ),
    (
        "fallocate",
        Same("files that are read are filled with real data; others grow as written"),
    ),
    (
        "allow_file_create lockfile",
        Same("Taillight guards its files itself"),
    ),
    (
        "verify_async verify_dump experimental_verify",
        Same("how fio checks, not what"),
    ),
    (
        "continue_on_error error_dump",
        Same("failed I/Os are recorded and the run goes on"),
    ),
    (
        "rate_cycle|ratecycle",
        Same("every I/O has its own due time"),
    ),
    (
        "cpus_allowed_policy",
        Same("each worker is pinned to one CPU of the list"),
    ),
    (
        "serialize_overlap",
        Same("the check knows of writes in flight"),
    ),
    // Refused: the target.
    (
        "filename_format unique_filename",
        refused(&[], "the names of the files"),
    ),
    ("opendir", refused(&[], "which files are used")),
    (
        "fill_device|fill_fs",
        refused(NO, "the run to end when the device is full"),
    ),
    (
        "file_append",
        refused(NO, "the place of writes: behind what is there"),
    ),
    ("offset_align", refused(NO, "the start of the extent")),
    (
        "create_on_open",
        refused(NO, "files to be made while measuring"),
    ),
    (
        "create_only",
        refused(NO, "the run to lay out files and measure nothing"),
    ),
    (
        "unlink_each_loop",
        refused(NO, "files to be deleted while measuring"),
    ),
    (
        "allow_mounted_write",
        refused(NO, "the guard: Taillight asks for --destroy TARGET instead"),
    ),
    (
        "fadvise_hint",
        refused(&["1"], "what the kernel is told of the pattern"),
    ),
    ("atomic", refused(NO, "writes to be atomic")),
    (
        "uncached",
        refused(NO, "pages to leave the cache after each I/O"),
    ),
    ("nowait", refused(NO, "I/O to fail instead of waiting")),
    (
        "force_async",
        refused(NO, "I/O to be handed to kernel threads"),
    ),
    (
        "cmd_type",
        refused(&[], "the interface to NVMe passthrough"),
    ),
    (
        "hipri_percentage",
        refused(NO, "a share of I/O to be polled"),
    ),
    (
        "write_hint",
        refused(&["none"], "the lifetime hint of writes"),
    ),
    (
        "ioscheduler",
        refused(&[], "a setting of the machine; set it before the run"),
    ),
    (
        "zonemode zonesize zonecapacity zonerange zoneskip read_beyond_wp max_open_zones \
         job_max_open_zones ignore_zone_limits zone_reset_threshold zone_reset_frequency",
        refused(&["none", "0"], "the order of offsets on a zoned device"),
    ),
    // Refused: the pattern.
    (
        "bs_unaligned|blocksize_unaligned",
        refused(NO, "sizes that divide by nothing"),
    ),
    (
        "rw_sequencer",
        refused(&["sequential"], "the order of offsets"),
    ),
    (
        "percentage_random",
        refused(&["100"], "a share of I/O to be sequential"),
    ),
    (
        "flow flow_id flow_sleep",
        refused(NO, "the share of I/O between sections"),
    ),
    (
        "io_submit_mode",
        refused(&["inline"], "which thread submits"),
    ),
    (
        "iodepth_low",
        refused(&[], "the queue to drain before it is filled again"),
    ),
    (
        "read_iolog read_iolog_chunked replay_no_stall replay_redirect replay_scale replay_align \
         replay_time_scale replay_skip merge_blktrace_file merge_blktrace_scalars \
         merge_blktrace_iters",
        refused(&[], "the I/O to be that of a recorded trace"),
    ),
    // Refused: durability and data.
    (
        "end_fsync",
        refused(
            NO,
            "bandwidth to include a sync at the end; use fsync or fdatasync",
        ),
    ),
    (
        "fsync_on_close end_syncfs",
        refused(NO, "bandwidth to include a sync at the end"),
    ),
    (
        "sync_file_range",
        refused(&[], "when dirty pages are written back"),
    ),
    ("write_barrier", refused(NO, "the order of writes")),
    (
        "dedupe_mode dedupe_working_set_percentage dedupe_global",
        refused(&["repeat"], "which earlier blocks are repeated"),
    ),
    (
        "verify_interval verify_offset verify_pattern verify_backlog verify_backlog_batch \
         verify_only verify_state_load verify_state_save trim_verify_zero trim_percentage \
         trim_backlog trim_backlog_batch verify_fatal",
        refused(NO, "what is checked, or when"),
    ),
    // Refused: time and load.
    (
        "startdelay",
        refused(NO, "the section to begin later than the others"),
    ),
    (
        "wait_for",
        refused(
            &[],
            "the section to wait for a single other one; use stonewall",
        ),
    ),
    (
        "thinktime_spin",
        refused(NO, "pauses to be spent computing"),
    ),
    (
        "thinktime_blocks_type",
        refused(&["complete"], "what is counted between pauses"),
    ),
    (
        "thinktime_iotime",
        refused(NO, "pauses by time instead of by I/Os"),
    ),
    (
        "rate_ignore_thinktime",
        refused(NO, "how a rate and pauses add up"),
    ),
    (
        "rate_min|ratemin rate_iops_min",
        refused(NO, "the run to fail below a rate"),
    ),
    (
        "max_latency",
        refused(NO, "the run to end at one slow I/O; see [qos] ceilings"),
    ),
    (
        "latency_target latency_window latency_percentile latency_run",
        refused(NO, "the queue depth while running; see [search]"),
    ),
    (
        "steadystate|ss steadystate_duration|ss_dur steadystate_ramp_time|ss_ramp",
        refused(NO, "when the run ends"),
    ),
    (
        "exitall exit_what exitall_on_error",
        refused(NO, "when the other sections end"),
    ),
    ("ignore_error", refused(&[], "which errors count")),
    (
        "exec_prerun exec_postrun",
        refused(&[], "a command to run; run it yourself"),
    ),
    // Refused: the machine.
    (
        "cpumask",
        refused(&[], "the CPUs of the workers; write cpus_allowed"),
    ),
    (
        "numa_cpu_nodes numa_mem_policy",
        refused(&[], "memory and CPU placement; use numactl"),
    ),
    (
        "mem|iomem",
        refused(&["malloc"], "the kind of memory of the buffers"),
    ),
    (
        "hugepage-size iomem_align|mem_align",
        refused(NO, "the memory of the buffers"),
    ),
    ("lockmem", refused(NO, "the free memory of the machine")),
    (
        "nice prio prioclass cmdprio_percentage cmdprio_class cmdprio cmdprio_bssplit",
        refused(NO, "the priority of the load"),
    ),
    (
        "cgroup cgroup_nodelete cgroup_weight uid gid",
        refused(&[], "as whom or where it runs"),
    ),
    ("profile", refused(&[], "the whole job")),
];

/// One name with its aliases.
fn groups(names: &'static str) -> impl Iterator<Item = &'static str> {
    names.split_whitespace()
}

/// The first name of an option, by any of its names.
pub fn first_name(written: &str) -> Option<&'static str> {
    OPTIONS
        .iter()
        .flat_map(|(names, _)| groups(names))
        .find(|group| group.split('|').any(|name| name == written))
        .and_then(|group| group.split('|').next())
}

/// What becomes of the option of that first name.
pub fn effect(name: &str) -> Option<Effect> {
    OPTIONS
        .iter()
        .find(|(names, _)| groups(names).any(|g| g.split('|').next() == Some(name)))
        .map(|(_, effect)| *effect)
}

/// "did you mean ...?" for a name nobody knows.
pub fn nearest(written: &str) -> String {
    OPTIONS
        .iter()
        .flat_map(|(names, _)| groups(names).flat_map(|g| g.split('|')))
        .map(|name| (strsim::damerau_levenshtein(written, name), name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len().min(written.len()) / 3)
        .map_or_else(
            || "look it up in fio's manual; a newer fio may have it".to_owned(),
            |(_, name)| format!("did you mean `{name}`?"),
        )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;

    #[test]
    fn no_name_is_there_twice() {
        let mut seen = BTreeSet::new();
        for (names, _) in OPTIONS {
            for name in groups(names).flat_map(|g| g.split('|')) {
                assert!(seen.insert(name), "{name}");
            }
        }
        assert_eq!(first_name("blocksize"), Some("bs"));
        assert!(matches!(effect("exitall"), Some(Refused { .. })));
    }

    #[test]
    fn the_installed_fio_has_no_option_that_is_unknown_here() {
        let ask = |arg: &str| Command::new("fio").arg(arg).output();
        let Ok(general) = ask("--cmdhelp=all") else {
            println!("skipped: the_installed_fio_has_no_option: fio is not installed");
            return;
        };
        let mut text = String::from_utf8_lossy(&general.stdout).into_owned();
        for engine in ["psync", "libaio", "io_uring", "pvsync2"] {
            if let Ok(more) = ask(&format!("--enghelp={engine}")) {
                text.push_str(&String::from_utf8_lossy(&more.stdout));
            }
        }
        let names = text.lines().filter_map(|l| {
            let (name, _) = l.split_once(':')?;
            Some(name.trim()).filter(|n| !n.is_empty() && !n.contains(' '))
        });
        let unknown: Vec<&str> = names.filter(|n| first_name(n).is_none()).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }
}
