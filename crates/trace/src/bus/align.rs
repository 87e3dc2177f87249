//! Matches commands seen in two places one by one: fits their clocks, maps their addresses.
//!
//! `host` commands enclose the `other` ones in time (the other place is below) and have the same kind and
//! size; addresses differ by a constant per extent. What is ambiguous is left unmatched: a wrong match is
//! worse than none. Pure functions, called by `bus`.

use std::collections::BTreeMap;

use taillight_core::OpKind;

/// One command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedCommand {
    /// Begin, ns.
    pub start: i64,
    /// End, ns.
    pub end: i64,
    pub op: OpKind,
    pub byte: u64,
    /// Length, bytes.
    pub bytes: u64,
}

/// How the other clock relates to the host's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockFit {
    /// Other clock minus host clock at `origin`, ns.
    pub offset_ns: f64,
    /// What the other clock gains on the host's per second of its own, s.
    pub drift: f64,
    /// Where the offset holds, other clock, ns.
    pub origin: i64,
    /// Half of the range the offset may lie in so that causes come before effects, ns.
    pub slack_ns: i64,
    /// Distance of the begin stamps from the fitted line, ns: median and 99 %.
    pub residual_ns: [u64; 2],
}

impl ClockFit {
    /// A stamp of the other clock on the host's.
    pub fn to_host(self, other: i64) -> i64 {
        let since = other.saturating_sub(self.origin) as f64;
        other.saturating_sub((self.offset_ns + self.drift * since).round() as i64)
    }
}

/// Matched commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MatchedCommands {
    /// Indices into host and other commands.
    pub pairs: Vec<(usize, usize)>,
    /// Host commands inside the time the other side covers.
    pub covered: usize,
    /// Of them with a partner.
    pub found: usize,
}

impl MatchedCommands {
    /// Share of the covered commands that have a partner, 0 to 1.
    pub fn share(&self) -> f64 {
        self.found as f64 / self.covered.max(1) as f64
    }
}

/// Fewest commands that make an address mapping believable.
const VOTES: usize = 8;
/// Commands that vote on an address mapping, at most.
const VOTERS: usize = 500_000;
/// Extents followed.
const EXTENTS: usize = 256;
/// Commands compared each with each when nothing is known of the clocks.
const SAMPLE: usize = 2_000;
/// Largest drift looked for.
const DRIFT: f64 = 300e-6;
/// 73 years, ns: stamps beyond are damage, and differences of those within never overflow.
const FURTHEST: i64 = 1 << 61;
/// Address mappings tried when nothing is known of the clocks.
const TRIED: usize = 8;
/// From this share of matches on no other mapping is tried.
const ENOUGH: f64 = 0.98;

/// Whether a stamp of a foreign file can be one.
pub fn is_stamp(ns: i64) -> bool {
    (-FURTHEST..=FURTHEST).contains(&ns)
}

/// Matches commands on one clock. `slack` is how far a command below may stick out, ns.
pub fn same_clock(host: &[TimedCommand], other: &[TimedCommand], slack: i64) -> MatchedCommands {
    let mut order: Vec<usize> = (0..other.len()).collect();
    order.sort_by_key(|j| other[*j].start);
    let starts: Vec<i64> = order.iter().map(|j| other[*j].start).collect();
    let inside = |i: usize| {
        let h = host[i];
        let first = starts.partition_point(|s| *s < h.start - slack);
        let near = order[first..].iter().copied();
        near.take_while(move |j| other[*j].start <= h.end + slack).filter(move |j| {
            let o = &other[*j];
            o.op == h.op && o.bytes == h.bytes && o.end <= h.end + slack
        })
    };
    let mut free_host = vec![true; host.len()];
    let mut free = vec![true; other.len()];
    let mut matched = MatchedCommands::default();
    for _ in 0..EXTENTS {
        let open: Vec<usize> = (0..host.len()).filter(|i| free_host[*i]).collect();
        let mut all: Vec<i64> = Vec::new();
        for i in open.iter().step_by(open.len().div_ceil(VOTERS).max(1)) {
            let mut shifts: Vec<i64> =
                inside(*i).filter(|j| free[*j]).map(|j| shift(&host[*i], &other[j])).collect();
            shifts.sort_unstable();
            shifts.dedup();
            all.append(&mut shifts);
        }
        let Some(best) = elected(all) else {
            break;
        };
        let before = matched.pairs.len();
        for i in open {
            let mut fits = inside(i).filter(|j| free[*j] && shift(&host[i], &other[*j]) == best);
            // Two that fit: which is which cannot be told.
            if let (Some(j), None) = (fits.next(), fits.next()) {
                (free_host[i], free[j]) = (false, false);
                matched.pairs.push((i, j));
            }
        }
        if matched.pairs.len() == before {
            break;
        }
    }
    cover(host, other, &free_host, &mut matched);
    matched
}

/// The shift with the most votes, when chance does not explain them.
fn elected(mut votes: Vec<i64>) -> Option<i64> {
    votes.sort_unstable();
    let runs = || votes.chunk_by(|a, b| a == b);
    // Chance makes many different shifts; a few extents do not.
    let usual = match runs().count() {
        0..64 => 0,
        different => votes.len() / different,
    };
    let best = runs().max_by_key(|run| run.len())?;
    let enough = best.len() >= VOTES.max(VOTES * usual);
    best.first().copied().filter(|_| enough)
}

fn shift(host: &TimedCommand, other: &TimedCommand) -> i64 {
    (other.byte as i64).wrapping_sub(host.byte as i64)
}

fn cover(
    host: &[TimedCommand],
    other: &[TimedCommand],
    free: &[bool],
    matched: &mut MatchedCommands,
) {
    let from = other.iter().map(|o| o.start).min().unwrap_or(0);
    let to = other.iter().map(|o| o.end).max().unwrap_or(0);
    for (h, free) in host.iter().zip(free) {
        if h.start >= from && h.end <= to {
            matched.covered += 1;
            matched.found += usize::from(!free);
        }
    }
}

/// Matches commands of unknown clocks by their sequence. None when too few commands are alike to fit the clocks; the
/// caller must check how many matched.
pub fn unknown_clock(
    host: &[TimedCommand],
    other: &[TimedCommand],
) -> Option<(ClockFit, MatchedCommands)> {
    let mut best: Option<(ClockFit, MatchedCommands)> = None;
    for shift in likely(host, other) {
        let Some(fit) = fit(host, other, shift) else {
            continue;
        };
        let moved: Vec<TimedCommand> = other.iter().map(|o| on_host(o, &fit)).collect();
        let matched = same_clock(host, &moved, fit.slack_ns + 1_000);
        if best.as_ref().is_none_or(|(_, b)| matched.found > b.found) {
            let enough = matched.share() >= ENOUGH;
            best = Some((fit, matched));
            if enough {
                break;
            }
        }
    }
    best
}

fn on_host(o: &TimedCommand, fit: &ClockFit) -> TimedCommand {
    TimedCommand { start: fit.to_host(o.start), end: fit.to_host(o.end), ..*o }
}

/// Differences of addresses that occur most often, most frequent first; zero is always among them.
fn likely(host: &[TimedCommand], other: &[TimedCommand]) -> Vec<i64> {
    let some = |list: &[TimedCommand]| -> Vec<TimedCommand> {
        let step = list.len().div_ceil(SAMPLE).max(1);
        list.iter().step_by(step).copied().collect()
    };
    // A stretch from the front and a sample over all: one of them has common commands.
    let head = |list: &[TimedCommand]| list[..list.len().min(SAMPLE)].to_vec();
    let mut all: Vec<i64> = Vec::new();
    for (hosts, others) in [(head(host), head(other)), (some(host), some(other))] {
        for h in &hosts {
            let like = others.iter().filter(|o| o.op == h.op && o.bytes == h.bytes);
            all.extend(like.map(|o| shift(h, o)));
        }
    }
    all.sort_unstable();
    let mut list: Vec<(usize, i64)> =
        all.chunk_by(|a, b| a == b).filter_map(|run| Some((run.len(), *run.first()?))).collect();
    list.sort_unstable_by_key(|(n, shift)| (std::cmp::Reverse(*n), *shift));
    let mut shifts: Vec<i64> = list.iter().map(|(_, s)| *s).take(TRIED).collect();
    if !shifts.contains(&0) {
        shifts.push(0);
    }
    shifts
}

/// By how much the other clock is ahead, as two commands say that can be partners, ns.
#[derive(Debug, Clone, Copy)]
struct ClockDifference {
    /// Begin of the other command, by the other clock.
    at: i64,
    /// From the begin of the host's command to that of the other, and from end to end.
    of_begins: i64,
    of_ends: i64,
}

/// Of all commands that can be partners.
fn differences(host: &[TimedCommand], other: &[TimedCommand], by: i64) -> Vec<ClockDifference> {
    let mut places: BTreeMap<(OpKind, u64, u64), Vec<usize>> = BTreeMap::new();
    for (i, h) in host.iter().enumerate() {
        let byte = (h.byte as i64).wrapping_add(by) as u64;
        places.entry((h.op, byte, h.bytes)).or_default().push(i);
    }
    let mut all = Vec::new();
    for o in other {
        let Some(list) = places.get(&(o.op, o.byte, o.bytes)) else {
            continue;
        };
        // An address used all the time tells nothing.
        for i in list.iter().filter(|_| list.len() <= 4) {
            let h = &host[*i];
            let (of_begins, of_ends) = (o.start - h.start, o.end - h.end);
            all.push(ClockDifference { at: o.start, of_begins, of_ends });
        }
    }
    all
}

/// Offset and drift between two clocks, by a line through the densest differences.
fn fit(host: &[TimedCommand], other: &[TimedCommand], by: i64) -> Option<ClockFit> {
    let mut all = differences(host, other, by);
    if all.len() < VOTES {
        return None;
    }
    all.sort_by_key(|d| d.of_begins);
    let from = all.iter().map(|d| d.at).min()?;
    let to = all.iter().map(|d| d.at).max()?;
    // All true differences lie within what the drift may be, plus what commands wait.
    let width = ((to - from) as f64 * DRIFT) as i64 + 2_000_000;
    let mut last = 0;
    let (mut most, mut place) = (0, 0);
    for first in 0..all.len() {
        while last < all.len() && all[last].of_begins - all[first].of_begins <= width {
            last += 1;
        }
        if last - first > most {
            (most, place) = (last - first, first);
        }
    }
    let mut near = all[place..place + most].to_vec();
    let base = near[near.len() / 2].of_begins;
    let mut line = DriftLine { from, base, intercept_ns: 0.0, drift: 0.0 };
    for _ in 0..8 {
        line = DriftLine::through(&near, from, base);
        let off = |d: &ClockDifference| line.distance(d.at, d.of_begins);
        let mut sizes: Vec<f64> = near.iter().map(|d| off(d).abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let limit = (sizes[sizes.len() / 2] * 6.0).max(200.0);
        let kept: Vec<_> = near.iter().copied().filter(|d| off(d).abs() <= limit).collect();
        if kept.len() == near.len() || kept.len() < VOTES {
            break;
        }
        near = kept;
    }
    Some(between(&near, &line))
}

/// The difference of two clocks: `base` + `intercept_ns` at the time `from`, and `drift` more for each ns since.
#[derive(Debug, Clone, Copy)]
struct DriftLine {
    from: i64,
    base: i64,
    intercept_ns: f64,
    drift: f64,
}

impl DriftLine {
    /// By least squares, of the begins.
    fn through(near: &[ClockDifference], from: i64, base: i64) -> DriftLine {
        let n = near.len() as f64;
        let xy = || near.iter().map(|d| ((d.at - from) as f64, (d.of_begins - base) as f64));
        let (mx, my) = xy().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
        let (mut sxx, mut sxy) = (0.0, 0.0);
        for (x, y) in xy() {
            sxx += (x - mx) * (x - mx);
            sxy += (x - mx) * (y - my);
        }
        let drift = if sxx > 0.0 { sxy / sxx } else { 0.0 };
        DriftLine { from, base, intercept_ns: my - drift * mx, drift }
    }

    /// How far a difference at a time lies above the line, ns.
    fn distance(&self, at: i64, difference: i64) -> f64 {
        (difference - self.base) as f64 - self.intercept_ns - self.drift * (at - self.from) as f64
    }
}

/// Moves the line so that commands below begin after the host's and end before: the offset lies in
/// between, at best.
fn between(near: &[ClockDifference], line: &DriftLine) -> ClockFit {
    let begins = || near.iter().map(|d| line.distance(d.at, d.of_begins));
    let ends = near.iter().map(|d| line.distance(d.at, d.of_ends));
    let (upper, lower) = (begins().fold(f64::MAX, f64::min), ends.fold(f64::MIN, f64::max));
    let mut sizes: Vec<u64> = begins().map(|off| off.abs() as u64).collect();
    sizes.sort_unstable();
    let rank = |of: usize| sizes[(sizes.len() * of / 100).min(sizes.len() - 1)];
    ClockFit {
        offset_ns: line.base as f64 + line.intercept_ns + (upper + lower) / 2.0,
        drift: line.drift,
        origin: line.from,
        slack_ns: ((upper - lower).abs() / 2.0) as i64,
        residual_ns: [rank(50), rank(99)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestRandom(u64);
    impl TestRandom {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % n
        }
    }

    /// Random 4 KiB reads of a file of 1 GiB in flight together, on the host and below it.
    fn both(
        count: usize,
        offset: f64,
        drift: f64,
        shift: u64,
    ) -> (Vec<TimedCommand>, Vec<TimedCommand>) {
        let mut rng = TestRandom(7);
        let mut at = 1_000_000_000i64;
        let (mut host, mut other) = (Vec::new(), Vec::new());
        for _ in 0..count {
            at += 20_000 + rng.below(30_000) as i64;
            let start = at + 2_000 + rng.below(6_000) as i64;
            let end = start + 60_000 + rng.below(90_000) as i64;
            let byte = rng.below(1 << 18) * 4096;
            let done = end + 3_000 + rng.below(9_000) as i64;
            let cmd =
                |start, end, byte| TimedCommand { start, end, op: OpKind::Read, byte, bytes: 4096 };
            host.push(cmd(at, done, byte));
            let there = |t: i64| t + (offset + drift * t as f64) as i64;
            other.push(cmd(there(start), there(end), byte + shift));
        }
        (host, other)
    }

    #[test]
    fn offset_drift_and_address_are_found_and_every_match_is_true() {
        for (offset, drift, shift) in [(5e12, 40e-6, 0), (-3e9, -120e-6, 1 << 30), (0.0, 0.0, 4096)]
        {
            let (host, other) = both(4_000, offset, drift, shift);
            let (fit, matched) = unknown_clock(&host, &other).unwrap();
            assert!(matched.share() > 0.99, "{}", matched.share());
            assert!(matched.pairs.iter().all(|(i, j)| i == j));
            assert!((fit.drift - drift / (1.0 + drift)).abs() < 2e-6, "{}", fit.drift);
            let back = fit.to_host(other[2_000].start);
            let truth = host[2_000].start;
            assert!(back > truth && back < truth + 12_000, "{}", back - truth);
        }
    }

    #[test]
    fn missing_commands_stay_unmatched_and_are_counted() {
        let (host, mut other) = both(4_000, 7e9, 10e-6, 0);
        let kept: Vec<usize> = (0..4_000).filter(|i| i % 10 != 3).collect();
        other = kept.iter().map(|i| other[*i]).collect();
        let (_, matched) = unknown_clock(&host, &other).unwrap();
        assert!(matched.pairs.iter().all(|(i, j)| kept[*j] == *i));
        assert!((matched.share() - 0.9).abs() < 0.01, "{}", matched.share());
    }

    #[test]
    fn sequences_of_different_runs_do_not_fit() {
        let (host, _) = both(2_000, 0.0, 0.0, 0);
        let mut rng = TestRandom(99);
        let (_, mut other) = both(2_000, 1e9, 0.0, 0);
        other.iter_mut().for_each(|o| o.byte = rng.below(1 << 18) * 4096);
        let share = unknown_clock(&host, &other).map_or(0.0, |(_, m)| m.share());
        assert!(share < 0.5, "{share}");
    }

    #[test]
    fn several_extents_are_followed_and_what_is_ambiguous_is_left_out() {
        let (mut host, mut other) = both(1_000, 0.0, 0.0, 1 << 20);
        for (h, o) in host.iter().zip(&mut other) {
            if h.byte >= 1 << 29 {
                o.byte += 1 << 33;
            }
        }
        let matched = same_clock(&host, &other, 0);
        assert!(matched.share() > 0.99, "{}", matched.share());
        assert!(matched.pairs.iter().all(|(i, j)| i == j));
        // The same block twice inside one I/O.
        host[500].end += 1_000_000;
        other.push(TimedCommand {
            start: other[500].end + 10,
            end: other[500].end + 20,
            ..other[500]
        });
        let matched = same_clock(&host, &other, 0);
        assert!(matched.pairs.iter().all(|(i, _)| *i != 500));
        assert!(same_clock(&host, &[], 0).pairs.is_empty());
    }
}
