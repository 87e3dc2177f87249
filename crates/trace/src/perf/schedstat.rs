//! How long a thread has waited for a CPU, and how often it got one, from its schedstat.

use std::fs::File;
use std::os::unix::fs::FileExt;

use taillight_core::{Clock, MonoClock};
use taillight_machine::Sys;

/// A reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchedstatReading {
    /// Waits for a CPU that have ended, ns.
    pub waited: u64,
    /// Times it got a CPU.
    pub arrivals: u64,
    /// The reading was made between these stamps, CLOCK_MONOTONIC ns.
    pub from: i64,
    /// See `from`.
    pub to: i64,
}

/// The open file of one thread.
#[derive(Debug)]
pub struct Schedstat(File);

impl Schedstat {
    /// Opens the file of a thread of this process; none where the kernel has no schedstat.
    pub fn open(sys: &Sys, tid: u32) -> Option<Schedstat> {
        let path = sys.path(&format!("/proc/self/task/{tid}/schedstat"));
        File::open(path).ok().map(Schedstat)
    }

    /// Reads the counters; none when the thread is gone, or when they changed meanwhile: the kernel
    /// writes them one by one.
    pub fn read(&self) -> Option<SchedstatReading> {
        let from = MonoClock.now().0;
        let (first, second) = (self.once()?, self.once()?);
        let to = MonoClock.now().0;
        (first == second).then_some(SchedstatReading { from, to, ..second })
    }

    fn once(&self) -> Option<SchedstatReading> {
        let mut text = [0; 96];
        let length = self.0.read_at(&mut text, 0).ok()?;
        parse(std::str::from_utf8(text.get(..length)?).ok()?)
    }
}

fn parse(text: &str) -> Option<SchedstatReading> {
    let mut words = text.split_ascii_whitespace().map(str::parse);
    let mut next = || words.next()?.ok();
    let _ran: u64 = next()?;
    Some(SchedstatReading { waited: next()?, arrivals: next()?, ..SchedstatReading::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_or_nothing() {
        let reading = SchedstatReading { waited: 6, arrivals: 7, ..SchedstatReading::default() };
        assert_eq!(parse("5 6 7\n"), Some(reading));
        assert_eq!(parse("5 6\n"), None);
        assert_eq!(parse("a b c"), None);
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let own = Schedstat::open(&Sys::default(), tid);
        assert!(own.and_then(|s| s.once()).is_some_and(|r| r.arrivals > 0));
        let home = tempfile::tempdir().unwrap();
        assert!(Schedstat::open(&Sys::at(home.path()), tid).is_none());
    }
}
