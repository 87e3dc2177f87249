//! Clocks, starts, stalls and losses over pretended hosts: what the report says is what was done to them.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Failed, has_namespaces, hosts, json, ranks, said};

const RATE: &str = "[run]\nduration = \"TIME\"\nseed = 3\ninterval = \"100ms\"\n[target]\ndriver = \"null\"\n\
                    [[workload]]\nmix = \"read\"\nblock_size = \"4KiB\"\n\
                    arrival = { kind = \"constant\", rate = \"4000/s\" }\n";

fn job(dir: &Path, time: &str) -> Result<(), Failed> {
    Ok(std::fs::write(dir.join("job.toml"), RATE.replace("TIME", time))?)
}

/// A time namespace gives the truth: one clock an hour ahead, another 100 s behind.
#[test]
fn the_clock_of_a_host_is_known_within_its_bound() -> Result<(), Failed> {
    if !has_namespaces("the_clock_of_a_host_is_known_within_its_bound") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    job(tmp.path(), "500ms")?;
    let ahead = [("h0", None), ("h1", Some(3_600)), ("h2", Some(-100))];
    let words = ["run", "job.toml", "--output", "RUN"];
    let (code, text) = said(&hosts(tmp.path(), &ahead, &words).output()?);
    assert_eq!(code, Some(0), "{text}");
    let scale = json(&tmp.path().join("RUN/scale.json"))?;
    for (rank, truth) in [(1, 3_600_000_000_000i64), (2, -100_000_000_000)] {
        let clocks = scale["ranks"][rank]["clocks"].as_array().cloned().unwrap_or_default();
        assert_eq!(clocks.len(), 2, "before and after: {scale}");
        for clock in clocks {
            let off = clock["offset_ns"].as_i64().unwrap_or(0).abs_diff(truth);
            let bound = clock["bound_ns"].as_u64().unwrap_or(0);
            assert!(off <= bound, "{off} ns off, bound {bound}");
        }
    }
    // On one clock: the whole run is as long as one rank's, not an hour.
    let summary = json(&tmp.path().join("RUN/summary.json"))?;
    let time = summary["totals"]["duration_ns"].as_u64().unwrap_or(0);
    assert!((500_000_000..2_000_000_000).contains(&time), "{time}");
    let hosts = summary.pointer("/hosts/hosts").and_then(|h| h.as_array()).map_or(0, Vec::len);
    assert_eq!(hosts, 3);
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plain.contains("Clocks known to") && plain.contains(" ppm; first submits"), "{text}");
    assert!(summary["hosts"]["clock_drift_ppm"].is_f64(), "{summary}");
    Ok(())
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) -> Result<(), Failed> {
    let begin = Instant::now();
    while !there() {
        if begin.elapsed() > Duration::from_secs(30) {
            return Err(format!("no {what} in time").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The process of a rank, once the load has begun.
fn measuring(run: &Path, rank: usize) -> Result<u32, Failed> {
    wait_for("scale.json", || run.join("scale.json").is_file())?;
    std::thread::sleep(Duration::from_millis(1_500));
    let scale = json(&run.join("scale.json"))?;
    Ok(scale["ranks"][rank]["pid"].as_u64().unwrap_or(0) as u32)
}

fn signal(pid: u32, name: &str) -> Result<(), Failed> {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status()?;
    if sent.success() { Ok(()) } else { Err(format!("no process {pid}").into()) }
}

fn start(dir: &Path, all: &[(&str, Option<i64>)]) -> Result<Child, Failed> {
    let words = ["run", "job.toml", "--output", "RUN"];
    let log = std::fs::File::create(dir.join("log"))?;
    let mut command = hosts(dir, all, &words);
    Ok(command.stdout(log.try_clone()?).stderr(log).spawn()?)
}

#[test]
fn a_stopped_host_is_slow_and_not_dead() -> Result<(), Failed> {
    if !has_namespaces("a_stopped_host_is_slow_and_not_dead") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    job(tmp.path(), "3s")?;
    let run = tmp.path().join("RUN");
    let mut child = start(tmp.path(), &[("h0", None), ("h1", None)])?;
    let pid = measuring(&run, 1)?;
    signal(pid, "STOP")?;
    std::thread::sleep(Duration::from_millis(600));
    signal(pid, "CONT")?;
    let code = child.wait()?.code();
    let text = std::fs::read_to_string(tmp.path().join("log"))?;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("Only h1 stalled at"), "{text}");
    let stalls = json(&run.join("summary.json"))?["hosts"]["stalls"].clone();
    // The longest is the one that was made; a busy machine may have others.
    assert_eq!(stalls[0]["hosts"], serde_json::json!(["h1"]), "{stalls}");
    Ok(())
}

/// A host that stands still for a moment again and again is slower than the other, and that is no chance.
#[test]
fn a_slow_host_is_named_and_the_difference_is_real() -> Result<(), Failed> {
    if !has_namespaces("a_slow_host_is_named_and_the_difference_is_real") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    job(tmp.path(), "7s")?;
    let run = tmp.path().join("RUN");
    let mut child = start(tmp.path(), &[("h0", None), ("h1", None)])?;
    let pid = measuring(&run, 1)?;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(5_500) {
        signal(pid, "STOP")?;
        std::thread::sleep(Duration::from_millis(6));
        signal(pid, "CONT")?;
        std::thread::sleep(Duration::from_millis(15));
    }
    let code = child.wait()?.code();
    let text = std::fs::read_to_string(tmp.path().join("log"))?;
    assert_eq!(code, Some(0), "{text}");
    let hosts = json(&run.join("summary.json"))?["hosts"]["hosts"].clone();
    let slower = |n: usize| hosts[n]["against_others"]["slower"].as_bool();
    assert_eq!((slower(0), slower(1)), (Some(false), Some(true)), "{hosts}");
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plain.contains("h1 is slower, and the difference is real"), "{text}");
    Ok(())
}

/// A rank that ends much earlier or later than rank 0 is no lost one.
#[test]
fn ranks_end_far_apart_and_none_is_lost() -> Result<(), Failed> {
    if !has_namespaces("ranks_end_far_apart_and_none_is_lost") {
        return Ok(());
    }
    // Both wait for most of their time.
    std::thread::scope(|scope| {
        let begin = |late| scope.spawn(move || ended_far_apart(late).map_err(|e| e.to_string()));
        let runs = [0, 1].map(begin);
        runs.into_iter().try_for_each(|run| run.join().expect("no panic"))
    })?;
    Ok(())
}

/// Stops a rank until the other one has ended long since, and lets it go on.
fn ended_far_apart(late: usize) -> Result<(), Failed> {
    let tmp = tempfile::tempdir()?;
    let work = RATE.replace("duration = \"TIME\"", "operations = 12000");
    std::fs::write(tmp.path().join("job.toml"), work)?;
    let run = tmp.path().join("RUN");
    let mut child = start(tmp.path(), &[("h0", None), ("h1", Some(50))])?;
    let pid = measuring(&run, late)?;
    signal(pid, "STOP")?;
    // Rank 0 says that it waits after ten seconds, which begin when its own files are written.
    let waits = "waiting for rank 1 on h1";
    let log = || std::fs::read_to_string(tmp.path().join("log")).unwrap_or_default();
    let stopped = Instant::now();
    while stopped.elapsed() < Duration::from_secs(13)
        || (late == 1 && !log().contains(waits) && stopped.elapsed() < Duration::from_secs(60))
    {
        std::thread::sleep(Duration::from_millis(200));
    }
    signal(pid, "CONT")?;
    let code = child.wait()?.code();
    let text = std::fs::read_to_string(tmp.path().join("log"))?;
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("lost"), "{text}");
    assert_eq!(text.contains(waits), late == 1, "{text}");
    let scale = json(&tmp.path().join("RUN/scale.json"))?;
    assert_eq!(scale["ranks"][1]["clocks"].as_array().map(Vec::len), Some(2), "{scale}");
    assert_eq!(scale["merged"][0]["count"], 12_000, "{scale}");
    Ok(())
}

/// All have measured, and rank 0 cannot write what it makes of that: nobody waits for it, and nothing is lost.
#[test]
fn what_rank_0_cannot_put_together_is_kept_by_the_ranks() -> Result<(), Failed> {
    if !has_namespaces("what_rank_0_cannot_put_together_is_kept_by_the_ranks") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    job(tmp.path(), "3s")?;
    let run = tmp.path().join("RUN");
    let mut child = start(tmp.path(), &[("h0", None), ("h1", Some(50))])?;
    measuring(&run, 1)?;
    let scale = std::fs::read(run.join("scale.json"))?;
    std::fs::remove_file(run.join("scale.json"))?;
    std::fs::create_dir_all(run.join("scale.json/in-the-way"))?;
    let code = child.wait()?.code();
    let text = std::fs::read_to_string(tmp.path().join("log"))?;
    assert_eq!(code, Some(5), "{text}");
    assert!(text.contains("what the ranks measured is not lost"), "{text}");
    // The cause is removed, and the report is made as it says.
    std::fs::remove_dir_all(run.join("scale.json"))?;
    std::fs::write(run.join("scale.json"), scale)?;
    let (code, text) = said(&ranks(tmp.path(), 1, &["report", "RUN"])?);
    assert_eq!(code, Some(5), "{text}");
    let ranks = json(&run.join("summary.json"))?["hosts"]["ranks"].clone();
    assert_eq!(ranks.as_array().map(Vec::len), Some(2), "{ranks}");
    Ok(())
}

#[test]
fn a_stall_of_all_hosts_is_one_event() -> Result<(), Failed> {
    if !has_namespaces("a_stall_of_all_hosts_is_one_event") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    job(tmp.path(), "3s")?;
    let run = tmp.path().join("RUN");
    let mut child = start(tmp.path(), &[("h0", None), ("h1", None)])?;
    let pids = [
        measuring(&run, 0)?,
        json(&run.join("scale.json"))?["ranks"][1]["pid"].as_u64().unwrap_or(0) as u32,
    ];
    for name in ["STOP", "CONT"] {
        pids.iter().try_for_each(|pid| signal(*pid, name))?;
        std::thread::sleep(Duration::from_millis(600));
    }
    assert_eq!(child.wait()?.code(), Some(0));
    let text = std::fs::read_to_string(tmp.path().join("log"))?;
    assert!(text.contains("All hosts stalled at"), "{text}");
    let stalls = json(&run.join("summary.json"))?["hosts"]["stalls"].clone();
    assert_eq!(stalls[0]["shared"], true, "{stalls}");
    let long = stalls.as_array().into_iter().flatten();
    let long = long.filter(|s| s["length_ns"].as_u64().is_some_and(|ns| ns > 300_000_000));
    assert_eq!(long.count(), 1, "one event: {stalls}");
    Ok(())
}

fn tool(name: &str, words: &[&str]) -> bool {
    Command::new(name).args(words).status().is_ok_and(|status| status.success())
}

/// A disk that ranks share; thawed, unmounted and gone with this value.
struct SharedDisk(String);

impl SharedDisk {
    /// None where no loop device can be had.
    fn make(dir: &Path) -> Result<Option<SharedDisk>, Failed> {
        let (image, disk) = (dir.join("image"), dir.join("disk"));
        std::fs::create_dir(&disk)?;
        std::fs::File::create(&image)?.set_len(64 << 20)?;
        let (image, disk) = (image.display().to_string(), disk.display().to_string());
        let made = tool("mkfs.ext4", &["-q", "-F", &image])
            && tool("mount", &["-o", "loop", &image, &disk]);
        Ok(made.then_some(SharedDisk(disk)))
    }
}

impl Drop for SharedDisk {
    fn drop(&mut self) {
        // Where it was thawed this fails.
        let thaw = Command::new("fsfreeze").args(["-u", &self.0]).stderr(Stdio::null()).status();
        drop(thaw);
        tool("umount", &[&self.0]);
    }
}

/// What stands still below all hosts is no host's.
#[test]
fn a_stall_of_the_disk_that_hosts_share_is_one_event_of_all() -> Result<(), Failed> {
    let test = "a_stall_of_the_disk_that_hosts_share_is_one_event_of_all";
    if !has_namespaces(test) {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    let Some(disk) = SharedDisk::make(tmp.path())? else {
        eprintln!("skipped: {test}: no loop devices");
        return Ok(());
    };
    let file =
        "driver = \"file\"\npath = \"disk/data\"\nsize = \"4MiB\"\noptions = { direct = false }";
    let text = RATE.replace("TIME", "3s").replace("driver = \"null\"", file);
    std::fs::write(tmp.path().join("job.toml"), text.replace("\"read\"", "\"write\""))?;
    let run = tmp.path().join("RUN");
    let mut child = start(tmp.path(), &[("h0", None), ("h1", None)])?;
    measuring(&run, 1)?;
    let frozen = tool("fsfreeze", &["-f", &disk.0]);
    std::thread::sleep(Duration::from_millis(600));
    let thawed = tool("fsfreeze", &["-u", &disk.0]);
    let code = child.wait()?.code();
    let text = std::fs::read_to_string(tmp.path().join("log"))?;
    assert!(frozen && thawed && code == Some(0), "{code:?} {text}");
    assert!(text.contains("All hosts stalled at"), "{text}");
    let stalls = json(&run.join("summary.json"))?["hosts"]["stalls"].clone();
    let long = stalls.as_array().into_iter().flatten();
    let long: Vec<_> =
        long.filter(|s| s["length_ns"].as_u64().is_some_and(|ns| ns > 400_000_000)).collect();
    assert!(long.len() == 1 && long[0]["shared"] == true, "{stalls}");
    assert_eq!(long[0]["hosts"], serde_json::json!(["h0", "h1"]), "{stalls}");
    Ok(())
}

/// Open MPI ends the job when a rank is killed; what the others measured is kept, and the report names the lost one.
#[test]
fn a_killed_rank_is_named_and_the_others_count() -> Result<(), Failed> {
    if !has_namespaces("a_killed_rank_is_named_and_the_others_count") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    job(tmp.path(), "4s")?;
    let run = tmp.path().join("RUN");
    let mut child = start(tmp.path(), &[("h0", None), ("h1", None), ("h2", Some(3_600))])?;
    signal(measuring(&run, 1)?, "KILL")?;
    let code = child.wait()?.code();
    let log = std::fs::read_to_string(tmp.path().join("log"))?;
    assert_ne!(code, Some(0), "{log}");
    let (code, text) = said(&ranks(tmp.path(), 1, &["report", "RUN"])?);
    assert_eq!(code, Some(5), "{text}\n{log}");
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plain.contains("rank 1 on h1 ended early"), "{text}");
    let summary = json(&run.join("summary.json"))?;
    let counts =
        summary.pointer("/hosts/ranks").and_then(|r| r.as_array()).cloned().unwrap_or_default();
    assert_eq!(counts.len(), 3, "what the killed one had in memory is salvaged: {text}");
    // The clock of the third is an hour ahead, and was measured before the load.
    let time = summary["totals"]["duration_ns"].as_u64().unwrap_or(0);
    assert!(time < 60_000_000_000, "{time}");
    assert!(plain.contains("The clock of h2 was measured once only"), "{text}");
    // A directory that is gone is a lost rank.
    std::fs::remove_dir_all(run.join("rank-0002"))?;
    let (code, text) = said(&ranks(tmp.path(), 1, &["report", "RUN"])?);
    assert_eq!(code, Some(5), "{text}");
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plain.contains("Rank 2 on h2 is lost"), "{text}");
    Ok(())
}
