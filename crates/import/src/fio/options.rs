//! Every option of fio that Taillight knows of: mapped, accepted because it changes nothing, or
//! refused with what it would change.
//!
//! What it is: names, with aliases after `|`. What it is not: values; `section` and its parts judge
//! those, and say what a mapped option becomes. A test asks the installed fio for its options and
//! fails when one is missing here.

use crate::effect::Effect::{self, Mapped, Same};
use crate::effect::OptionTable;

const NO: &[&str] = &["0"];
const ALWAYS: &[&str] = &[];

const fn refused(unless: &'static [&'static str], changes: &'static str) -> Effect {
    Effect::Refused { unless, changes }
}

#[rustfmt::skip]
pub const OPTIONS: OptionTable = OptionTable(&[
    // Target.
    ("name description filename directory ioengine direct buffered size filesize offset|fileoffset \
      offset_increment nrfiles|nr_files invalidate pre_read overwrite unlink fixedbufs registerfiles \
      hipri sqthread_poll sqthread_poll_cpu file_service_type kb_base", Mapped),
    // Pattern, durability and data.
    ("rw|readwrite rwmixread rwmixwrite bs|blocksize bsrange|blocksize_range bssplit ba|blockalign \
      random_distribution norandommap random_generator randrepeat allrandrepeat randseed sync fsync \
      fdatasync zero_buffers buffer_pattern buffer_compress_percentage dedupe_percentage verify \
      do_verify", Mapped),
    // How much and when.
    ("numjobs iodepth io_size|io_limit loops number_ios runtime|timeout time_based ramp_time rate \
      rate_iops rate_process thinktime thinktime_blocks thinktime_iotime cpus_allowed stonewall|wait_for_previous \
      percentile_list", Mapped),
    ("group_reporting", Same("the workers of a workload are one row already")),
    ("new_group", Same("each workload has its own rows already")),
    ("thread", Same("workers are always threads")),
    ("unified_rw_reporting", Same("the report shows each operation and all together")),
    ("clat_percentiles lat_percentiles slat_percentiles stats disk_util gtod_reduce disable_lat \
      disable_clat disable_slat disable_bw_measurement|disable_bw gtod_cpu clocksource",
     Same("latency is always measured and reported in full")),
    ("significant_figures unit_base block_error_percentiles", Same("only fio's own output")),
    ("write_bw_log write_lat_log write_iops_log write_hist_log write_iolog bwavgtime iopsavgtime \
      log_avg_msec log_hist_msec log_hist_coarseness log_max_value log_offset log_prio \
      log_compression log_compression_cpus log_store_compressed log_unix_epoch log_alternate_epoch \
      log_alternate_epoch_clock_id log_entries per_job_logs",
     Same("every I/O is kept; the report and ios.parquet replace the logs")),
    ("softrandommap", Same("Taillight needs no memory for it")),
    ("refill_buffers scramble_buffers", Same("no two writes carry the same bytes")),
    ("buffer_compress_chunk", Same("every part of a block compresses alike")),
    ("iodepth_batch|iodepth_batch_submit iodepth_batch_complete_min|iodepth_batch_complete \
      iodepth_batch_complete_max",
     Same("what is ready is submitted at once and all that is complete is reaped")),
    ("nonvectored userspace_reap", Same("how fio calls the kernel, not what it asks")),
    ("create_serialize create_fsync openfiles", Same("files are made and opened before the run")),
    ("fallocate", Same("files that are read are filled with real data; others grow as written")),
    ("allow_file_create lockfile", Same("Taillight guards its files itself")),
    ("verify_async verify_dump experimental_verify", Same("how fio checks, not what")),
    ("continue_on_error error_dump", Same("failed I/Os are recorded and the run goes on")),
    ("rate_cycle|ratecycle", Same("every I/O has its own due time")),
    ("cpus_allowed_policy", Same("each worker is pinned to one CPU of the list")),
    ("serialize_overlap", Same("the check knows of writes in flight")),
    // Refused: target.
    ("filename_format unique_filename", refused(ALWAYS, "the names of the files")),
    ("opendir", refused(ALWAYS, "which files are used")),
    ("fill_device|fill_fs", refused(NO, "the run to end when the device is full")),
    ("file_append", refused(NO, "the place of writes: behind what is there")),
    ("offset_align", refused(NO, "the start of the extent")),
    ("create_on_open", refused(NO, "files to be made while measuring")),
    ("create_only", refused(NO, "the run to lay out files and measure nothing")),
    ("unlink_each_loop", refused(NO, "files to be deleted while measuring")),
    ("allow_mounted_write", refused(NO, "the guard: Taillight asks for --destroy TARGET instead")),
    ("fadvise_hint", refused(&["1"], "what the kernel is told of the pattern")),
    ("atomic", refused(NO, "writes to be atomic")),
    ("uncached", refused(NO, "pages to leave the cache after each I/O")),
    ("nowait", refused(NO, "I/O to fail instead of waiting")),
    ("force_async", refused(NO, "I/O to be handed to kernel threads")),
    ("cmd_type", refused(ALWAYS, "the interface to NVMe passthrough")),
    ("hipri_percentage", refused(NO, "a share of I/O to be polled")),
    ("write_hint", refused(&["none"], "the lifetime hint of writes")),
    ("ioscheduler", refused(ALWAYS, "a setting of the machine; set it before the run")),
    ("zonemode zonesize zonecapacity zonerange zoneskip read_beyond_wp max_open_zones \
      job_max_open_zones ignore_zone_limits zone_reset_threshold zone_reset_frequency",
     refused(&["none", "0"], "the order of offsets on a zoned device")),
    // Refused: pattern.
    ("bs_unaligned|blocksize_unaligned", refused(NO, "sizes that divide by nothing")),
    ("rw_sequencer", refused(&["sequential"], "the order of offsets")),
    ("percentage_random", refused(&["100"], "a share of I/O to be sequential")),
    ("flow flow_id flow_sleep", refused(NO, "the share of I/O between sections")),
    ("io_submit_mode", refused(&["inline"], "which thread submits")),
    ("iodepth_low", refused(ALWAYS, "the queue to drain before it is filled again")),
    ("read_iolog read_iolog_chunked replay_no_stall replay_redirect replay_scale replay_align \
      replay_time_scale replay_skip merge_blktrace_file merge_blktrace_scalars merge_blktrace_iters",
     refused(ALWAYS, "the I/O to be that of a recorded trace")),
    // Refused: durability and data.
    ("end_fsync", refused(NO, "bandwidth to include a sync at the end; use fsync or fdatasync")),
    ("fsync_on_close end_syncfs", refused(NO, "bandwidth to include a sync at the end")),
    ("sync_file_range", refused(ALWAYS, "when dirty pages are written back")),
    ("write_barrier", refused(NO, "the order of writes")),
    ("dedupe_mode dedupe_working_set_percentage dedupe_global",
     refused(&["repeat"], "which earlier blocks are repeated")),
    ("verify_interval verify_offset verify_pattern verify_backlog verify_backlog_batch verify_only \
      verify_state_load verify_state_save trim_verify_zero trim_percentage trim_backlog \
      trim_backlog_batch verify_fatal", refused(NO, "what is checked, or when")),
    // Refused: time and load.
    ("startdelay", refused(NO, "the section to begin later than the others")),
    ("wait_for", refused(ALWAYS, "the section to wait for a single other one; use stonewall")),
    ("thinktime_spin", refused(NO, "pauses to be spent computing")),
    ("thinktime_blocks_type", refused(&["complete"], "what is counted between pauses")),
    ("rate_ignore_thinktime", refused(NO, "how a rate and pauses add up")),
    ("rate_min|ratemin rate_iops_min", refused(NO, "the run to fail below a rate")),
    ("max_latency", refused(NO, "the run to end at one slow I/O; see [qos] ceilings")),
    ("latency_target latency_window latency_percentile latency_run",
     refused(NO, "the queue depth while running; see [search]")),
    ("steadystate|ss steadystate_duration|ss_dur steadystate_ramp_time|ss_ramp",
     refused(NO, "when the run ends")),
    ("exitall exit_what exitall_on_error", refused(NO, "when the other sections end")),
    ("ignore_error", refused(ALWAYS, "which errors count")),
    ("exec_prerun exec_postrun", refused(ALWAYS, "a command to run; run it yourself")),
    // Refused: machine.
    ("cpumask", refused(ALWAYS, "the CPUs of the workers; write cpus_allowed")),
    ("numa_cpu_nodes numa_mem_policy", refused(ALWAYS, "memory and CPU placement; use numactl")),
    ("mem|iomem", refused(&["malloc"], "the kind of memory of the buffers")),
    ("hugepage-size iomem_align|mem_align", refused(NO, "the memory of the buffers")),
    ("lockmem", refused(NO, "the free memory of the machine")),
    ("nice prio prioclass cmdprio_percentage cmdprio_class cmdprio cmdprio_bssplit",
     refused(NO, "the priority of the load")),
    ("cgroup cgroup_nodelete cgroup_weight uid gid", refused(ALWAYS, "as whom or where it runs")),
    ("profile", refused(ALWAYS, "the whole job")),
]);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;

    #[test]
    fn no_name_is_there_twice() {
        let mut seen = BTreeSet::new();
        for name in OPTIONS.names() {
            assert!(seen.insert(name), "{name}");
        }
        assert_eq!(seen.len(), 257);
        assert_eq!(OPTIONS.first_name("blocksize"), Some("bs"));
        assert!(matches!(OPTIONS.effect("exitall"), Some(Effect::Refused { .. })));
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
        let unknown: Vec<&str> = names.filter(|n| OPTIONS.first_name(n).is_none()).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }
}
