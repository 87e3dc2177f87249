//! Every option of fio that Taillight knows of: mapped, accepted without effect on the load (with the reason, or what
//! is different), or refused with what it would change.
//!
//! Names have aliases after `|`. Values are judged by `section` and its parts, which say what a mapped option becomes.
//! A test asks the installed fio for its options, with those of four engines, and fails when one is missing here.

use crate::effect::Effect::{self, Becomes, Same};
use crate::effect::OptionTable;

const NO: &[&str] = &["0"];
const ALWAYS: &[&str] = &[];

const fn refused(unless: &'static [&'static str], changes: &'static str) -> Effect {
    Effect::Refused { unless, changes }
}

const fn only(values: &'static [&'static str], why: &'static str, changes: &'static str) -> Effect {
    Effect::Only { values, why, changes }
}

#[rustfmt::skip]
pub const OPTIONS: OptionTable = OptionTable(&[
    // Target.
    ("filename directory filename_format opendir", Becomes("target.path")),
    ("ioengine", Becomes("target.driver, options.engine")),
    ("direct buffered", Becomes("options.direct")),
    ("size filesize nrfiles|nr_files fill_device|fill_fs", Becomes("target.size, options.files")),
    ("offset|fileoffset offset_increment file_append", Becomes("access.offset, access.length")),
    ("invalidate pre_read", Becomes("options.cache")),
    ("fadvise_hint", Becomes("options.read_ahead")),
    ("overwrite", Becomes("options.layout")),
    ("unlink", Becomes("options.keep, options.unlink")),
    ("unlink_each_loop", Becomes("a run for each pass")),
    ("fixedbufs", Becomes("options.fixed_buffers")),
    ("registerfiles", Becomes("options.registered_files")),
    ("hipri", Becomes("options.iopoll")),
    ("sqthread_poll sqthread_poll_cpu", Becomes("options.sqpoll, options.sqpoll_cpu")),
    ("iodepth_batch|iodepth_batch_submit", Becomes("options.submit_batch")),
    ("force_async", Becomes("options.force_async")),
    ("allow_file_create ioscheduler", Becomes("a check before the run")),
    ("create_only", Becomes("a layout without a run")),
    ("create_on_open", Becomes("options.layout")),
    ("file_service_type openfiles", Becomes("access.files")),
    // Pattern, durability and data.
    ("rw|readwrite rwmixread rwmixwrite", Becomes("mix, access.kind")),
    ("rw_sequencer", Becomes("access.kind")),
    ("bs|blocksize bsrange|blocksize_range bssplit bs_unaligned|blocksize_unaligned bs_is_seq_rand", Becomes("block_size")),
    ("zonemode zonesize zonerange zoneskip", Becomes("access.stride, access.run_length")),
    ("steadystate|ss steadystate_duration|ss_dur steadystate_ramp_time|ss_ramp steadystate_check_interval|ss_interval",
     Becomes("run.steady")),
    ("ba|blockalign", Becomes("access.align")),
    ("random_distribution", Becomes("access")),
    ("norandommap random_generator", Becomes("access.cover")),
    ("percentage_random", Becomes("access.sequential_percent")),
    ("randrepeat allrandrepeat randseed", Becomes("run.seed")),
    ("sync fsync fdatasync", Becomes("sync")),
    ("end_fsync fsync_on_close", Becomes("end_fsync")),
    ("zero_buffers buffer_pattern buffer_compress_percentage dedupe_percentage", Becomes("payload")),
    ("verify do_verify verify_backlog verify_pattern", Becomes("verify.mode")),
    // How much and when.
    ("numjobs", Becomes("workers")),
    ("iodepth", Becomes("queue_depth")),
    ("io_size|io_limit loops", Becomes("run.bytes; a run for each pass that is checked or synced")),
    ("number_ios", Becomes("run.operations")),
    ("runtime|timeout time_based", Becomes("run.duration")),
    ("ramp_time", Becomes("run.warmup, workload.warmup")),
    ("rate rate_iops rate_process", Becomes("arrival")),
    ("thinktime thinktime_blocks thinktime_iotime", Becomes("think")),
    ("flow flow_id flow_sleep", Becomes("workload.flow")),
    ("lockmem", Becomes("run.lock_memory")),
    ("exitall exit_what", Becomes("workload.ends_run, workload.ends_with")),
    ("nice prio prioclass cmdprio_class cmdprio", Becomes("nice, io_priority")),
    ("cmdprio_percentage", Becomes("io_priority; a workload for each priority, workload.flow")),
    ("cpus_allowed cpus_allowed_policy cpumask numa_cpu_nodes numa_mem_policy", Becomes("cpus")),
    ("stonewall|wait_for_previous wait_for startdelay", Becomes("the order of the jobs, workload.start_delay")),
    ("percentile_list", Becomes("qos.percentiles")),
    ("kb_base", Becomes("sizes")),
    ("name", Becomes("run.name")),
    // No effect on the load; some change rows of the JSON.
    ("description", Same("a comment")),
    ("group_reporting new_group", Becomes("workload.reported_with: rows of --output-format=json; the report has each workload")),
    ("unified_rw_reporting", Becomes("workload.unified: rows of --output-format=json")),
    ("thread|threads", Same("workers are always threads")),
    ("clat_percentiles lat_percentiles slat_percentiles stats disk_util gtod_reduce disable_lat \
      disable_clat disable_slat disable_bw_measurement|disable_bw gtod_cpu clocksource",
     Same("latency is always measured and reported in full")),
    ("significant_figures unit_base block_error_percentiles", Same("only fio's own output")),
    ("write_bw_log write_lat_log write_iops_log write_hist_log write_iolog bwavgtime iopsavgtime \
      log_avg_msec log_hist_msec log_hist_coarseness log_max_value log_offset log_prio \
      log_compression log_compression_cpus log_store_compressed log_unix_epoch log_alternate_epoch \
      log_alternate_epoch_clock_id log_entries log_issue_time log_window_value|log_window per_job_logs",
     Same("every I/O is kept; the report and ios.parquet replace the logs")),
    ("softrandommap", Same("Taillight needs no memory for it")),
    ("refill_buffers scramble_buffers", Same("no two writes carry the same bytes")),
    ("dedupe_mode dedupe_working_set_percentage dedupe_global",
     Same("as many blocks repeat an earlier one; which one, is drawn from all of them")),
    ("buffer_compress_chunk", Same("every part of a block compresses alike")),
    ("iodepth_batch_complete_min|iodepth_batch_complete iodepth_batch_complete_max iodepth_low",
     Same("all that is complete is reaped, and a place in the queue that is free is filled at once: the queue is \
           never emptier than fio's, which waits for so many")),
    ("nonvectored userspace_reap", Same("how fio calls the kernel, not what it asks")),
    ("create_serialize create_fsync", Same("files are made before the run")),
    ("fallocate", Same("files that are read are filled with real data; others grow as written")),
    ("unique_filename", Same("only fio's clients and servers ask for it")),
    ("verify_async verify_async_cpus verify_dump experimental_verify verify_interval verify_offset \
      verify_state_save verify_backlog_batch verify_write_sequence verify_header_seed", Same("how fio checks; here it is Taillight's own check")),
    ("verify_fatal", Same("a block that is wrong fails the run; all of them are counted before")),
    ("continue_on_error error_dump ignore_error exitall_on_error",
     Same("failed I/Os are counted apart, and the run goes on")),
    ("rate_cycle|ratecycle", Same("every I/O has its own due time")),
    ("rate_min|ratemin rate_iops_min",
     Same("fio ends the job where the rate falls below it; here the run goes on, and the verdict `saturated` says so")),
    ("max_latency", Same("fio ends the job at the first I/O that is slower; here the run goes on, the report names the slowest, and \
      --ceiling is a limit that is judged")),
    ("io_submit_mode", only(&["inline", "offload"],
     "every I/O of a rate has a due time, and its latency counts from there whoever submits it", "which thread submits")),
    ("serialize_overlap", Same("the check knows of writes in flight")),
    ("exec_prerun exec_postrun",
     Same("NOT executed: Taillight runs no command of a job file; run it yourself, if it matters")),
    ("mem|iomem", only(&["malloc", "shm", "shmhuge", "mmap", "mmaphuge", "mmapshared"],
     "buffers lie in huge pages where there are some", "where buffers lie")),
    ("iomem_align|mem_align", Same("buffers begin at a page")),
    ("allow_mounted_write", Same("Taillight's guard looks at every target, and asks for --destroy TARGET")),
    ("hugepage-size", Same("buffers lie in huge pages of the size that the kernel has")),
    ("lockfile", only(&["none"], "no file is locked beside the I/O", "the I/Os that run at the same time")),
    // Refused: target.
    ("offset_align", refused(NO, "the start of the extent")),
    ("atomic", refused(NO, "writes to be atomic")),
    ("uncached", refused(NO, "pages to leave the cache after each I/O")),
    ("nowait", refused(NO, "I/O to fail instead of waiting")),
    ("cmd_type", refused(ALWAYS, "the interface to NVMe passthrough")),
    ("hipri_percentage", refused(NO, "a share of I/O to be polled")),
    ("fdp fdp_pli fdp_pli_select dataplacement dp_scheme plids plid_select",
     refused(NO, "where the device places what is written")),
    ("write_hint", refused(&["none"], "the lifetime hint of writes")),
    ("zonecapacity read_beyond_wp max_open_zones job_max_open_zones ignore_zone_limits zone_reset_threshold \
      zone_reset_frequency", refused(&["0"], "where a zoned device is written: zone by zone, at write pointers")),
    // Refused: pattern.
    ("sprandom", refused(NO, "the order of writes: a whole pass with a share written twice")),
    ("num_range", refused(&["1"], "a trim to be of several ranges")),
    ("read_iolog read_iolog_chunked replay_no_stall replay_redirect replay_scale replay_align \
      replay_time_scale replay_skip merge_blktrace_file merge_blktrace_scalars merge_blktrace_iters",
     refused(ALWAYS, "the I/O to be that of a recorded trace")),
    // Refused: durability and data.
    ("end_syncfs", refused(NO, "bandwidth to include a sync of the whole file system at the end; use end_fsync")),
    ("sync_file_range", refused(ALWAYS, "when dirty pages are written back")),
    ("rwmixcycle flow_watermark use_os_rand|use_os_random", Same("fio knows it no more, and ignores it")),
    ("write_barrier", refused(NO, "the order of writes")),
    ("verify_only verify_state_load trim_percentage", refused(NO, "what is checked, or when")),
    ("trim_verify_zero trim_backlog trim_backlog_batch", Same("it goes with trim_percentage")),
    // Refused: time and load.
    ("thinktime_spin", refused(NO, "pauses to be spent computing")),
    ("thinktime_blocks_type", refused(&["complete"], "what is counted between pauses")),
    ("rate_ignore_thinktime", refused(NO, "how a rate and pauses add up")),
    ("latency_target", refused(NO, "the queue depth while running; see [search]")),
    ("latency_window latency_percentile latency_run", Same("it goes with latency_target")),
    // Refused: machine.
    ("cmdprio_bssplit", refused(NO, "the priority of the I/Os of some sizes")),
    ("cgroup cgroup_nodelete cgroup_weight uid gid", refused(ALWAYS, "as whom or where it runs")),
    ("profile", refused(ALWAYS, "the whole job")),
    // Options of engines that are not driven: the engine is refused by its name, these not again.
    ("hostname port protocol|proto ttl listen pingpong interface window_size mss nodelay verb serverip \
      direct_write_to_pmem busy_wait_polling|busy_poll clustername clientname rbdname pool conf cont svc volume brick uri nfs_url \
      namenode chunk_size single_instance hdfs_use_direct http_host http_user http_pass http_s3_key http_s3_keyid \
      http_s3_region http_s3_sse_customer_key http_s3_sse_customer_algorithm http_s3_storage_class http_mode \
      http_verbose http_swift_auth_token https donorname inplace cpuload cpuchunks cpumode exit_on_io_done \
      gpu_dev_id gpu_dev_ids cuda_io skip_bad program arguments grace_time std_redirect sg_write_mode \
      readfua writefua stat_type object_class md_per_io_size pi_act pi_chk apptag apptag_mask deallocate write_mode \
      verify_mode xnvme_async xnvme_sync xnvme_admin xnvme_mem xnvme_dev_nsid xnvme_dev_subnqn xnvme_iovec",
     Same("belongs to an engine that is not driven here")),
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
        assert_eq!(OPTIONS.first_name("blocksize"), Some("bs"));
        assert!(matches!(OPTIONS.effect("atomic"), Some(Effect::Refused { .. })));
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
