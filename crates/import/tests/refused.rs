//! fio job files that Taillight cannot express are refused, with file, line, option and what it would change; what
//! differs a little is said in a note; and what options that are easily misread become.

use taillight_import::fio::import;

/// A section with a size, and these lines from line 3 on.
fn section(lines: &str) -> String {
    format!("[a]\nsize=64m\n{lines}\n")
}

fn refused(text: &str) -> String {
    let e = import(text, "a.fio").expect_err(text);
    format!("{e} | {}", e.hint_text().unwrap_or_default())
}

/// Once a note was missing that `rwmixread=70` has no effect beside a rate.
#[test]
fn a_mix_that_rates_decide_is_told() {
    let text = section("rw=randrw\nrwmixread=70\nrate_iops=500");
    let jobs = import(&text, "a.fio").expect("understood");
    let notes = jobs[0].notes.join("\n");
    assert!(
        notes.contains("line 4, rwmixread: it has no effect beside a rate, as in fio"),
        "{notes}"
    );
    assert!(notes.contains("500:500"), "{notes}");
    let plain = section("rw=randrw\nrwmixread=70");
    let jobs = import(&plain, "a.fio").expect("understood");
    assert!(!jobs[0].notes.join("\n").contains("no effect"), "it is the mix");
}

#[test]
fn paths_ends_and_cpus_without_equivalent() {
    for (lines, parts) in [
        (
            "rw=write\nend_fsync=1\nloops=2\nruntime=9",
            vec![
                "`end_fsync` in [a]: fio syncs the files after each",
                "end by size alone",
                "a.fio:1",
            ],
        ),
        (
            "rw=write\nend_fsync=1\ntime_based\nruntime=9\nnrfiles=2",
            vec!["passes over a time", "a.fio:4"],
        ),
        ("exitall\nexit_what=all\n[b]\nsize=1m\nstonewall", vec!["never runs", "a.fio:1"]),
        ("exit_what=some", vec!["group, stonewall or all"]),
        ("cpumask=0", vec!["a mask without CPUs"]),
        ("cpumask=1\ncpus_allowed=0", vec!["given twice, by cpus_allowed"]),
        ("numa_mem_policy=interleave:0-1", vec!["memory of other nodes"]),
        ("numa_cpu_nodes=4000", vec!["/sys/devices/system/node/node4000/cpulist"]),
        ("unlink_each_loop=1\nloops=2", vec!["deleted between two passes", "before they are read"]),
        ("flow=x", vec!["not a whole number"]),
        ("flow=1001", vec!["from 1 to 1000"]),
        ("lockmem=1q", vec!["`lockmem`"]),
        ("unified_rw_reporting=4", vec!["none (0), mixed (1) or both (2)"]),
        ("filename=a:b:a", vec!["`a` comes twice"]),
        ("filename=a/f\nfilename=b/f", vec!["of 2 devices or directories one after the other"]),
        (
            "filename=a/f:b/f\ndirect=1\nioengine=io_uring\niodepth=4\nthinktime=5",
            vec!["pauses, and a rate", "cannot be shared out among devices"],
        ),
        ("rw=randread:8\nrw_sequencer=identical", vec!["at one place"]),
        ("rw=randread:x", vec!["`:x` is no number of I/Os"]),
        ("rw=randread\npercentage_random=101", vec!["it is a percentage"]),
        ("filename=f\nioscheduler=noop", vec!["`noop`, which Taillight does not change"]),
        ("numjobs=1k\ndirectory=/tmp:/var/tmp", vec!["`directory`", "plain number"]),
        ("prio=8", vec!["from 0, the highest, to 7"]),
        ("prioclass=4", vec!["`prioclass`", "from 0 to 3"]),
        ("nice=20", vec!["from -20 to 19"]),
        ("file_append=1\nnrfiles=2", vec!["one job that writes one file in order, once"]),
        (
            "rw=read\ncreate_on_open=1",
            vec!["`a.0.0` is read and does not hold 64MiB", "makes an empty file and fails"],
        ),
        ("nrfiles=2\nfile_service_type=roundrobin:4", vec!["so many blocks of each file"]),
        (
            "rw=randread\nnrfiles=2\nfile_service_type=sequential",
            vec!["of one file after the other"],
        ),
        ("nrfiles=2\nfile_service_type=zipf:1.2", vec!["some files more often"]),
    ] {
        let said = refused(&section(lines));
        for part in parts {
            assert!(said.contains(part), "{lines}: {said}");
        }
    }
}

#[test]
fn files_of_different_sizes() {
    for (lines, parts) in [
        ("filesize=64k-4k", vec!["the first size is the larger one"]),
        ("nrfiles=9\nfilesize=4k-64k\nbs=4k,8k\nrw=randrw", vec!["blocks of one size"]),
        ("nrfiles=9\nfilesize=4k-64k\noffset=4k", vec!["an offset in files of different sizes"]),
        (
            "nrfiles=9\nfilesize=4k-64k\nrw=randread\nrandom_distribution=zipf:1.1",
            vec!["drawn from evenly"],
        ),
        ("opendir=absent", vec!["`absent`", "No such file"]),
    ] {
        let said = refused(&section(lines));
        for part in parts {
            assert!(said.contains(part), "{lines}: {said}");
        }
    }
}

#[test]
fn options_without_equivalent() {
    for (lines, parts) in [
        (
            "rw=write\nend_syncfs=1",
            vec!["`end_syncfs`", "sync of the whole file system", "a.fio:4"],
        ),
        ("latency_target=5000", vec!["queue depth while running", "taillight search JOB"]),
        ("read_iolog=x.log", vec!["a recorded trace", "--replay LOG"]),
        ("cmdprio_percentage=20", vec!["two in flight or more"]),
        ("cmdprio_percentage=20\nioengine=libaio\ndirect=1\niodepth=8", vec!["draw at random"]),
        ("cmdprio_bssplit=4k/20", vec!["of some sizes", "two sections side by side"]),
        ("rw=read:-12k", vec!["on the way back", "`:-8KiB` reads every block once"]),
        ("bs=4k-8k", vec!["unknown unit"]),
        ("rw=read:8k\nbsrange=4k-8k", vec!["a step between blocks of several sizes"]),
        ("rw=trimwrite\nbs=4k,4k,8k", vec!["trims of other sizes than the writes"]),
        ("rw=trimwrite\nrate_iops=100", vec!["a rate of trims and writes"]),
        ("rw=sideways", vec!["`sideways` is not known", "randrw"]),
        ("ioengine=rbd", vec!["`rbd` talks to a server or cluster", "io_uring"]),
        ("ioengine=mmap\ndirect=1", vec!["mmap with direct=1"]),
        ("ioengine=windowsaio", vec!["`windowsaio` is of Windows"]),
        ("ioengine=odd", vec!["`odd` has no equivalent"]),
        ("size=50%", vec!["a percentage needs a file or device that is there"]),
        ("bs=128m", vec!["`bs` in [a]: a block of 128MiB does not fit", "a.fio:3"]),
        ("rw=randread\nba=0", vec!["`ba` in [a]: offsets that are multiples of zero"]),
        (
            "rw=randread\nfilename=f\noffset=1k",
            vec!["`offset` in [a]: a part from 1KiB on is no whole number of blocks of 4KiB"],
        ),
        ("lockfile=exclusive", vec!["`lockfile`", "run at the same time"]),
        ("wait_for=b", vec!["only [b] is waited for"]),
        ("startdelay=1-3", vec!["drawn from a range"]),
        ("bs=4k,8k\nba=4k\nrw=randrw", vec!["alignment of their own blocks only"]),
        ("bs=4k\nba=4k,8k\nrw=randrw", vec!["alignment of their own blocks only"]),
        ("rate_iops=100,0\nrw=rw", vec!["a rate of one direction alone", "without time_based"]),
        ("rw=write\nsync=1\nfsync=1", vec!["only one of sync"]),
        ("verify=odd\nrw=write", vec!["only checks of the content"]),
        (
            "verify=md5\nrw=write\nverify_backlog=4\ntime_based\nruntime=1",
            vec!["so many blocks behind the writes for as long as it writes", "a.fio:5"],
        ),
        ("random_distribution=zoned_abs:1/1m\nrw=randread", vec!["`zoned_abs`"]),
        ("bssplit=4k/50:8k/20", vec!["add up to 70"]),
        ("nrfiles=4\nrw=read:8k", vec!["steps through several files"]),
        ("numjobs=0", vec!["0 does nothing"]),
        ("iodepth=deep", vec!["not a whole number"]),
        ("iodepth", vec!["needs a value"]),
        ("rw=", vec!["`rw` in [a]: it needs a value", "a.fio:3"]),
        ("rw=randread\nrandom_distribution", vec!["needs a value"]),
        ("direct=maybe", vec!["neither 0 nor 1"]),
        ("buffer_compress_percentage=50\nzero_buffers\nrw=write", vec!["zeros"]),
        ("hipri", vec!["only the ring engine"]),
        ("rx=read", vec!["`rx`", "a.fio:3", "did you mean `rw`"]),
        ("bs=4q", vec!["`bs`", "a.fio:3"]),
        ("size=$SIZE", vec!["a.fio:3"]),
        ("runtime=${NONE}", vec!["the variable is not set", "a.fio:3"]),
        ("bs=`echo 4k`", vec!["not a whole number", "a.fio:3"]),
        ("include absent.fio", vec!["`absent.fio`, which is included, cannot be read", "a.fio:3"]),
    ] {
        let text = section(lines);
        let said = refused(&text);
        for part in parts {
            assert!(said.contains(part), "{lines}: {said}");
        }
    }
    assert!(refused("[a]\nrw=read\n").contains("no size is given"));
    let filled = refused("[a]\nrw=write\nfill_device=1\n");
    assert!(filled.contains("until the file system is full"), "{filled}");
}

#[test]
fn zones_and_steady_states_without_equivalent() {
    for (lines, parts) in [
        ("zonemode=strided", vec!["zonesize is missing"]),
        ("zonemode=zbd", vec!["at their write pointers"]),
        ("zonesize=64k", vec!["without zonemode=strided or zbd fio refuses it too"]),
        ("zonemode=strided\nzonesize=6k\nzoneskip=2k", vec!["no whole blocks"]),
        (
            "zonemode=strided\nzonesize=64k\nrw=randread",
            vec!["in order are expressed zone by zone"],
        ),
        ("steadystate=iops\nsteadystate_duration=10", vec!["it needs a limit"]),
        ("ss=iops:5%\nss_dur=1", vec!["shorter than two checks"]),
        ("ss=iops:5%\nss_dur=9\n[b]\nsize=1m", vec!["fio judges each by itself"]),
    ] {
        let said = refused(&section(lines));
        for part in parts {
            assert!(said.contains(part), "{lines}: {said}");
        }
    }
}

#[test]
fn sections_that_need_two_targets() {
    let two = |more: &str| {
        format!("[a]\nsize=1m\nfilename=x\nrw=read\nruntime=1\ntime_based\n[b]\nsize=1m\n{more}\n")
    };
    let said = refused(&two("filename=x\nruntime=1\ntime_based\npre_read=1"));
    assert!(said.contains("[a] and [b] run side by side but differ in pre_read"), "{said}");
    assert!(said.contains("a.fio:7") && said.contains("stonewall"), "{said}");
    assert!(refused(&two("filename=x\nioengine=null")).contains("differ in ioengine"));
    assert_eq!(import(&two("filename=y\nstonewall"), "a.fio").expect("two jobs").len(), 2);
    assert_eq!(import(&two("filename=y\nwait_for=a"), "a.fio").expect("two jobs").len(), 2);
    // Both wait for what is done then, and run side by side.
    let both = two("filename=y\nwait_for=a\n[c]\nfilename=z\nsize=1m\nwait_for=a");
    assert_eq!(import(&both, "a.fio").expect("two jobs").len(), 2);
    let said = refused(&format!("{both}\n[d]\nsize=1m\nwait_for=c\n"));
    assert!(said.contains("only [c] is waited for"), "{said}");
    // One is measured from its second second on, the other begins then.
    let text = two("filename=y\nruntime=1\ntime_based\nramp_time=2\nstartdelay=1");
    let job = &import(&text, "a.fio").expect("understood")[0].toml;
    assert!(job.contains("start_delay = \"3s\"\nwarmup = \"2s\""), "{job}");
    // Files, engines and ends of their own are fine.
    for more in [
        "filename=y",
        "filename=y\nruntime=2\ntime_based\ndirect=1",
        "filename=x\nruntime=2\ntime_based",
    ] {
        assert_eq!(import(&two(more), "a.fio").expect(more).len(), 1, "{more}");
    }
}

#[test]
fn sections_side_by_side_have_files_and_ends_of_their_own() {
    each_becomes(&[
        ("norandommap\nrw=randread\n[b]\nsize=32m", "bytes = \"32MiB\""),
        ("[b]\nsize=32m\nioengine=io_uring\ndirect=1", "[targets.b.options]\nengine = \"uring\""),
        (
            "[b]\nsize=32m\nruntime=2\ntime_based\nstartdelay=1",
            "start_delay = \"1s\"\nduration = \"2s\"",
        ),
        ("numjobs=2\n[b]\nsize=1m\nnumber_ios=7\nnumjobs=3\ngroup_reporting", "operations = 21"),
        (
            "number_ios=9\nexitall\n[b]\nsize=1m\nruntime=2\ntime_based",
            "operations = 9\nbytes = \"64MiB\"\ndrop_cache = \"64MiB\"\nends_run = true",
        ),
        ("numjobs=2\nexitall", "ends_run = true"),
        ("exitall\nnumjobs=2\n[b]\nsize=1m\nnew_group\nnumjobs=2", "ends_with = \"group-1\""),
        ("nrfiles=3\nfilesize=4k-64k", "sizes = [\"12KiB\", \"20KiB\", \"20KiB\"]"),
        ("ioengine=libaio\ncmdprio_percentage=100\ncmdprio=2", "io_priority = \"realtime:2\""),
        (
            "rw=randread\nioengine=libaio\ndirect=1\niodepth=8\ncmdprio_percentage=25\nprioclass=3",
            "io_priority = \"realtime:0\"",
        ),
        ("cpumask=0x0d", "cpus = [0, 2, 3]"),
        ("rw=write\nverify=md5\n[b]\nsize=1m", "[verify]\nmode = \"after\""),
    ]);
}

#[test]
fn a_section_can_take_back_a_global_option() {
    let text = "[global]\nend_syncfs=1\nsize=1m\n[a]\nend_syncfs=0\n";
    assert!(import(text, "a.fio").is_ok());
}

fn toml(lines: &str) -> String {
    let jobs = import(&section(lines), "a.fio").expect(lines);
    jobs.into_iter().map(|j| j.toml).collect()
}

/// Each section gives a job that has the part.
fn each_becomes(cases: &[(&str, &str)]) {
    for (lines, part) in cases {
        let text = toml(lines);
        assert!(text.contains(part), "{lines}: no {part} in\n{text}");
    }
}

#[test]
fn trims_groups_and_increments() {
    each_becomes(&[
        // A trim and a write of each block; what a pass has of both counts for io_size.
        ("rw=trimwrite", "bytes = \"128MiB\""),
        ("rw=trimwrite\nio_size=192m", "bytes = \"256MiB\""),
        ("rw=trimwrite\nio_size=96m", "bytes = \"128MiB\""),
        ("rw=trimwrite\nnumber_ios=7", "operations = 14"),
        ("rw=randtrimwrite", "trim_first = true"),
        ("rw=randtrim\nioengine=libaio\ndirect=1", "blocking_trims = true"),
        // Jobs in files of their own begin further in.
        ("rw=write\nnumjobs=2\noffset_increment=64k", "offset = \"64KiB\""),
        // A group of fio is no run: what waits is of the group of those before it.
        ("[b]\nsize=1m\nwait_for=a\n[c]\nsize=1m\nstonewall", "report_group = 1"),
        ("[b]\nsize=1m\nnew_group", "report_group = 1"),
        ("allrandrepeat=1\nrandrepeat=0\nrandseed=5", "seed = 1"),
    ]);
}

#[test]
fn meanings_that_are_easily_missed() {
    each_becomes(&[
        // A blocking engine has no queue, whatever iodepth says.
        ("iodepth=32\nioengine=sync", "queue_depth = 1"),
        // Measured with fio 3.33: passes, and what the check reads, count for io_size; number_ios is of each loop.
        ("rw=randwrite\nio_size=128m\nverify=crc32c", "bytes = \"64MiB\""),
        ("rw=write\nio_size=192m\nverify=crc32c", "continues = true"),
        ("rw=randwrite\nio_size=128m\nverify=crc32c\ndo_verify=0", "bytes = \"64MiB\""),
        ("rw=randread\nio_size=128m\nloops=2", "bytes = \"128MiB\""),
        ("rw=randread\nio_size=32m\nloops=2", "bytes = \"64MiB\""),
        ("rw=randwrite\nnorandommap\nio_size=128m\nloops=2", "bytes = \"256MiB\""),
        ("number_ios=10\nloops=3", "operations = 30"),
        // The kernel is told the order, as by fio.
        ("rw=randread", "read_ahead = \"random\""),
        ("rw=read\nfadvise_hint=random", "read_ahead = \"random\""),
        // What was read is dropped from the cache at each pass.
        ("rw=read\nloops=3", "drop_cache = \"64MiB\""),
        ("rw=randread\ntime_based\nruntime=2", "drop_cache = \"64MiB\""),
        ("rw=randread\nbssplit=4k/50:8k/50\nio_size=128m", "drop_cache = \"64MiB\""),
        ("rw=write\nend_fsync=1", "end_fsync = true"),
        // The map of visited blocks is on by default, the page cache is used and dropped first.
        ("rw=randread", "cover = true"),
        ("rw=randread", "direct = false\ncache = \"drop\""),
        ("rw=randread\nnorandommap", "access = \"random\"\n"),
        // Amounts count for each job.
        ("numjobs=4\nrw=randread", "bytes = \"256MiB\""),
        ("numjobs=4\nrw=randread", "files = 4"),
        ("loops=3", "bytes = \"192MiB\""),
        ("number_ios=10\nnumjobs=2", "operations = 20"),
        // Jobs on one file walk it one by one, unless each has its slice.
        ("filename=f\nnumjobs=2", "name = \"a-1\""),
        ("rw=read:-8k", "access = \"reverse\""),
        ("rw=read:8k", "kind = \"strided\", stride = \"12KiB\""),
        ("rw=read:8k", "bytes = \"21848KiB\""),
        ("direct=1\niodepth_batch=4\nioengine=libaio", "submit_batch = 4"),
        ("rw=write\nbuffer_pattern=12345", "pattern = \"0x3930\""),
        ("filename=f\noffset=1k", "align = \"1KiB\", offset = \"1KiB\""),
        ("direct=1\nbuffered=1", "direct = false"),
        ("filename=f\nnumjobs=2\noffset_increment=64m\ngroup_reporting", "workers = 2"),
        // Rates are per job and direction, and decide the mix.
        ("rate_iops=100\nnumjobs=3\ngroup_reporting", "rate = \"300/s\""),
        // Without group_reporting each job has a row, and is a workload.
        ("rate_iops=100\nnumjobs=3", "name = \"a-2\"\nsection = \"a\"\nworkers = 1"),
        ("numjobs=2\ncpus_allowed=0,1\ncpus_allowed_policy=split", "cpus = [1, 0]"),
        ("rate_iops=300,100\nrw=randrw\nrwmixread=50", "mix = { read = 3, write = 1 }"),
        ("rate=1m", "rate = \"1MiB/s\""),
        ("thinktime=500\nthinktime_blocks=8", "think = { time = \"500us\", every = 8 }"),
        (
            "thinktime=10s\nthinktime_iotime=5",
            "think = { time = \"10s\", every = 1, after = \"5s\" }",
        ),
        ("runtime=2m", "duration = \"2min\""),
        ("ramp_time=5\nruntime=9\ntime_based", "warmup = \"5s\""),
        ("randrepeat=0\nrw=randread", "[run]\nname = \"a\"\nbytes"),
        ("randseed=7", "seed = 7"),
        ("rw=randwrite\nverify=crc32c", "[verify]\nmode = \"after\""),
        (
            "rw=write\nbuffer_compress_percentage=50\ndedupe_percentage=20",
            "payload = { kind = \"random\", compressible = 50, duplicate = 20 }",
        ),
        ("rw=write\nbuffer_pattern=0xdeadbeef", "pattern = \"0xdeadbeef\""),
        ("rw=write\nzero_buffers", "payload = \"zero\""),
        ("rw=randread\nbs=16k\nba=8k", "align = \"8KiB\""),
        ("rw=randread\nbssplit=512/50:4k/50\nblockalign=4k", "align = \"4KiB\""),
        ("rw=randtrim\nfilename=/dev/null0", "mix = \"trim\""),
        ("ioengine=libaio\niodepth=8\ndirect=1", "engine = \"uring\""),
        ("ioengine=libaio\niodepth=8", "engine = \"sync\""),
        ("ioengine=io_uring\nfixedbufs", "fixed_buffers = true\nregistered_files = false"),
        ("cpus_allowed=0,2-3", "cpus = [0, 2, 3]"),
        ("size=100%\nfilename=f", "path = \"f\"\n\n"),
        ("filesize=128m\nsize=50%\nfilename=f", "size = \"64MiB\""),
        ("filename=/dev/sd\\:x", "path = \"/dev/sd:x\""),
        ("offset=16m\nfilename=f", "offset = \"16MiB\", length = \"64MiB\""),
        ("bs=3k", "bytes at the end are no whole block"),
    ]);
}

#[test]
fn sequences_among_drawn_blocks_files_in_turns_and_priorities() {
    each_becomes(&[
        ("nrfiles=4\nrw=write", "files = \"turns\""),
        ("unified_rw_reporting=both", "unified = \"both\""),
        ("unified_rw_reporting=1", "unified = \"mixed\""),
        ("flow=8\nflow_id=3\nflow_sleep=500", "flow = { share = 8, id = 3, pause = \"500us\" }"),
        ("lockmem=64m\nnumjobs=2", "lock_memory = \"128MiB\""),
        ("nrfiles=4\nfile_service_type=random", "files = \"drawn\""),
        ("nrfiles=4\nopenfiles=1", "access = \"sequential\""),
        ("nrfiles=4\nopenfiles=2", "fio goes over 2 of the 4 files at a time"),
        (
            "nrfiles=4\nopenfiles=2\nfile_service_type=sequential",
            "one after the other, whatever it says",
        ),
        ("nrfiles=1\nopenfiles=1", "all files are open from the beginning"),
        ("nrfiles=4\nbssplit=4k/50:8k/50", "files = \"turns\""),
        ("nrfiles=4\nfilename_format=f$jobnum", "walks = 4"),
        ("filename=f\nfilename=f", "walks = 2"),
        ("rw=randread:8", "run_length = 8"),
        ("rw=randrw\npercentage_random=9,27,", "sequential_percent = { read = 91, write = 73 }"),
        ("prioclass=3\nnice=5", "nice = 5\nio_priority = \"idle\""),
        ("prio=2", "io_priority = \"best-effort:2\""),
    ]);
}

/// Differences between fio 3.33 and the job made of a file, all mended: found by random job files and in public ones.
#[test]
fn sizes_steps_payloads_and_logs_are_as_in_fio() {
    each_becomes(&[
        // What blocks leave out of a file is a part of it.
        ("bs=3k", "size = \"64MiB\""),
        ("bs=3k\nrw=randread\nloops=2", "drop_cache = \"65535KiB\""),
        ("filesize=128m", "size = \"128MiB\""),
        ("filename=f\nnrfiles=3\nfilesize=64m", "size = \"64MiB\""),
        // A step need not be a whole number of blocks.
        ("bs=256k\nrw=read:17k", "align = \"1KiB\", stride = \"273KiB\""),
        ("bs=32k\nrw=read:17k\nsize=1m", "bytes = \"1MiB\""),
        (
            "rw=write\nbuffer_pattern=0xdeadbeef\nbuffer_compress_percentage=66",
            "payload = { kind = \"random\", compressible = 66",
        ),
        // Logs of fio 3.36 and later.
        ("log_issue_time=1\nlog_window_value=both", "every I/O is kept"),
        ("percentile_list=99:100.0", "percentiles = [\"99\"]"),
        ("filename=f\nnumjobs=2", "section = \"a\""),
    ]);
}

/// Once each of these asked another load of the device than fio does, or used other files, without a word.
#[test]
fn depths_checks_and_directories_are_as_in_fio() {
    each_becomes(&[
        // glibc has one request of each open file in work.
        ("iodepth=16\nioengine=posixaio", "queue_depth = 1"),
        ("iodepth=16\nioengine=posixaio\nnrfiles=4\ndirect=1", "queue_depth = 4"),
        ("iodepth=2\nioengine=posixaio\nnrfiles=4", "queue_depth = 2"),
        ("iodepth=8\nioengine=posixaio\nnrfiles=4\nopenfiles=2", "queue_depth = 2"),
        (
            "iodepth=8\nioengine=posixaio\nnrfiles=4\nfile_service_type=sequential",
            "queue_depth = 1",
        ),
        ("iodepth=8\nioengine=posixaio\nnrfiles=4\nthinktime=9", "queue_depth = 1"),
        // fio waits for what is in flight before each pause.
        ("iodepth=8\nioengine=libaio\ndirect=1\nthinktime=10ms", "queue_depth = 1"),
        (
            "iodepth=32\nioengine=libaio\ndirect=1\nthinktime=9\nthinktime_blocks=8",
            "queue_depth = 20",
        ),
        ("iodepth=32\nioengine=libaio\ndirect=1\nthinktime=9\nthinktime_blocks=8", "every = 20"),
        (
            "iodepth=4\nioengine=libaio\ndirect=1\nthinktime=9\nthinktime_blocks=8",
            "queue_depth = 4",
        ),
        // fio 3.33 reads back what it wrote, and does not look at it.
        ("rw=write\nverify=null", "[verify]\nmode = \"after\""),
        // It means verify=pattern where no verify is given.
        ("rw=write\nverify_pattern=0xff", "[verify]\nmode = \"after\""),
        // Without a runtime time_based is none.
        ("rw=write\nverify=md5\nverify_backlog=4\ntime_based", "[verify]\nmode = \"after\""),
        // Files that are named lie in the first of several directories.
        ("filename=f\ndirectory=x:y\nnumjobs=2\nrw=randread\ngroup_reporting", "path = \"x/f\""),
        ("filename=f\ndirectory=x:y\nnumjobs=2\nrw=randread\ngroup_reporting", "workers = 2"),
    ]);
}

/// Once a directory of [global], in which the file does lie, was noted as one in which it does not.
#[test]
fn only_the_directory_of_a_section_is_none_for_a_file_of_global() {
    let text = |global: &str, own: &str| {
        format!("[global]\nsize=1m\nfilename=f\n{global}[a]\nrw=write\n{own}")
    };
    let said = |global: &str, own: &str| {
        let jobs = import(&text(global, own), "a.fio").expect("understood");
        jobs[0].notes.join("\n").contains("does not lie in it")
    };
    assert!(!said("directory=x:y\n", "") && !said("directory=x\n", ""));
    assert!(said("", "directory=x\n") && said("", "directory=x:y\n"));
}

/// What `filesize` says beside a section of all there is does not make the rest of it vanish.
#[test]
fn a_target_that_one_section_takes_as_it_is_gets_no_size_from_another() {
    let text = "[global]\nfilename=f\ntime_based\nruntime=1\n[a]\nsize=100%\n[b]\nfilesize=1m\n";
    let jobs = import(text, "a.fio").expect("one job");
    let toml = &jobs[0].toml;
    assert!(toml.contains("path = \"f\"\n\n"), "{toml}");
}

/// fio 3.33: three groups of 2 s each with `startdelay=2` take 9 s, and not 12.
#[test]
fn a_delay_counts_from_the_start_of_fio() {
    let text = "[global]\nsize=64m\ntime_based\nruntime=4\n[a]\n[b]\nstonewall\nstartdelay=3\n\
                [c]\nstartdelay=10\n";
    let jobs = import(text, "a.fio").expect("two jobs");
    let toml = &jobs[1].toml;
    assert!(toml.contains("start_delay = \"6s\""), "{toml}");
    assert!(toml.contains("[b]: startdelay counts from the start of fio; nothing of it"), "{toml}");
}

#[test]
fn block_sizes_are_those_of_the_directions_in_use() {
    each_becomes(&[
        ("rw=randrw\nbs=,8k", "block_size = { read = \"4KiB\", write = \"8KiB\" }"),
        ("rw=randrw\nbs=4k,64k\nba=4k,64k", "block_size = { read = \"4KiB\", write = \"64KiB\" }"),
        ("rw=write\nbs=4k,64k", "block_size = \"64KiB\""),
        ("rw=trim\nbs=4k,64k,1m\nfilename=/dev/null0", "block_size = \"1MiB\""),
        (
            "rw=rw\nbsrange=1k-4k,4k-64k",
            "write = { min = \"4KiB\", max = \"64KiB\", step = \"4KiB\" }",
        ),
        ("rw=randrw\nbssplit=64k/40:1m/60,1m/100", "write = \"1MiB\""),
        ("rw=randrw\nbs=4k,64k\nrate=1m,4m", "mix = { read = 4, write = 1 }"),
        (
            "bsrange=3k-8k",
            "[{ size = \"3KiB\", weight = 3 }, { size = \"6KiB\", weight = 3 }, { size = \"8KiB\", weight = 2 }]",
        ),
        (
            "rw=randread\nbssplit=4k/50:6k/20:10k/30",
            "[{ size = \"4KiB\", weight = 70 }, { size = \"8KiB\", weight = 30 }]",
        ),
    ]);
}

#[test]
fn sections_side_by_side_end_one_by_one() {
    let text = "[global]\nsize=64m\n[a]\nrw=read\n[b]\nrw=randread\nloops=2\n";
    let jobs = import(text, "a.fio").expect("one job");
    assert_eq!(jobs.len(), 1);
    let toml = &jobs[0].toml;
    assert_eq!(jobs[0].name, "a-b");
    for part in ["bytes = \"64MiB\"", "target = \"b\"", "bytes = \"128MiB\"", "path = \"b.0.0\""] {
        assert!(toml.contains(part), "{part}: {toml}");
    }
    assert!(!toml.contains("passes") && !toml.contains("destroy"), "{toml}");
}

#[test]
fn all_reasons_are_said_at_once_and_each_once() {
    let text = "[global]\nend_syncfs=1\nrx=read\n[a]\nrw=write\nsize=1m\natomic=1\n\
                [b]\nrw=sideways\nsize=4q\niodepth=deep\n";
    let said = refused(text);
    for part in [
        "for 6 reasons",
        "a.fio:2)",
        "a.fio:3)",
        "did you mean `rw`",
        "a.fio:7)",
        "a.fio:9)",
        "a.fio:10)",
        "a.fio:11)",
    ] {
        assert_eq!(said.matches(part).count(), 1, "{part}: {said}");
    }
}

/// Once each of these was refused, or changed the load without a word.
#[test]
fn what_differs_or_has_no_effect_is_said() {
    for (lines, note) in [
        ("exec_prerun=echo 3", "line 3, exec_prerun: NOT executed"),
        ("verify=crc32c", "its content is NOT checked".trim_start_matches("its ")),
        (
            "rw=randwrite\nverify=md5\nverify_backlog=8",
            "verify_backlog: blocks are checked after the run",
        ),
        (
            "rw=randwrite\nverify=md5\ntime_based\nruntime=1",
            "reads back and checks each pass that ends sooner",
        ),
        (
            "rw=write\nverify=md5\nverify_backlog=4\ntime_based\nruntime=1\ndo_verify=0",
            "do_verify=0: nothing is checked in this run",
        ),
        (
            "rw=randwrite\nverify=md5\nloops=2",
            "2 passes, each a run of its own, as after each fio checks",
        ),
        (
            "rw=randwrite\nverify=md5\nloops=2\nruntime=9",
            "checked, once; fio checks after each pass",
        ),
        ("rw=write\nfsync_on_close=1", "an operation of its own here"),
        ("rw=read\nend_fsync=1", "nothing is written, so nothing is synced"),
        ("rw=write\ncreate_on_open=1", "grows as it is written, here too"),
        ("thinktime=100\nrate_iops=10", "the rate leaves room for the pauses"),
        ("thinktime=1s\nrate_iops=10", "longer than the rate leaves room for"),
        ("startdelay=5", "the whole group begins later"),
        ("ramp_time=5", "the size is done and reported after it"),
        ("unlink_each_loop=1", "after which fio deletes nothing either"),
        ("numa_mem_policy=bind:0\nnuma_cpu_nodes=0", "touched first on a CPU of that node"),
        ("cpus_allowed=0-3", "pinned to one of them, in turns"),
        ("filesize=32m", "fio ends at 32MiB"),
        ("zonemode=none\nsteadystate_duration=0\nlockfile=none", "no file is locked"),
    ] {
        let jobs = import(&section(lines), "a.fio").expect(lines);
        let notes = jobs[0].notes.join("\n");
        assert!(notes.contains(note), "{lines}: {notes}");
    }
}

#[test]
fn rates_and_pauses_leave_the_slower_one() {
    assert!(toml("thinktime=100\nrate_iops=10").contains("rate = \"10/s\""));
    let paused = toml("thinktime=1s\nrate_iops=10");
    assert!(paused.contains("think = { time = \"1s\"") && !paused.contains("rate ="), "{paused}");
}

/// A file of 8 MiB, a device of 1 GiB and a directory.
fn on_a_machine(text: &str) -> String {
    use taillight_import::fio::{Existing, Surroundings, import_in};
    let existing = |path: &str| match path {
        "f" => Some(Existing::File(8 << 20)),
        "/dev/x" => Some(Existing::Device(Some(1 << 30))),
        "d" => Some(Existing::Directory),
        _ => None,
    };
    let text_of = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let around = Surroundings {
        environment: &|_| None,
        text: &text_of,
        existing: &existing,
        listed: &|_| Ok(Vec::new()),
    };
    match import_in(text, "a.fio", &around) {
        Ok(jobs) => jobs.into_iter().map(|j| j.toml).collect(),
        Err(e) => e.to_string(),
    }
}

#[test]
fn shares_are_of_what_is_there() {
    for (text, part) in [
        ("[a]\nfilename=f\nsize=50%\n", "size = \"4MiB\""),
        ("[a]\nfilename=f\nsize=50%\noffset=75%\n", "offset = \"6MiB\", length = \"2MiB\""),
        // To whole blocks: up where it begins, down where it ends (fio 3.33: 85 and 84 blocks of a file of 256).
        ("[a]\nfilename=f\nsize=33%\noffset=33%%\n", "offset = \"2704KiB\", length = \"2700KiB\""),
        ("[a]\nfilename=f\nsize=2m\nio_size=50%\n", "bytes = \"1MiB\""),
        ("[a]\nfilename=/dev/x\nsize=0\n", "size = \"1GiB\""),
        (
            "[a]\nfilename=/dev/x\nsize=25%\noffset_increment=25%\nnumjobs=4\ngroup_reporting\n",
            "workers = 4",
        ),
        // fio 3.33 leaves 16, 12, 8 and 4 blocks to four jobs on a file of 16.
        (
            "[a]\nfilename=f\noffset_increment=2m\nnumjobs=4\n",
            "offset = \"6MiB\", length = \"2MiB\"",
        ),
        ("[a]\nfilename=f\noffset_increment=4m\nnumjobs=4\n", "where nothing is left"),
        ("[a]\nfilename=f\noffset_increment=2m\nnumjobs=4\n", "size = \"8MiB\""),
        ("[a]\nfilename=f\noffset_increment=2m\nnumjobs=4\n", "bytes = \"6MiB\""),
        (
            "[a]\nfilename=n\nfilesize=1m\noffset_increment=256k\nnumjobs=4\nrw=write\n",
            "offset = \"768KiB\", length = \"256KiB\"",
        ),
        // A section that is called as a device is it.
        ("[/dev/x]\nrw=read\n", "path = \"/dev/x\""),
        // What an earlier section makes.
        (
            "[a]\nfilename=n\nsize=4m\nrw=write\n[b]\nstonewall\nfilename=n\nsize=50%\n",
            "size = \"2MiB\"",
        ),
        ("[a]\nfilename=n\nsize=50%\n", "a percentage needs a file or device"),
    ] {
        let said = on_a_machine(text);
        assert!(said.contains(part), "{text}: no {part} in\n{said}");
    }
}

#[test]
fn files_follow_the_section() {
    let paths = |text: &str| -> Vec<String> {
        let toml = on_a_machine(text);
        let lines = toml.lines().filter_map(|l| l.strip_prefix("path = "));
        lines.map(|path| path.trim_matches('"').to_owned()).collect()
    };
    let global = "[global]\nname=all\nsize=1m\nrw=write\ndirectory=d\n";
    assert_eq!(paths(&format!("{global}[a]\n[b]\nstonewall\n")), ["d/a.0.0", "d/b.0.0"]);
    // fio 3.33 reads [global] first: its file is not in the directory of a section.
    for (text, path) in [
        ("[global]\nfilename=n\nsize=1m\nrw=write\n[a]\ndirectory=d\n", "n"),
        ("[global]\nsize=1m\nrw=write\n[a]\nfilename=n\ndirectory=d\n", "d/n"),
        ("[global]\nfilename=n\ndirectory=d\nsize=1m\nrw=write\n[a]\n", "d/n"),
        ("[a]\nfilename=n\ndirectory=/\nsize=1m\nrw=write\n", "/n"),
        ("fio --name=a --filename=n --directory=d --size=1m --rw=write\n", "n"),
        ("fio --filename=n --name=a --directory=d --size=1m --rw=write\n", "n"),
        ("fio --directory=d --name=a --filename=n --size=1m --rw=write\n", "d/n"),
    ] {
        assert_eq!(paths(text), [path], "{text}");
    }
    let two = format!("{global}numjobs=2\n[a]\n[b]\nstonewall\n[a]\nstonewall\n");
    assert_eq!(paths(&two), ["d/", "d/", "d/"]);
    let names: Vec<String> = on_a_machine(&two)
        .lines()
        .filter_map(|l| Some(l.strip_prefix("names = ")?.to_owned()))
        .collect();
    let [a, b] = ["a", "b"].map(|name| format!("[\"{name}.0.0\", \"{name}.1.0\"]"));
    assert_eq!(names, [a.clone(), b, a], "two sections of one name share their files");
    let format =
        format!("{global}filename_format=$jobname-$filenum\n[a]\n[b]\nstonewall\nnumjobs=2\n");
    assert_eq!(paths(&format), ["d/a-0", "d/b-0"], "all jobs of a section share one file");
}
