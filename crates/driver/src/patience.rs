//! Waiting for something that another program does or holds, with a time limit: a [`Deadline`] gives
//! slices of 100 ms at most and ends when the run is asked to stop; [`wait`] asks again after each
//! pause.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use taillight_core::StopFlag;

/// Longest time between two looks at the stop flag.
const SLICE: Duration = Duration::from_millis(100);

/// How long a busy device or file is waited for, and the pause between two tries: a run that was killed or gave up on
/// I/O lets go of it a moment after its end, when the kernel has taken its ring apart.
pub const BUSY_WAIT: Duration = Duration::from_millis(500);
pub const BUSY_PAUSE: Duration = Duration::from_millis(25);

/// When one wait ends; what arrives meanwhile does not extend it.
pub struct Deadline<'a> {
    until: Instant,
    stop: &'a StopFlag,
}

impl Deadline<'_> {
    pub fn within(most: Duration, stop: &StopFlag) -> Deadline<'_> {
        Deadline { until: Instant::now() + most, stop }
    }

    /// The share of what is left that one of `waits` may have, one after the other.
    pub fn share(&self, waits: usize) -> Deadline<'_> {
        let left = self.until.saturating_duration_since(Instant::now());
        let waits = u32::try_from(waits.max(1)).unwrap_or(u32::MAX);
        Deadline { until: Instant::now() + left / waits, stop: self.stop }
    }

    /// How long to wait before asking again. Errors: `TimedOut`, `Interrupted` when the run is to stop.
    pub fn slice(&self) -> io::Result<Duration> {
        if self.stop.stopped() {
            return Err(io::Error::new(ErrorKind::Interrupted, "stopped while waiting"));
        }
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left.min(SLICE)) }
    }

    /// Waits for an event of a connection, for a slice at most: `Ok` either way. Errors: as [`Deadline::slice`].
    pub fn wait_for(&self, fd: impl AsFd, events: PollFlags) -> io::Result<()> {
        let slice = Timespec { tv_sec: 0, tv_nsec: i64::from(self.slice()?.subsec_nanos()) };
        match poll(&mut [PollFd::new(&fd, events)], Some(&slice)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

/// Asks `is_free` until it gives something, `most` is over or the run is to stop, with a pause between
/// two questions; the last answer counts, so that one question is always asked.
pub fn wait<T>(
    most: Duration,
    pause: Duration,
    stop: &StopFlag,
    mut is_free: impl FnMut() -> Option<T>,
) -> Option<T> {
    let deadline = Deadline::within(most, stop);
    loop {
        let answer = is_free();
        if answer.is_some() || deadline.slice().is_err() {
            return answer;
        }
        std::thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_until_there_is_an_answer_or_no_patience() {
        let stop = StopFlag::default();
        let mut asked = 0;
        let mut third = || {
            asked += 1;
            (asked == 3).then_some(asked)
        };
        let long = Duration::from_secs(3_600);
        assert_eq!(wait(long, Duration::ZERO, &stop, &mut third), Some(3));
        assert_eq!(wait(Duration::ZERO, Duration::ZERO, &stop, &mut third), None, "asked once");
        stop.stop();
        assert_eq!(wait(long, Duration::ZERO, &stop, &mut third), None, "asked once");
        assert_eq!(asked, 5);
    }
}
