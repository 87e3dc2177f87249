//! `/proc/diskstats` of the disks below the target, as the columns of iostat -x.

use std::sync::Arc;

use taillight_machine::io_counters::DiskCounters;
use taillight_machine::{DeviceNumber, Sys};

use super::{HostSource, SampleOutput, window};

const NAME: &str = "disk";

/// Kinds of request, by the letter in the names of their columns, and where their counters begin
/// (count, merged, sectors, ms). Flushes have a count and ms alone, and are apart in `values`.
const KINDS: [(char, usize); 3] =
    [('r', DiskCounters::READS), ('w', DiskCounters::WRITES), ('d', DiskCounters::DISCARDS)];

/// What a disk did between two readings. A kind of request whose counters went back (another device) has no values; if
/// that is so of reads or writes, there are no `aqu-sz` and `%util` either.
pub(crate) fn values(
    before: &DiskCounters,
    now: &DiskCounters,
    item: &Arc<str>,
    out: &mut SampleOutput,
) {
    // Milliseconds are 32 bits wide in the kernel and wrap.
    let ms = |i: usize| Some(f64::from((now.at(i)? as u32).wrapping_sub(before.at(i)? as u32)));
    let count = |i: usize| Some(now.at(i)?.checked_sub(before.at(i)?)? as f64);
    let item = Some(item);
    for (kind, at) in KINDS {
        let counts = (count(at), count(at + 1), count(at + 2), ms(at + 3));
        let (Some(ios), Some(merged), Some(sectors), Some(waited)) = counts else {
            continue;
        };
        out.rate(NAME, &format!("{kind}/s"), item, ios);
        out.rate(NAME, &format!("{kind}kB/s"), item, sectors / 2.0);
        out.rate(NAME, &format!("{kind}rqm/s"), item, merged);
        if ios + merged > 0.0 {
            out.put(NAME, &format!("%{kind}rqm"), item, 100.0 * merged / (ios + merged));
        }
        if ios > 0.0 {
            out.put(NAME, &format!("{kind}_await"), item, waited / ios);
            out.put(NAME, &format!("{kind}areq-sz"), item, sectors / 2.0 / ios);
        }
    }
    if let (Some(flushes), Some(waited)) = (count(15), ms(16)) {
        out.rate(NAME, "f/s", item, flushes);
        if flushes > 0.0 {
            out.put(NAME, "f_await", item, waited / flushes);
        }
    }
    if let (Some(_), Some(_), Some(busy), Some(weighted)) = (count(0), count(4), ms(9), ms(10)) {
        out.rate(NAME, "aqu-sz", item, weighted / 1000.0);
        out.rate(NAME, "%util", item, busy / 10.0);
    }
}

/// One disk below the target.
struct SampledDisk {
    number: DeviceNumber,
    name: Arc<str>,
    before: Option<DiskCounters>,
    /// A reading did not have it; stays set when it comes back.
    gone: bool,
}

/// The disks below the target.
pub(crate) struct DiskSource {
    list: Vec<SampledDisk>,
    /// Whether `/proc/diskstats` could be read when the source was made.
    readable: bool,
    /// As many counters as the last line had: `missing` says by it what the kernel does not count.
    fields: usize,
}

impl DiskSource {
    /// For the disks below a target.
    pub fn new(sys: &Sys, numbers: Vec<DeviceNumber>) -> DiskSource {
        let text = sys.text("/proc/diskstats").unwrap_or_default();
        let known = |number: &DeviceNumber| {
            let counters = DiskCounters::of(&text, *number)?;
            Some(SampledDisk {
                number: *number,
                name: counters.name.as_str().into(),
                before: None,
                gone: false,
            })
        };
        DiskSource {
            list: numbers.iter().filter_map(known).collect(),
            readable: !text.is_empty(),
            fields: 17,
        }
    }

    /// Their names, upper ones first.
    pub fn names(&self) -> Vec<String> {
        self.list.iter().map(|d| d.name.to_string()).collect()
    }

    /// Their numbers and names.
    pub fn numbers(&self) -> Vec<(DeviceNumber, Arc<str>)> {
        let list = self.list.iter();
        list.map(|d| (d.number, d.name.clone())).collect()
    }
}

impl HostSource for DiskSource {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, sys: &Sys, mut out: Option<&mut SampleOutput>) {
        if self.list.is_empty() {
            return;
        }
        let text = sys.text("/proc/diskstats").unwrap_or_default();
        for disk in &mut self.list {
            let now = DiskCounters::of(&text, disk.number);
            disk.gone |= now.is_none();
            self.fields = now.as_ref().map_or(self.fields, |n| n.fields.len());
            let name = disk.name.clone();
            window(&mut disk.before, now, out.as_deref_mut(), |a, b, out| {
                values(a, b, &name, out);
            });
        }
    }

    fn missing(&self) -> Option<String> {
        if !self.readable {
            return Some("/proc/diskstats cannot be read".to_owned());
        }
        if self.list.is_empty() {
            return Some("the target is on no local disk".to_owned());
        }
        let gone: Vec<&str> = self.list.iter().filter(|d| d.gone).map(|d| &*d.name).collect();
        if !gone.is_empty() {
            return Some(format!("{} went away in the run", gone.join(", ")));
        }
        match self.fields {
            17.. => None,
            15.. => Some("no flushes: the kernel counts them since 5.5".to_owned()),
            _ => Some("no discards and flushes: the kernel is older than 4.18".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SampledValues, of, put, two};
    use super::*;

    const BEFORE: &str =
        " 254       0 vda 100 10 1600 50 200 100 6400 400 0 300 450 7 0 112 3 5 9\n";
    const AFTER: &str =
        " 254       0 vda 300 30 4800 450 200 100 6400 400 3 1300 4450 7 0 112 3 15 109\n";

    fn sampled(before: &str, after: &str) -> (DiskSource, SampledValues) {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        put(root, "proc/diskstats", before);
        let numbers = ["254:0", "8:0"].map(|n| n.parse().unwrap()).to_vec();
        let mut disks = DiskSource::new(&Sys::at(root), numbers);
        let values = two(&mut disks, root, || put(root, "proc/diskstats", after));
        (disks, values)
    }

    #[test]
    fn columns_are_those_of_iostat() {
        let (disks, values) = sampled(BEFORE, AFTER);
        let v = |name| of(&values, name);
        assert_eq!(v("r/s"), Some(100.0));
        assert_eq!(v("rkB/s"), Some(800.0));
        assert_eq!(v("rrqm/s"), Some(10.0));
        assert_eq!(v("%rrqm").map(|p| (p * 100.0).round()), Some(909.0));
        assert_eq!(v("r_await"), Some(2.0));
        assert_eq!(v("rareq-sz"), Some(8.0));
        assert_eq!(v("w/s"), Some(0.0));
        assert_eq!(v("w_await"), None, "no writes, no wait");
        assert_eq!(v("f/s"), Some(5.0));
        assert_eq!(v("f_await"), Some(10.0));
        assert_eq!(v("aqu-sz"), Some(2.0));
        assert_eq!(v("%util"), Some(50.0));
        assert_eq!(values[0].1.as_deref(), Some("vda"));
        assert_eq!(disks.missing(), None);
    }

    #[test]
    fn milliseconds_wrap_and_counters_that_go_back_give_nothing() {
        let wrapped = BEFORE.replace(" 300 450 ", " 4294967196 450 ");
        let (_, values) = sampled(&wrapped, &AFTER.replace(" 1300 ", " 900 "));
        assert_eq!(of(&values, "%util"), Some(50.0));
        let (_, values) = sampled(AFTER, BEFORE);
        assert_eq!(of(&values, "r/s"), None);
        assert_eq!(of(&values, "w/s"), Some(0.0));
        assert_eq!((of(&values, "%util"), of(&values, "aqu-sz")), (None, None));
    }

    #[test]
    fn old_kernels_lack_columns_and_disks_may_go() {
        let short = "254 0 vda 100 10 1600 50 200 100 6400 400 0 300 450\n";
        let (disks, values) = sampled(short, short);
        assert_eq!((of(&values, "d/s"), of(&values, "f/s")), (None, None));
        assert!(disks.missing().unwrap().contains("discards"));
        let (disks, values) = sampled(BEFORE, "8 0 sda 1\n");
        assert!(values.is_empty());
        assert!(disks.missing().unwrap().contains("vda went away"));
    }
}
