//! Patterns that are there, and such that chance makes as well.

use proptest::prelude::*;

use super::*;
use crate::episodes::culprits::Culprit;
use crate::events::event::{CpuQuota, Neighbour, Pause};
use crate::events::io::TracedIo;

const SECOND: i64 = 1_000_000_000;

fn at(starts: &[i64]) -> Vec<EpisodeView> {
    let one = |start_ns: &i64| EpisodeView {
        start_ns: *start_ns,
        end_ns: *start_ns + SECOND / 1000,
        ..EpisodeView::nothing(Layer::Device)
    };
    starts.iter().map(one).collect()
}

fn kinds(list: &[EpisodeView], scale: &PatternScale) -> Vec<CommonFactor> {
    patterns(list, scale).into_iter().map(|p| p.alike).collect()
}

/// Starts without any order: a linear congruence.
fn apart(n: u64) -> Vec<i64> {
    let mut state = 7u64;
    let mut starts: Vec<i64> = (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 24) as i64
        })
        .collect();
    starts.sort_unstable();
    starts
}

#[test]
fn only_what_comes_regularly_has_a_period() {
    let scale = PatternScale { spacing_ns: 1_000_000, ..PatternScale::default() };
    let every = |n: i64| (0..n).map(|i| i * 5 * SECOND + i % 3 * SECOND / 10).collect::<Vec<_>>();
    let found = kinds(&at(&every(10)), &scale);
    assert!(
        matches!(found[..], [CommonFactor::Period { period_ns: 5_000_000_000..=5_200_000_000 }]),
        "{found:?}"
    );
    // Of four distances chance makes as many alike in 1 of 103 runs; where two layers are looked at, in twice as many.
    assert_eq!(kinds(&at(&every(5)), &scale).len(), 1);
    let other = at(&apart(5)).into_iter().map(|e| EpisodeView { layer: Layer::Store, ..e });
    let both: Vec<EpisodeView> = at(&every(5)).into_iter().chain(other).collect();
    assert_eq!(kinds(&both, &scale), []);
    assert_eq!(kinds(&at(&apart(40)), &scale), []);
    // One I/O every four seconds: what comes with every one has the load's own beat.
    let slow = PatternScale { spacing_ns: 4 * SECOND, ..PatternScale::default() };
    assert_eq!(kinds(&at(&every(10)), &slow), []);
    // Each begins when the one before is over.
    let mut long = at(&every(10));
    long.iter_mut().for_each(|e| e.end_ns = e.start_ns + 49 * SECOND / 10);
    assert_eq!(kinds(&long, &scale), []);
}

fn with(features: impl Fn(u64) -> OutlierFeatures, n: u64, layer: Layer) -> Vec<EpisodeView> {
    let mut list = at(&apart(n));
    for (i, one) in list.iter_mut().enumerate() {
        (one.features, one.layer) = (features(i as u64), layer);
    }
    list
}

/// Usual I/Os over 1 GiB, threads on eight CPUs, a flush each second, at any time after one.
fn usual() -> PatternScale {
    PatternScale {
        places: (0..4096).map(|i| i << 18).collect(),
        cpus: (0..8).map(|cpu| (cpu, 100)).collect(),
        after_flush: [(OpKind::Write, (0..4096).map(|i| i * (SECOND / 4096)).collect())].into(),
        ..PatternScale::default()
    }
}

fn same(i: u64) -> OutlierFeatures {
    OutlierFeatures {
        place: Some(((500 << 20) + i * 4096, (500 << 20) + (i + 1) * 4096)),
        cpu: Some(3),
        after_flush: Some((OpKind::Write, 5_000_000 + i as i64 * 1000)),
        slowest: None,
    }
}

#[test]
fn what_chance_makes_as_well_is_no_pattern() {
    let place = CommonFactor::Place { from: 500 << 20, to: (500 << 20) + 7 * 4096 };
    let after = CommonFactor::AfterFlush { after_ns: 5_004_000 };
    assert_eq!(kinds(&with(same, 8, Layer::Device), &usual()), [place, after]);
    assert_eq!(kinds(&with(same, 8, Layer::Cpu), &usual()), [CommonFactor::Cpu { cpu: 3 }]);
    let other = |i: u64| OutlierFeatures {
        place: Some((i * (100 << 20), i * (100 << 20) + 4096)),
        cpu: Some(i),
        after_flush: Some((OpKind::Write, i as i64 * 150_000_000)),
        slowest: None,
    };
    for layer in [Layer::Device, Layer::Cpu] {
        assert_eq!(kinds(&with(other, 8, layer), &usual()), []);
    }
    // Usual I/Os are there as well, threads have one CPU, and every write comes
    // so long after a flush.
    let few = PatternScale {
        places: (0..4096).map(|i| if i == 0 { 1 << 30 } else { 500 << 20 }).collect(),
        cpus: [(3, 800)].into(),
        after_flush: [(OpKind::Write, vec![5_100_000; 4096])].into(),
        ..PatternScale::default()
    };
    let few = PatternScale { places: few.places.iter().rev().copied().collect(), ..few };
    for layer in [Layer::Device, Layer::Cpu] {
        assert_eq!(kinds(&with(same, 8, layer), &few), []);
        assert_eq!(kinds(&with(same, 8, layer), &PatternScale::default()), [], "nothing is known");
    }
}

#[test]
fn a_pattern_is_told_with_how_often_chance_makes_it() {
    let found = patterns(&with(same, 5, Layer::Device), &usual());
    let place = found.iter().find(|p| matches!(p.alike, CommonFactor::Place { .. })).unwrap();
    assert!((1e-9..=CHANCE).contains(&place.chance), "{}", place.chance);
    assert!(place.words().contains("(by chance in "), "{}", place.words());
    // The same is looked for in more layers: chance has more of them.
    let more: Vec<EpisodeView> =
        [Layer::Device, Layer::Cpu].into_iter().flat_map(|layer| with(same, 5, layer)).collect();
    let again = patterns(&more, &usual());
    let again = again.iter().find(|p| matches!(p.alike, CommonFactor::Place { .. })).unwrap();
    assert!((again.chance / place.chance - 2.0).abs() < 1e-9);
    assert_eq!(once_in(0.01), "at most 1 of 100 runs");
    assert_eq!(once_in(0.0), "less than 1 of 1,000,000 runs");
}

proptest! {
    #[test]
    fn the_narrowest_part_is_that_of_all_that_were_looked_at(
        places in proptest::collection::vec((0u64..50, 1u64..20), 1..30),
        need in 1usize..10,
    ) {
        let mut places: Vec<(u64, u64)> = places.iter().map(|(at, size)| (*at, at + size)).collect();
        places.sort_unstable();
        let reach = |some: &[(u64, u64)]| some.iter().map(|place| place.1).max().unwrap_or(0);
        let all = places.windows(need).map(|some| (some[0].0, reach(some)));
        let expected = all.min_by_key(|(from, to)| to - from);
        prop_assert_eq!(narrowest(&places, need), expected);
    }
}

#[test]
fn keys_and_objects_are_in_no_place() {
    let io = |size| TracedIo { size, ..TracedIo::default() };
    assert_eq!(io(0).place(OpKind::Get), None);
    assert_eq!(io(4096).place(OpKind::Put), None);
    assert_eq!(io(0).place(OpKind::Fsync), None);
    assert_eq!(io(4096).place(OpKind::Read), Some((0, 4096)));
}

fn culprit_of(role: Role, name: &str) -> Culprit {
    Culprit {
        role,
        name: name.to_owned(),
        tid: None,
        pid: Some(8),
        own: false,
        command: None,
        cgroup: None,
        requests: Some(1),
        bytes: None,
        time_ns: None,
    }
}

/// Patterns of six episodes with this culprit, in a run in which `add` has it act at each moment, and in one in which
/// it acts in the episodes alone: the first has none.
fn told_when_there_alone(role: Role, name: &str, add: fn(&mut Events, i64, i64)) {
    let mut list = at(&apart(6));
    for one in &mut list {
        one.culprits = vec![culprit_of(role, name)];
    }
    let (first, last) = (list[0].start_ns, list[5].end_ns);
    let step = (last - first) / 100;
    let moment = |i| TimeSpan::new(first + i * step, first + (i + 1) * step);
    let moments: Vec<TimeSpan> = (0..100).map(moment).collect();
    let of = |acts: &[TimeSpan]| {
        let mut events = Events::default();
        acts.iter().for_each(|time| add(&mut events, time.from, time.to));
        events.sort();
        kinds(&list, &PatternScale::default().with_presence(&list, &moments, &events))
    };
    assert_eq!(of(&moments), []);
    let then: Vec<_> = list.iter().map(|e| TimeSpan::new(e.start_ns, e.end_ns)).collect();
    assert_eq!(
        of(&then),
        [CommonFactor::Culprit { name: name.to_owned(), pid: Some(8), own: false }]
    );
}

#[test]
fn who_is_there_at_moments_that_overlap_is_there_at_each() {
    let thread = Some(Thread::named("backup"));
    let mut events = Events::default();
    events.add(Neighbour { start_ns: 25, end_ns: 30, thread, ..Neighbour::default() });
    events.sort();
    let moments: Vec<TimeSpan> = (0..10).map(|i| TimeSpan::new(i * 10, i * 10 + 35)).collect();
    let scale = PatternScale::default().with_presence(&[], &moments, &events);
    let backup = (Role::Disk, "backup".to_owned());
    // The first four of ten, and one more in case.
    assert_eq!(scale.presence.get(&backup), Some(&(5.0 / 11.0)));
}

#[test]
fn a_limit_that_is_always_on_is_no_pattern() {
    told_when_there_alone(Role::Limit, QUOTA, |events, start_ns, end_ns| {
        events.add(CpuQuota { start_ns, end_ns, without_ns: 1000 });
    });
}

#[test]
fn a_pause_that_comes_all_the_time_is_no_pattern() {
    told_when_there_alone(Role::Pause, "Pause Young", |events, start_ns, end_ns| {
        let reason = "Pause Young".into();
        events.add(Pause { start_ns, stopped_ns: start_ns, end_ns, reason });
    });
}

#[test]
fn a_neighbour_that_is_always_there_is_no_pattern() {
    let mut list = at(&apart(6));
    for one in &mut list {
        one.culprits = vec![culprit_of(Role::Disk, "backup")];
        one.worst_ns = 1_000_000;
    }
    let neighbour = |start_ns, end_ns| Neighbour {
        start_ns,
        end_ns,
        thread: Some(Thread::named("backup")),
        ..Neighbour::default()
    };
    let (first, last) = (list[0].start_ns, list[5].end_ns);
    let of = |ios: &[Neighbour]| {
        let mut events = Events::default();
        ios.iter().cloned().for_each(|io| events.add(io));
        events.sort();
        let step = (last - first) / 100;
        let moment = |i| TimeSpan::new(first + i * step, first + i * step + 1);
        let moments: Vec<TimeSpan> = (0..100).map(moment).collect();
        kinds(&list, &PatternScale::default().with_presence(&list, &moments, &events))
    };
    let always: Vec<Neighbour> = (0..1000)
        .map(|i| {
            let step = (last - first) / 1000;
            neighbour(first + i * step, first + (i + 1) * step)
        })
        .collect();
    assert_eq!(of(&always), []);
    let then: Vec<Neighbour> = list.iter().map(|e| neighbour(e.start_ns, e.end_ns)).collect();
    assert_eq!(
        of(&then),
        [CommonFactor::Culprit { name: "backup".to_owned(), pid: Some(8), own: false }]
    );
}

/// Seen in a run of durable writes: each begins as soon as the one before is flushed, the slow ones as all others.
#[test]
fn the_beat_of_a_load_that_syncs_is_no_pattern() {
    let then = |i: u64| OutlierFeatures {
        after_flush: Some((OpKind::Write, 32_800 + i as i64 % 5 * 1000)),
        ..OutlierFeatures::default()
    };
    let list = with(then, 9, Layer::Device);
    let of = |usual: Vec<i64>| {
        let after_flush = [(OpKind::Write, usual)].into();
        kinds(&list, &PatternScale { after_flush, ..PatternScale::default() })
    };
    assert_eq!(of((0..1000).map(|i| 30_000 + i * 10).collect()), []);
    let told = of((0..1000).map(|i| 1_000_000 + i * 10_000).collect());
    assert!(matches!(told[..], [CommonFactor::AfterFlush { .. }]), "{told:?}");
    assert_eq!(of(vec![9_000_000; USUAL_MIN - 1]), [], "too few say nothing of what is usual");
}
