//! Options of fio and combinations of sections: what they become in the job file, what notes say of them, and which are
//! refused.

use taillight_import::fio::{front_end, import};

/// The only job of a text: its TOML without comments, and its notes.
fn job(text: &str) -> (String, String) {
    let mut jobs = import(text, "a.fio").expect(text);
    assert_eq!(jobs.len(), 1, "{text}");
    let job = jobs.remove(0);
    let line = |line: &&str| !line.starts_with('#');
    let toml: Vec<&str> = job.toml.lines().filter(line).collect();
    (toml.join("\n"), job.notes.join("\n"))
}

fn has(text: &str, parts: &[&str]) {
    let (toml, notes) = job(text);
    for part in parts {
        assert!(
            toml.contains(part) || notes.contains(part),
            "{text}: no {part} in\n{toml}\n{notes}"
        );
    }
}

#[test]
fn sections_side_by_side_on_one_file_have_a_way_each() {
    let text = "[global]\nfilename=f\nsize=1m\n[direct]\ndirect=1\nioengine=libaio\niodepth=8\n[cached]\nrw=write\n\
                ioengine=psync\n[alike]\nioengine=sync\n";
    let (toml, _) = job(text);
    // What is in the cache is of those that use it.
    let [target, workloads] = ["[target.options]", "[target.options.workloads"]
        .map(|from| toml.split(from).nth(1).unwrap_or_default().to_owned());
    assert!(target.contains("direct = false") && target.contains("engine = \"sync\""), "{toml}");
    assert!(workloads.starts_with(".direct]\n") && workloads.contains("direct = true"), "{toml}");
    assert!(!toml.contains("workloads.cached") && !toml.contains("workloads.alike"), "{toml}");
    // What only the first has is not the others'.
    let ring =
        "[global]\nfilename=f\nsize=1m\ndirect=1\nioengine=io_uring\niodepth=8\nrw=randread\n";
    let (toml, _) =
        job(&format!("{ring}[polled]\nhipri=1\nsqthread_poll=1\niodepth_batch=4\n[irq]\n"));
    assert!(!toml.contains("workloads.irq"), "as the target says: {toml}");
    let [of_all, polled] = ["[target.options]", "[target.options.workloads.polled]"].map(|from| {
        let rest = toml.split(from).nth(1).expect(from);
        rest.split("\n[").next().unwrap_or_default().to_owned()
    });
    for line in ["iopoll = true", "sqpoll = true", "submit_batch = 4"] {
        let name = line.split(" =").next().unwrap_or_default();
        assert!(polled.contains(line) && !of_all.contains(name), "{line}: {toml}");
    }
}

#[test]
fn sections_side_by_side_share_files_that_are_called_alike() {
    // Two jobs of each section, on the same two files.
    let text =
        "[global]\nfilename_format=t.$jobnum\nnumjobs=2\nsize=1m\n[a]\nrw=read\n[b]\nrw=write\n";
    let (toml, _) = job(text);
    assert!(toml.contains("names = [\"t.0\", \"t.1\"]") && !toml.contains("[targets"), "{toml}");
    let e = import(&text.replace("[b]", "[b]\nsize=2m"), "a.fio").expect_err("files of two sizes");
    assert!(e.to_string().contains("shares some of its files"), "{e}");
    // A file by two names is one target; two files of sections that are checked are two targets, and so is a file
    // that is not checked beside one that is.
    let (toml, _) = job("[global]\nsize=1m\n[a]\nfilename=./x\n[b]\ndirectory=./\nfilename=x\n");
    assert!(!toml.contains("[targets"), "{toml}");
    let checked = "[global]\nsize=1m\nrw=write\nverify=md5\n[a]\nfilename=x\n[b]\nfilename=y\n";
    has(checked, &["[targets.b]", "mode = \"after\""]);
    let devices = checked.replace("=x", "=/dev/x").replace("=y", "=/dev/y");
    has(&devices, &["path = \"/dev/x\"", "path = \"/dev/y\"", "mode = \"after\""]);
    assert!(!job(checked).0.contains("unverified"));
    has(&format!("{checked}verify=0\n"), &["[targets.b]", "target = \"b\"", "unverified = true"]);
    let same = import("[global]\nfilename=x\nsize=1m\nrw=write\n[a]\nverify=md5\n[b]\n", "a.fio");
    let e = same.expect_err("one file, of which a part is checked").to_string();
    assert!(e.contains("differ in verify"), "{e}");
}

#[test]
fn files_that_sections_share_only_in_part_are_refused() {
    for text in [
        "[global]\nsize=1m\nfilename_format=t.$filenum\n[a]\nnrfiles=2\n[b]\nnrfiles=1\n"
            .to_owned(),
        // The last one has a file of each.
        "[global]\nsize=1m\n[a]\nfilename=x\n[b]\nfilename=y\n[c]\nfilename=x:y\n".to_owned(),
    ] {
        let e = import(&text, "a.fio").expect_err(&text);
        assert!(e.to_string().contains("shares some of its files"), "{text}: {e}");
    }
}

#[test]
fn sections_of_a_group_are_one_row_of_fios_json() {
    let text =
        "[global]\nsize=1m\ngroup_reporting\n[a]\n[b]\n[c]\nnew_group\n[d e]\ngroup_reporting=0\n";
    let (toml, _) = job(text);
    assert_eq!(toml.matches("reported_with = \"a\"").count(), 2, "{toml}");
    assert_eq!(toml.matches("reported_with").count(), 2, "{toml}");
    assert!(toml.contains("name = \"d-e\"") && toml.contains("section = \"d e\""), "{toml}");
    // Two rows of sections that are called alike.
    let text = "[global]\nsize=1m\nfilename=f\ngroup_reporting\n[a]\n[b]\n[a]\nnew_group\n[b]\n";
    let (toml, _) = job(text);
    for row in ["a", "a-2"] {
        let key = format!("reported_with = \"{row}\"");
        assert_eq!(toml.matches(&key).count(), 2, "{key}: {toml}");
    }
}

#[test]
fn a_rate_of_one_direction_leaves_the_other_free() {
    let text = "[a]\nrw=randrw\nsize=1m\nrate=,1m\ntime_based\nruntime=2\nfsync=4\n";
    let (toml, notes) = job(text);
    let [reads, writes] = ["name = \"a-read\"", "name = \"a-write\""].map(|name| {
        let rest = toml.split(name).nth(1).expect(name);
        rest.split("[[workload]]").next().unwrap_or_default().to_owned()
    });
    assert!(!reads.contains("arrival") && !reads.contains("sync"), "{reads}");
    assert!(writes.contains("rate = \"1MiB/s\"") && writes.contains("fsync:4"), "{writes}");
    assert!(toml.contains("section = \"a\"") && toml.contains("path = \"a.0.0\""), "{toml}");
    assert!(notes.contains("goes as fast as it can"), "{notes}");
    let capped = "[a]\nrw=randrw\nrwmixread=95\nsize=1m\nrate_iops=,9\ntime_based\nruntime=2\n";
    let refused = import(capped, "a.fio").expect_err("the mix decides there").to_string();
    assert!(refused.contains("half and half"), "{refused}");
    // Jobs with files of their own have two workloads each.
    let (toml, _) = job("[a]\nrw=rw\nsize=1m\nnumjobs=2\nrate_iops=9,\ntime_based\nruntime=2\n");
    assert_eq!(toml.matches("[[workload]]").count(), 4, "{toml}");
    assert!(toml.contains("a.1.0"), "{toml}");
}

#[test]
fn a_run_ends_once_it_is_steady() {
    let steady = "ss=iops:10%\nss_dur=30s\nss_ramp=10s\ntime_based\nruntime=5m\n";
    let rule = [
        "figure = \"iops\"",
        "rule = \"deviation\"",
        "limit = 0.1",
        "window = \"30s\"",
        "ramp = \"10s\"",
    ];
    has(&format!("[a]\nsize=1m\n{steady}"), &rule);
    has(
        &format!("[global]\ngroup_reporting\nsize=1m\n{steady}[a]\n[b]\n"),
        &["window = \"30s\"", "duration = \"5min\""],
    );
    has(&format!("[a]\nsize=1m\nnumjobs=4\n{steady}"), &["in fio each by itself"]);
    has("[a]\nsize=1m\nss=iops:10%\n", &["without steadystate_duration it ends nothing"]);
    has("[a]\nsize=1m\nss_dur=10\n", &["rule = \"slope\"", "limit = 0.0001"]);
}

#[test]
fn zones_sizes_and_engines() {
    let zones = "zonemode=strided\nzonesize=64k\nzoneskip=192k\n";
    has(&format!("[a]\nsize=1m\n{zones}"), &["stride = \"256KiB\"", "run_length = 16"]);
    has(
        "[a]\nsize=1m\nioengine=mmap\niodepth=4\nsync=1\nrw=write\n",
        &["engine = \"mmap\"", "changes nothing"],
    );
    has("[a]\nsize=1m\nioengine=io_uring\nforce_async=4\n", &["force_async = 4"]);
    let (toml, _) = job("[a]\nsize=1m\nrw=randread\nbsrange=1k-2k\nbs_unaligned\n");
    assert!(toml.contains("1025B") && toml.contains("align = \"1KiB\""), "{toml}");
    has("[a]\nsize=1m\nrw=write\nfill_device=1\n", &["size ends it first"]);
    has(
        "[a]\nsize=1m\nrw=write\ndedupe_percentage=50\ndedupe_mode=working_set\n",
        &["drawn from all of them"],
    );
    has("[a]\nsize=1m\nexitall\n[b]\nnew_group\nsize=1m\n", &["the only job"]);
    let devices = "[a]\nfilename=x/f:y/f:z/f\nsize=3m\ndirect=1\nioengine=libaio\niodepth=8\n";
    let (toml, _) = job(devices);
    let depths: Vec<_> = toml.lines().filter(|l| l.starts_with("queue_depth")).collect();
    assert_eq!(depths, ["queue_depth = 3", "queue_depth = 3", "queue_depth = 2"]);
}

#[test]
fn keys_of_files_as_people_write_them() {
    let of = |lines: &str| format!("[a]\nsize=1m\n{lines}\n");
    has(
        &of("rw=randread\nbs=4k,64k\nbs_is_seq_rand"),
        &["block_size = \"64KiB\"", "align = \"4KiB\"", "cuts reads by the first"],
    );
    let (toml, _) = job(&of("rw=randwrite\nbs=4k,64k\nbs_is_seq_rand"));
    assert!(toml.contains("block_size = \"64KiB\"") && !toml.contains("align"), "{toml}");
    has(&of("rw=write\nbs=8k,64k\nbs_is_seq_rand"), &["block_size = \"8KiB\""]);
    has(
        &of("ioengine=pvsync2\nhipri\ndirect=1\niodepth=4"),
        &["engine = \"sync\"", "takes no notice of it"],
    );
    has(&of("unlink=1"), &["keep = false", "unlink = true"]);
    let both = of("percentile_list=50:99\n[b]\nsize=1m\npercentile_list=99:99.9");
    has(&both, &["percentiles = [\"50\", \"99\", \"99.9\"]", "those of all sections"]);
    for (lines, why) in [
        ("ioengine=io_uring\niodepth=8192", "more than 4096 in flight"),
        ("filename=/dev/null", "no file, directory or block device"),
        ("bs_is_seq_rand\nrw=randread\npercentage_random=50", "a size of their own"),
        ("bs_is_seq_rand\nrw=randrw\nbs=4k,64k", "at multiples of different sizes"),
        ("ioengine=psync\nhipri", "only the ring engine can do it"),
    ] {
        let e = import(&of(lines), "a.fio").expect_err(lines);
        assert!(e.to_string().contains(why), "{lines}: {e}");
    }
}

#[test]
fn a_command_line_says_what_is_written_where() {
    let asked = front_end(
        "fio --name=a --output-format=normal,json+ --output out.json --status-interval=1",
    );
    assert!(
        asked.json && asked.output.as_deref() == Some("out.json") && asked.notes.len() == 2,
        "{asked:?}"
    );
    assert!(!front_end("fio --name=a --output=x").json);
    let behind = front_end("fio --name=a --filename=f --directory=d --name=b --directory=d").notes;
    assert!(behind.len() == 1 && behind[0].contains("does not lie in it"), "{behind:?}");
    assert_eq!(front_end("[a]\ndescription=fio --output=x\n"), front_end(""));
    for (words, part) in [
        ("--client=h", "makes it do something else"),
        ("--minimal", "makes it do something else"),
        ("--output-format=terse", "terse output is not written"),
        ("--readonly", "[a] writes, which --readonly forbids"),
    ] {
        let said =
            import(&format!("fio {words} --name=a --rw=write --size=1m"), "x").expect_err(words);
        assert!(said.to_string().contains(part), "{words}: {said}");
    }
    import("fio --readonly --name=a --rw=read --size=1m", "x").expect("it only reads");
}
