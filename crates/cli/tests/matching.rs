//! Stamps that tracing gave to each I/O of a run, beside the kernel's own event log of the disk: none may be another
//! I/O's. On a raw device, and in a file whose pieces are known, the offset alone tells which sectors an I/O may have;
//! stamps must be those of events on these sectors. Needs root and tracefs; else it skips.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::common::traced::{Run, lab, map, no_block_log};
use crate::common::{manifest, scratch};
use taillight_lab::blocklog::{BlockEvent, BlockEventKind, BlockLog};
use taillight_lab::cleanup::{Undo, set};
use taillight_lab::stage::{LoopDevice, image};
use taillight_rundir::layers::{EARLIER_ROUNDS, LayerKind, LayerRow, flags, read_layers};

const NAME: &str = "stamps_are_those_of_the_ios_own_sectors";
const MIB: u64 = 1 << 20;
/// The log and the trace programs stamp one after the other, at the same trace point, ns.
const SAME: i64 = 50_000;
/// So near to an event of other sectors, and to none of its own, a stamp is somebody else's, ns.
const OTHERS: i64 = 5_000;
/// Requests that are submitted together share an issue stamp where completions take all stamps, ns.
const TOGETHER: i64 = 20_000_000;

/// A run to be checked.
struct MatchingCase {
    mode: &'static str,
    words: &'static str,
    /// Least share of I/Os that reach the disk and are matched, %.
    matched: usize,
    /// On a file of ext4, else on the device itself.
    file: bool,
    /// Somebody writes the file through the page cache meanwhile.
    dirty: bool,
}

const CASES: &[MatchingCase] = &[
    direct("all", "--rw randread --workers 2 --set target.options.engine=sync"),
    direct("outliers", "--rw randread --workers 2 --set target.options.engine=sync"),
    direct("all", "--rw randread --depth 1 --set target.options.engine=uring"),
    direct("all", "--rw randread --depth 32 --set target.options.engine=uring"),
    direct("outliers", "--rw randread --depth 32 --workers 2 --set target.options.engine=uring"),
    // Neighbouring blocks, which the block layer puts into common requests.
    direct("all", "--rw read --depth 32 --set target.options.engine=uring"),
    direct("all", "--rw write --depth 32 --workers 2 --set target.options.engine=uring"),
    direct("all", "--rw randwrite --depth 32 --sync fdatasync --set target.options.engine=uring"),
    direct(
        "outliers",
        "--rw randwrite --depth 8 --sync fdatasync --set target.options.engine=uring",
    ),
    direct("all", "--rw randwrite --sync fdatasync --set target.options.engine=sync"),
    buffered("--rw randread --workers 2 --set target.options.engine=sync"),
    buffered("--rw randread --depth 1 --set target.options.engine=uring"),
    buffered("--rw randread --depth 32 --set target.options.engine=uring"),
    // Several pages one after another: io_uring goes on with each where the one before has come.
    buffered("--rw randread --depth 32 --bs 32KiB --set target.options.engine=uring"),
    buffered("--rw randread --depth 8 --bs 64KiB --set target.options.engine=uring"),
    buffered("--rw randread --depth 32 --bs 128KiB --set target.options.engine=uring"),
    buffered("--rw randread --bs 128KiB --set target.options.engine=sync"),
    // More than are kept.
    buffered("--rw randread --bs 256KiB --set target.options.engine=sync"),
    // Here the way from a part to its I/O is the file system's.
    in_file("all", "--rw randread --depth 32 --set target.options.engine=uring"),
    in_file("outliers", "--rw randread --depth 32 --workers 2 --set target.options.engine=uring"),
    in_file("all", "--rw randread --workers 2 --set target.options.engine=sync"),
    in_file("all", "--rw randwrite --depth 32 --bs 16KiB --set target.options.engine=uring"),
    in_file(
        "outliers",
        "--rw randwrite --depth 8 --sync fdatasync --set target.options.engine=uring",
    ),
    dirty("--rw randread --set target.options.engine=sync"),
];

const fn direct(mode: &'static str, words: &'static str) -> MatchingCase {
    MatchingCase { mode, words, matched: 98, file: false, dirty: false }
}

const fn in_file(mode: &'static str, words: &'static str) -> MatchingCase {
    MatchingCase { file: true, ..direct(mode, words) }
}

/// What the page cache has of a block is written first, then the block is read: two rounds.
const fn dirty(words: &'static str) -> MatchingCase {
    MatchingCase { dirty: true, ..in_file("outliers", words) }
}

/// Through the page cache, which may have what is read, and where not every part can be told.
const fn buffered(words: &'static str) -> MatchingCase {
    MatchingCase { mode: "all", words, matched: 5, file: false, dirty: false }
}

/// An I/O, and the parts of it that were done before its last ones were queued.
struct Traced {
    io: LayerRow,
    earlier: Vec<LayerRow>,
}

impl std::ops::Deref for Traced {
    type Target = LayerRow;

    fn deref(&self) -> &LayerRow {
        &self.io
    }
}

/// Events of the log, by kind and time.
struct Log {
    events: BTreeMap<u8, Vec<BlockEvent>>,
    /// Events whose own I/O has their stamp: kind, time and sector.
    claimed: BTreeSet<(u8, i64, u64)>,
}

impl Log {
    fn new(events: &[BlockEvent]) -> Log {
        let mut map: BTreeMap<u8, Vec<BlockEvent>> = BTreeMap::new();
        for e in events {
            map.entry(e.what as u8).or_default().push(*e);
        }
        Log { events: map, claimed: BTreeSet::new() }
    }

    /// Notes which events have their own I/O. The programs run once for an event, so that its stamp
    /// is no other I/O's.
    fn claim(&mut self, ios: &[&Traced], late: bool) {
        let mut claimed = BTreeSet::new();
        for io in ios {
            let Some(own) = sectors(io) else { continue };
            for (what, at) in stamps(io, late) {
                let Some(at) = at else { continue };
                let near = self.between(what, at - SAME, at + OTHERS).iter();
                let of_it = near.filter(|e| meets(e, &own));
                claimed.extend(of_it.map(|e| (what as u8, e.at_ns, e.sector)));
            }
        }
        self.claimed = claimed;
    }

    fn between(&self, what: BlockEventKind, from: i64, to: i64) -> &[BlockEvent] {
        let list = self.events.get(&(what as u8)).map_or(&[][..], Vec::as_slice);
        // The log's stamps are whole microseconds.
        let first = list.partition_point(|e| e.at_ns < from - 1000);
        let last = list.partition_point(|e| e.at_ns <= to);
        &list[first..last.max(first)]
    }

    /// Whether a stamp is that of another I/O's event.
    fn strange(&self, what: BlockEventKind, at: i64, own: &Range<u64>) -> bool {
        // Of nearly every stamp the own event is near: only for the others all of 20 ms are looked through.
        if self.between(what, at - SAME, at + SAME).iter().any(|e| meets(e, own)) {
            return false;
        }
        // An interrupt, or the hypervisor, can come between the log's stamp and the program's: then
        // the I/O's own event is the last one before on its CPU, or the interrupt's own events came
        // after it, whose own I/Os have them.
        let before = self.between(what, at - TOGETHER, at);
        let last: BTreeMap<u32, &BlockEvent> = before.iter().map(|e| (e.cpu, e)).collect();
        let others = |e: &&BlockEvent| !self.claimed.contains(&(what as u8, e.at_ns, e.sector));
        !last.values().any(|e| meets(e, own))
            && self.between(what, at - OTHERS, at + OTHERS).iter().any(|e| others(&e))
    }
}

fn meets(e: &BlockEvent, own: &Range<u64>) -> bool {
    e.sector < own.end && e.sector + e.sectors > own.start
}

/// The sectors an I/O on the raw device may have.
fn sectors(io: &LayerRow) -> Option<Range<u64>> {
    let from = io.offset? / 512;
    Some(from..from + io.size? / 512)
}

/// The stamps of an I/O that the log has, too.
fn stamps(io: &Traced, late: bool) -> Vec<(BlockEventKind, Option<i64>)> {
    let of = |row: &LayerRow| {
        let queued = (BlockEventKind::Queue, Some(row.start_ns).filter(|_| !late));
        let done = (BlockEventKind::Complete, Some(row.end_ns));
        [queued, (BlockEventKind::Issue, row.issue_ns), done]
    };
    let mut stamps: Vec<_> = io.earlier.iter().flat_map(of).collect();
    // The last round of a write and its sync is the flush, which has no sectors.
    if io.flags.unwrap_or(0) & flags::FLUSH == 0 {
        stamps
            .extend([(BlockEventKind::Complete, io.done_ns), (BlockEventKind::Issue, io.issue_ns)]);
        if !late {
            stamps.extend([
                (BlockEventKind::Queue, io.bio_ns),
                (BlockEventKind::Queue, io.bio_last_ns),
            ]);
        }
    }
    stamps
}

/// Stamps of the last parts that do not come one after another, if any.
fn disordered(io: &LayerRow) -> Option<String> {
    let steps = [
        ("queued", io.bio_ns),
        ("inserted", io.insert_ns),
        ("issued", io.issue_ns),
        ("done", io.done_ns),
    ];
    let seen: Vec<(&str, i64)> = steps.iter().filter_map(|(k, at)| Some((*k, (*at)?))).collect();
    let two = seen.windows(2).find(|w| w[0].1 > w[1].1)?;
    Some(format!("{} before {}: {seen:?}", two[1].0, two[0].0))
}

/// What is wrong with one I/O, if anything.
fn wrong(io: &Traced, log: &Log, late: bool) -> Option<String> {
    let own = sectors(io)?;
    let from = own.start;
    if !io.sector.is_some_and(|s| own.contains(&s)) {
        return Some(format!("sector {:?} is not of {own:?}", io.sector));
    }
    // Stamps that the kernel keeps itself are shared by requests that are made together.
    if let Some(why) = disordered(io).filter(|_| !late) {
        return Some(why);
    }
    for (what, at) in stamps(io, late) {
        let Some(at) = at else { continue };
        if at < io.start_ns || at > io.end_ns {
            return Some(format!("{what:?} at {at} is outside of the I/O"));
        }
        if late && what == BlockEventKind::Issue {
            // An interrupt can come between the event and the kernel's own stamp after it.
            let after = log.between(what, at - SAME, at + TOGETHER);
            if !after.iter().any(|e| meets(e, &own)) {
                return Some(format!("no {what:?} of {from} after {at}"));
            }
        } else if log.strange(what, at, &own) {
            return Some(format!("{what:?} at {at} is not of {own:?}"));
        }
    }
    None
}

/// Whether an I/O was found on the disk. Of one that is marked as seen in part, that may be the flush
/// after it alone, which has no sector.
fn found(io: &LayerRow) -> bool {
    let (bios, parts) = (io.bios.unwrap_or(0), io.parts.unwrap_or(0));
    bios > 0 && (io.sector.is_some() || parts >= bios)
}

/// Where an I/O reads or writes, and when: the part of its row that is looked through for each event.
struct Flight {
    sectors: Range<u64>,
    /// From just before its begin to its end.
    ns: RangeInclusive<i64>,
}

/// Flights by their begins.
struct Flights {
    all: Vec<Flight>,
    /// What took longest took so long, ns: what was in flight at a time began no earlier before it.
    longest: i64,
}

impl Flights {
    fn of(ios: &[Traced]) -> Flights {
        let of = |io: &Traced| {
            let sectors = sectors(io)?;
            Some(Flight { sectors, ns: io.start_ns - SAME..=io.end_ns })
        };
        let mut all: Vec<Flight> = ios.iter().filter_map(of).collect();
        all.sort_by_key(|flight| *flight.ns.start());
        let longest = all.iter().map(|f| f.ns.end() - f.ns.start()).max();
        Flights { longest: longest.unwrap_or(0), all }
    }

    /// How many want these sectors when this event comes.
    fn wanting(&self, e: &BlockEvent) -> usize {
        let first = self.all.partition_point(|f| *f.ns.start() < e.at_ns - self.longest);
        let begun = self.all[first..].iter().take_while(|f| *f.ns.start() <= e.at_ns);
        begun.filter(|f| meets(e, &f.sectors) && f.ns.contains(&e.at_ns)).count()
    }
}

/// Whether all parts of a read that the log has are counted, or it is marked as seen in part. A part
/// is this I/O's when the sectors are its alone among those in flight; where another wants the same
/// pages, either may have queued it.
fn accounted(io: &Traced, log: &Log, flights: &Flights) -> bool {
    let Some(own) = sectors(io) else { return true };
    let (bios, parts) = (io.bios.unwrap_or(0), io.parts.unwrap_or(0));
    let all = io.earlier.len() as u64 == io.rounds.unwrap_or(0);
    let partly = bios > 0 && (parts < bios || !all);
    let marked = partly || io.flags.unwrap_or(0) & flags::UNCLEAR != 0;
    let queued = log.between(BlockEventKind::Queue, io.start_ns, io.end_ns).iter();
    let (shared, alone): (Vec<&BlockEvent>, Vec<&BlockEvent>) =
        queued.filter(|e| meets(e, &own)).partition(|e| flights.wanting(e) > 1);
    let exact = (alone.len()..=alone.len() + shared.len()).contains(&(bios as usize));
    exact || marked
}

/// Of I/Os with more rounds than are kept, how often the last one kept took longest of those that found
/// no other place; the log's stamps are not the programs', so that it may be another one of them.
fn longest_of_the_rest(ios: &[Traced], log: &Log) {
    let full = |io: &&Traced| io.rounds.unwrap_or(0) > EARLIER_ROUNDS as u64;
    let (mut all, mut right) = (0, 0);
    for io in ios.iter().filter(full) {
        let Some(own) = sectors(io) else { continue };
        let first = io.earlier[EARLIER_ROUNDS - 2].end_ns;
        let of = |what| {
            let events = log.between(what, first, io.bio_ns.unwrap_or(io.end_ns) - 1000);
            events.iter().filter(|e| meets(e, &own) && e.at_ns > first)
        };
        let ends: BTreeMap<u64, i64> =
            of(BlockEventKind::Complete).map(|e| (e.sector, e.at_ns)).collect();
        let took = |e: &BlockEvent| Some((ends.get(&e.sector)? - e.at_ns, e.at_ns));
        let Some((_, at)) = of(BlockEventKind::Queue).filter_map(took).max() else {
            continue;
        };
        let kept = &io.earlier[EARLIER_ROUNDS - 1];
        all += 1;
        right += usize::from((kept.start_ns - at).abs() < OTHERS);
    }
    println!("{right} of {all} with more rounds than are kept have the longest of the rest");
    // Any of 32 would be one in 32.
    assert!(all > 100 && right * 10 >= all * 3, "{right} of {all}");
}

/// Reads that first wrote what the page cache had of their block, and how many these are. That is a whole
/// folio: only the read itself has sectors to be compared with, and comes after it. Of a read that was
/// seen in part, nobody knows whether its sector is the read's.
fn written_first(ios: &mut [Traced]) -> usize {
    for one in ios.iter_mut().filter(|one| one.io.parts < one.io.bios) {
        one.io.sector = None;
    }
    let first = ios.iter_mut().filter(|io| !io.earlier.is_empty());
    let each = |one: &mut Traced| {
        let written = one.earlier.drain(..).map(|r| r.end_ns).max();
        assert!(written < one.io.bio_ns, "{:?}", one.io);
        one.io.sector = sectors(&one.io).map(|own| own.start);
    };
    first.map(each).count()
}

/// Threads that queued the parts of a worker's I/Os.
fn threads(ios: &[Traced], log: &Log) -> BTreeMap<u64, BTreeSet<u32>> {
    let mut map: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for io in ios.iter().filter(|io| io.punt_ns.is_none() && io.earlier.is_empty()) {
        let (Some(worker), Some(at), Some(sector)) = (io.worker, io.bio_ns, io.sector) else {
            continue;
        };
        let near = log.between(BlockEventKind::Queue, at - SAME, at + SAME);
        if let Some(e) = near.iter().find(|e| e.sector == sector) {
            map.entry(worker).or_default().insert(e.tid);
        }
    }
    map
}

fn rows(path: &Path) -> Vec<Traced> {
    let (mut ios, mut earlier) = (Vec::new(), Vec::new());
    let mut each = |rows: Vec<LayerRow>| {
        for row in rows {
            match row.kind {
                LayerKind::Round => earlier.push(row),
                LayerKind::Io => {
                    ios.push(Traced { io: row, earlier: std::mem::take(&mut earlier) })
                }
                _ => {}
            }
        }
        Ok(())
    };
    read_layers(path, &mut each).expect("a good file");
    ios
}

/// A file in large pieces, and these: in the file, on the device, length; sectors.
fn whole_file(home: &Path) -> (PathBuf, Vec<(u64, u64, u64)>) {
    let path = home.join("data");
    std::fs::write(&path, vec![7; 32 << 20]).expect("written");
    let file = std::fs::File::open(&path).expect("a file");
    file.sync_all().expect("on the device");
    let pieces = map(&path);
    assert!((1..=16).contains(&pieces.len()), "{pieces:?}");
    (path, pieces)
}

/// Where on the device an I/O of a file is, bytes; none across the border of two pieces.
fn on_device(io: &LayerRow, pieces: &[(u64, u64, u64)]) -> Option<u64> {
    let own = sectors(io)?;
    let holds = |(at, _, len): &&(u64, u64, u64)| *at <= own.start && own.end <= at + len;
    let (at, disk, _) = pieces.iter().find(holds)?;
    Some((own.start - at + disk) * 512)
}

/// Ends a neighbour, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Makes a traced run on a loop device; its I/Os and the log. None where there are no trace programs.
fn made(case: &MatchingCase) -> Option<(Vec<Traced>, Log)> {
    let mut undo = Undo::default();
    let file = image(&mut undo, "image", 64 * MIB).expect("an image");
    let disk = LoopDevice::over(&mut undo, &file, false).expect("a loop device");
    let ahead = disk.sys("queue/read_ahead_kb");
    let restored = ahead.clone();
    undo.add(move || drop(set(&restored, 128)));
    set(&ahead, 0).expect("no reading ahead");
    // With an I/O scheduler requests are inserted first, and merged.
    set(&disk.sys("queue/scheduler"), "mq-deadline").expect("an I/O scheduler");
    let log = BlockLog::begin(&mut undo, &disk.device).expect("a log");
    let (path, pieces) = match case.file {
        true => whole_file(&disk.mount(&mut undo, "ext4").expect("mounted")),
        false => (disk.device.clone(), vec![(0, 0, 64 * MIB / 512)]),
    };
    let target = path.display();
    let dir = scratch();
    let through = case.matched < 50;
    let words = format!(
        "--driver file --path {target} --ops 4000 --set trace.mode={} --set trace.threshold=1us \
         --set target.options.direct={} --set target.destroy=true --destroy {target} {}",
        case.mode, !through, case.words
    );
    let over = AtomicBool::new(false);
    let (code, out, err) = std::thread::scope(|scope| {
        let writer = || {
            let block = vec![9; 32 << 20];
            while case.dirty && !over.load(Relaxed) {
                let file = OpenOptions::new().write(true).open(&path);
                file.and_then(|mut f| f.write_all(&block)).expect("written");
            }
        };
        scope.spawn(writer);
        let _over = Over(&over);
        Run::start(dir.path(), &["env"], &words).end()
    });
    assert!(matches!(code, Some(0 | 7 | 8)), "{code:?}\n{out}\n{err}");
    let events = log.end().expect("the log");
    let manifest = manifest(dir.path(), "out");
    if manifest["trace"]["rung"] != "bpf" {
        eprintln!("skipped: {NAME}: {}", manifest["trace"]["why"]);
        return None;
    }
    let mut ios = rows(&dir.path().join("out/layers.parquet"));
    // From here on an I/O's place is that on the device.
    for one in &mut ios {
        one.io.offset = on_device(&one.io, &pieces);
    }
    Some((ios, Log::new(&events)))
}

#[test]
fn stamps_are_those_of_the_ios_own_sectors() {
    if let Some(why) = no_block_log() {
        eprintln!("skipped: {NAME}: {why}");
        return;
    }
    let _lab = lab();
    for case in CASES {
        let Some((mut ios, mut log)) = made(case) else {
            return;
        };
        let on = if case.file { "ext4" } else { "device" };
        let words = format!("{on} {} {}", case.mode, case.words);
        assert!(ios.len() >= 3900, "{words}: {} I/Os", ios.len());
        let placed = ios.iter().filter(|io| sectors(io).is_some()).count();
        assert!(placed * 100 >= ios.len() * 99, "{words}: {placed} placed");
        if case.words.contains("--sync") {
            // The write is one round, the flush after it the last one.
            let before = ios.iter().filter(|io| !io.earlier.is_empty()).count();
            println!("{words}: {before} in rounds");
            assert!(before * 100 >= ios.len() * 90, "{words}: {before} in rounds");
        }
        if case.dirty {
            let first = written_first(&mut ios);
            println!("{words}: {first} wrote first");
            assert!(first > 10, "{words}: {first}");
        }
        let matched: Vec<&Traced> = ios.iter().filter(|io| found(io)).collect();
        let late = case.mode == "outliers";
        log.claim(&matched, late);
        let bad: Vec<String> = matched.iter().filter_map(|io| wrong(io, &log, late)).collect();
        println!("{words}: {} of {} matched, {} wrong", matched.len(), ios.len(), bad.len());
        assert!(
            bad.is_empty(),
            "{words}: {} of {}: {:#?}",
            bad.len(),
            matched.len(),
            &bad[..bad.len().min(5)]
        );
        assert!(matched.len() * 100 >= ios.len() * case.matched, "{words}: {}", matched.len());
        if !late && !case.words.contains("sync ") {
            let flights = Flights::of(&ios);
            let whole = ios.iter().filter(|io| accounted(io, &log, &flights)).count();
            println!("{words}: {whole} of {} accounted for", ios.len());
            assert!(whole * 1000 >= ios.len() * 995, "{words}: {whole}");
        }
        if case.matched < 50 {
            // Page by page, each after the one before: all but the last one, at most.
            let pages = ios[0].size.expect("a size") / 4096;
            let most = ios.iter().map(|io| io.rounds.unwrap_or(0)).max();
            assert_eq!(most, Some(pages - 1), "{words}");
            for io in &ios {
                let kept = io.rounds.unwrap_or(0).min(EARLIER_ROUNDS as u64);
                assert_eq!(io.earlier.len() as u64, kept, "{words}");
            }
            if pages > EARLIER_ROUNDS as u64 + 1 {
                longest_of_the_rest(&ios, &log);
            }
        }
        let threads = threads(&ios, &log);
        let all: BTreeSet<u32> = threads.values().flatten().copied().collect();
        assert_eq!(all.len(), threads.len(), "{words}: one thread each: {threads:?}");
    }
}
