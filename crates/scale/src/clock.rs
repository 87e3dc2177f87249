//! How far the clocks of two ranks are apart, with a bound: messages there and back. The smallest round trip
//! counts; the other clock was read somewhere inside it, so that the offset is at most half of it wrong,
//! however unlike the two ways are. Measured before and after a phase; between them the offset is a line.

use std::time::Duration;

use taillight_core::{Clock, Result};
use taillight_rundir::scale::ClockSample;

use crate::group::{Group, Patience};

/// Round trips of a measurement.
pub const PINGS: u32 = 100;
/// A round trip that takes longer ends the measurement.
const LONGEST: Duration = Duration::from_secs(10);

/// Measures the clock of `of` against `clock`, that of rank 0, which calls this. None when the other does not answer.
/// [`answer_pings`] is the other side.
pub fn ping(group: &mut dyn Group, of: u32, clock: &impl Clock) -> Result<Option<ClockSample>> {
    let mut best: Option<ClockSample> = None;
    for _ in 0..PINGS {
        let patience = Patience::spinning(LONGEST);
        let sent = clock.now().0;
        group.send(of, &[0; 8], patience)?;
        let Some(answer) = group.receive(of, patience)? else { return Ok(None) };
        let back = clock.now().0;
        let Ok(answer) = answer.try_into() else { return Ok(None) };
        let theirs = i64::from_le_bytes(answer);
        let round_trip_ns = back.saturating_sub(sent).max(0) as u64;
        if best.is_none_or(|b| round_trip_ns < b.round_trip_ns) {
            let middle = sent + (round_trip_ns / 2) as i64;
            best = Some(ClockSample {
                at_ns: middle,
                offset_ns: theirs.saturating_sub(middle),
                bound_ns: round_trip_ns.div_ceil(2),
                round_trip_ns,
            });
        }
    }
    Ok(best)
}

/// The side of the rank whose clock is measured by rank 0, which may come to it much later: the first message is
/// waited for with `first`. False when rank 0 is gone.
pub fn answer_pings(group: &mut dyn Group, clock: &impl Clock, first: Patience) -> Result<bool> {
    for n in 0..PINGS {
        let wait = if n == 0 { first } else { Patience::spinning(LONGEST) };
        let asked = group.receive(0, wait)?;
        // Rank 0 is heard: from here on it answers at once.
        let patience = Patience::spinning(LONGEST);
        if asked.is_none() {
            return Ok(false);
        }
        let now = clock.now().0.to_le_bytes();
        group.send(0, &now, patience)?;
    }
    Ok(true)
}

pub use taillight_rundir::scale::ClockMap;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalGroup;
    use taillight_core::{MonoClock, Stamp};

    /// A clock that is so far ahead.
    #[derive(Clone)]
    struct Shifted(i64);

    impl Clock for Shifted {
        fn now(&self) -> Stamp {
            Stamp(MonoClock.now().0 + self.0)
        }
    }

    /// 100 offsets, positive and negative, up to hours: the truth lies within the bound each time.
    #[test]
    fn the_estimate_lies_within_its_bound_of_the_truth() {
        let mut ranks = LocalGroup::of(2, 2);
        let (mut other, mut first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
        let other = &mut other;
        let mut truth = 1i64;
        for _ in 0..100 {
            truth =
                truth.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            let offset = truth % 10_000_000_000_000;
            let (long, ahead) = (Patience::of(Duration::from_secs(10)), Shifted(offset));
            let answered = std::thread::scope(|scope| {
                let answers = scope.spawn(|| answer_pings(other, &ahead, long));
                let sample = ping(&mut first, 1, &MonoClock).unwrap().unwrap();
                let off = sample.offset_ns.abs_diff(offset);
                assert!(off <= sample.bound_ns, "{off} {sample:?}");
                answers.join().unwrap().unwrap()
            });
            assert!(answered);
        }
    }

    /// Rank 0 comes to the clocks when its own load is over, later than a message of the measurement may take.
    #[test]
    fn a_rank_waits_for_the_first_message_as_long_as_it_is_told() {
        let mut ranks = LocalGroup::of(2, 2);
        let (mut other, mut first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
        let short = Patience::of(Duration::from_millis(20));
        assert!(!answer_pings(&mut other, &MonoClock, short).unwrap(), "nobody asks");
        let long = Patience::of(Duration::from_secs(30));
        let sample = std::thread::scope(|scope| {
            scope.spawn(|| answer_pings(&mut other, &MonoClock, long).unwrap());
            std::thread::sleep(Duration::from_millis(50));
            ping(&mut first, 1, &MonoClock).unwrap()
        });
        assert!(sample.is_some());
    }

    #[test]
    fn drift_is_a_line_between_two_measurements() {
        let sample =
            |at_ns, offset_ns| ClockSample { at_ns, offset_ns, bound_ns: 5, round_trip_ns: 10 };
        let map = ClockMap::of(&[sample(0, 1_000), sample(1_000_000_000, 51_000)]);
        assert_eq!(map.to_reference(1_000), 0);
        assert_eq!(map.to_reference(1_000_051_000), 1_000_000_000);
        let middle = map.to_reference(500_000_000 + 26_000);
        assert!(middle.abs_diff(500_000_000) <= 2, "{middle}");
        assert_eq!(ClockMap::of(&[]).to_reference(77), 77);
        // What a rank does with the stamp of the start.
        assert_eq!(map.to_local(0), 1_000);
    }
}
