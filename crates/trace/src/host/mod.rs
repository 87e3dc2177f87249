//! Host samples: what disks, CPUs, memory, limits, temperatures and the benchmark's own threads did while a run
//! went on. `cli` starts and ends the sampling.
//!
//! A helper thread reads procfs, sysfs and cgroups at the interval, without any rights, and adds the
//! values to `host.parquet`. Values are means over an interval, or states at its end (dirty pages,
//! temperatures), and prove no cause. Each source is a file beside this one.

mod cgroup;
mod cpu;
mod disk;
mod memory;
mod pressure;
mod tasks;
mod temperature;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use taillight_core::{Clock, Error, MonoClock, Result};
use taillight_machine::Sys;
use taillight_machine::block::disks_below;
use taillight_rundir::host::{HostInfo, HostRow, Metric, SourceInfo, host_writer, metric};
use taillight_rundir::{RunDir, TableWriter};

/// Shortest time between samples: shorter ones cost more than they tell.
const SHORTEST: Duration = Duration::from_millis(100);
/// Values that a report reads with ease; past that samples are taken half as often.
const VALUES_MAX: usize = 2 << 20;

/// One value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MetricValue {
    metric: &'static Metric,
    item: Option<Arc<str>>,
    value: f64,
}

/// Where sources put the values of one sample.
#[derive(Debug)]
pub(crate) struct SampleOutput {
    /// Length of the window, seconds.
    seconds: f64,
    values: Vec<MetricValue>,
}

impl SampleOutput {
    fn new(seconds: f64) -> SampleOutput {
        SampleOutput { seconds, values: Vec::new() }
    }

    /// Puts a value as it is. Names that are not published are left out; a test finds them.
    fn put(&mut self, source: &str, name: &str, item: Option<&Arc<str>>, value: f64) {
        let known = metric(source, name);
        debug_assert!(known.is_some(), "{source} {name}");
        if let Some(metric) = known.filter(|_| value.is_finite()) {
            self.values.push(MetricValue { metric, item: item.cloned(), value });
        }
    }

    /// Puts a count of the window as a rate.
    fn rate(&mut self, source: &str, name: &str, item: Option<&Arc<str>>, count: f64) {
        self.put(source, name, item, count / self.seconds);
    }
}

/// A place where samples come from.
pub(crate) trait HostSource: Send {
    /// Name, as in `host.parquet`.
    fn name(&self) -> &'static str;
    /// Reads the counters and puts what they did since the last call; the first call only reads.
    fn sample(&mut self, sys: &Sys, out: Option<&mut SampleOutput>);
    /// Why it says nothing, or not everything.
    fn missing(&self) -> Option<String>;
}

/// What the window between two readings of counters gives, and the reading for the next one.
/// `None` in `now` means the counters could not be read: then the window has no values.
pub(crate) fn window<T>(
    before: &mut Option<T>,
    now: Option<T>,
    out: Option<&mut SampleOutput>,
    put: impl FnOnce(&T, &T, &mut SampleOutput),
) {
    if let (Some(before), Some(now), Some(out)) = (before.as_ref(), now.as_ref(), out) {
        put(before, now, out);
    }
    *before = now;
}

/// A source that is two readings of the same counters.
pub(crate) struct CounterSource<T> {
    name: &'static str,
    read: fn(&Sys) -> Option<T>,
    /// Puts what happened between two readings.
    put: fn(&T, &T, &mut SampleOutput),
    /// Why it says nothing, when nothing could be read.
    missing: &'static str,
    before: Option<T>,
}

impl<T> CounterSource<T> {
    pub const fn new(
        name: &'static str,
        read: fn(&Sys) -> Option<T>,
        put: fn(&T, &T, &mut SampleOutput),
        missing: &'static str,
    ) -> CounterSource<T> {
        CounterSource { name, read, put, missing, before: None }
    }
}

impl<T: Send> HostSource for CounterSource<T> {
    fn name(&self) -> &'static str {
        self.name
    }
    fn sample(&mut self, sys: &Sys, out: Option<&mut SampleOutput>) {
        window(&mut self.before, (self.read)(sys), out, self.put);
    }
    fn missing(&self) -> Option<String> {
        self.before.is_none().then(|| self.missing.to_owned())
    }
}

/// A sample: begin and end, CLOCK_MONOTONIC ns, and its values.
type HostSample = (i64, i64, Vec<MetricValue>);

/// Who is told of every sample.
pub type HostWatch = Box<dyn FnMut(Vec<HostRow>) + Send>;

/// What the helper thread leaves.
struct HostSamples {
    samples: u64,
    sources: Vec<SourceInfo>,
    cpu_ns: u64,
}

/// Sampling under way.
pub struct Sampler {
    over: Sender<()>,
    thread: JoinHandle<(HostSamples, TableWriter<HostRow>)>,
    info: HostInfo,
}

impl Sampler {
    /// Begins to sample every `interval`, at least 100 ms; `places` hold what is measured, if it is on local
    /// disks. Each sample is told to `watch` when it is taken, on the sampling thread.
    /// Errors: `Unavailable` when no thread can be started.
    pub fn start(
        interval: Duration,
        places: &[PathBuf],
        sys: &Sys,
        dir: &RunDir,
        mut watch: Option<HostWatch>,
    ) -> Result<Sampler> {
        let interval = interval.max(SHORTEST);
        let numbers = disks_below(sys, places).iter().map(|d| d.number).collect();
        let disks = disk::DiskSource::new(sys, numbers);
        let info = HostInfo {
            interval_ns: interval.as_nanos() as u64,
            disks: disks.names(),
            ..HostInfo::default()
        };
        let sources = sources(disks, sys);
        let (over, ended) = channel();
        let sys = sys.clone();
        let mut out = host_writer(dir);
        let thread = std::thread::Builder::new()
            .name("host".to_owned())
            .spawn(move || {
                let each = |sample: &HostSample| {
                    watch.iter_mut().for_each(|watch| watch(rows(sample).collect()));
                    rows(sample).for_each(|row| out.put(row));
                };
                let gathered = gather(sources, &sys, interval, each, |pause| {
                    ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)
                });
                (gathered, out)
            })
            .map_err(|e| Error::unavailable("cannot start a thread").source(e))?;
        Ok(Sampler { over, thread, info })
    }

    /// Ends sampling and `host.parquet`. Errors: `Unavailable` when the file cannot be written.
    pub fn finish(self) -> Result<HostInfo> {
        drop(self.over);
        let (gathered, out) =
            self.thread.join().map_err(|_| Error::internal("the sampler of the host panicked"))?;
        let mut info = self.info;
        info.samples = gathered.samples;
        info.cpu_ns = gathered.cpu_ns / (info.samples + 1);
        info.sources = gathered.sources;
        out.commit()?;
        Ok(info)
    }
}

fn sources(disks: disk::DiskSource, sys: &Sys) -> Vec<Box<dyn HostSource>> {
    let numbers = disks.numbers();
    vec![
        Box::new(disks),
        Box::new(cpu::source()),
        Box::new(tasks::TaskSource::default()),
        Box::new(pressure::source()),
        Box::new(memory::source()),
        Box::new(cgroup::CpuLimit::new(sys)),
        Box::new(cgroup::IoLimit::new(sys, numbers)),
        Box::new(temperature::TemperatureSource::new(sys)),
    ]
}

/// Samples until `pause` returns false; the last window ends then, and is left out where it is below 50 ms.
fn gather(
    mut sources: Vec<Box<dyn HostSource>>,
    sys: &Sys,
    mut interval: Duration,
    mut each: impl FnMut(&HostSample),
    mut pause: impl FnMut(Duration) -> bool,
) -> HostSamples {
    let (mut samples, mut kept) = (0, 0);
    let mut start = MonoClock.now().0;
    sources.iter_mut().for_each(|s| s.sample(sys, None));
    let mut due = start;
    loop {
        due += interval.as_nanos() as i64;
        let wait = due.saturating_sub(MonoClock.now().0).max(0) as u64;
        let more = pause(Duration::from_nanos(wait));
        let end = MonoClock.now().0;
        let mut out = SampleOutput::new((end - start).max(1) as f64 / 1e9);
        // A last piece too short for counters of 1 to 10 ms steps says nothing.
        if more || end - start >= 50_000_000 {
            sources.iter_mut().for_each(|s| s.sample(sys, Some(&mut out)));
            kept += out.values.len();
            samples += 1;
            each(&(start, end, out.values));
        }
        if !more {
            break;
        }
        start = end;
        due = due.max(end);
        if kept > VALUES_MAX {
            kept = 0;
            interval *= 2;
        }
    }
    let said =
        sources.iter().map(|s| SourceInfo { source: s.name().to_owned(), missing: s.missing() });
    let said = said.collect();
    let used = clock_gettime(ClockId::ThreadCPUTime);
    HostSamples {
        samples,
        sources: said,
        cpu_ns: used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64,
    }
}

fn rows((start_ns, end_ns, values): &HostSample) -> impl Iterator<Item = HostRow> {
    values.iter().map(|v| HostRow {
        start_ns: *start_ns,
        end_ns: *end_ns,
        source: v.metric.source.into(),
        item: v.item.as_deref().map(Into::into),
        metric: v.metric.name.into(),
        value: v.value,
    })
}

/// Synthetic trees.
#[cfg(test)]
pub(crate) mod testing {
    use std::path::Path;

    use super::*;

    /// Writes a file of a synthetic tree.
    pub fn put(root: &Path, path: &str, text: &str) {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    /// Metric, item and value of each value of a sample.
    pub type SampledValues = Vec<(&'static str, Option<String>, f64)>;

    /// Two samples two seconds apart; `change` runs in between.
    pub fn two(source: &mut dyn HostSource, root: &Path, change: impl FnOnce()) -> SampledValues {
        let sys = Sys::at(root);
        source.sample(&sys, None);
        change();
        let mut out = SampleOutput::new(2.0);
        source.sample(&sys, Some(&mut out));
        let values = out.values.into_iter();
        values.map(|v| (v.metric.name, v.item.map(|i| i.to_string()), v.value)).collect()
    }

    /// The value of a metric.
    pub fn of(values: &[(&'static str, Option<String>, f64)], name: &str) -> Option<f64> {
        values.iter().find(|v| v.0 == name).map(|v| v.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_rundir::{fixture, host::read_host, names};

    #[test]
    fn a_machine_without_any_source_says_so_and_gives_nothing() {
        let home = tempfile::tempdir().unwrap();
        let sys = Sys::at(home.path());
        let list = sources(disk::DiskSource::new(&sys, vec![]), &sys);
        let mut left = 3;
        let nothing = |sample: &HostSample| assert!(sample.2.is_empty());
        let gathered = gather(list, &sys, SHORTEST, nothing, |_| {
            left -= 1;
            left > 0
        });
        assert_eq!(gathered.sources.len(), 8);
        for source in gathered.sources {
            assert!(source.missing.is_some(), "{}", source.source);
        }
    }

    #[test]
    fn this_machine_is_sampled() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("run"), &fixture::manifest("r")).unwrap();
        let sys = Sys::default();
        let (told, watched) = channel();
        let watch: HostWatch = Box::new(move |sample| told.send(sample).unwrap());
        let sampler =
            Sampler::start(SHORTEST, &[home.path().to_owned()], &sys, &dir, Some(watch)).unwrap();
        std::thread::sleep(Duration::from_millis(350));
        let info = sampler.finish().unwrap();
        assert!(info.samples >= 2 && info.cpu_ns > 0, "{info:?}");
        let mut rows = Vec::new();
        read_host(&dir.file(names::HOST), &mut |mut group| {
            rows.append(&mut group);
            Ok(())
        })
        .unwrap();
        assert_eq!(watched.iter().flatten().collect::<Vec<_>>(), rows, "told as it is written");
        let idle = rows.iter().find(|r| &*r.metric == "%idle").unwrap();
        assert!((0.0..=100.0).contains(&idle.value));
        assert!(idle.end_ns > idle.start_ns);
        for disk in &info.disks {
            let is = |r: &&HostRow| r.item.as_deref() == Some(disk) && &*r.metric == "%util";
            assert!(rows.iter().any(|r| is(&r)), "{disk}");
        }
    }
}
