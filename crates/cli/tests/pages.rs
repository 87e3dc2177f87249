//! Reads of a file through the page cache, with large folios and reading ahead: whose part is what
//! reaches the disk. The file lies in small pieces, so that parts begin inside of folios; its map and
//! the kernel's own event log say which I/O wanted what. Needs root and tracefs; else it skips.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::traced::{Run, lab, map, no_block_log};
use crate::common::{manifest, scratch};
use rustix::fs::{Advice, FallocateFlags, Mode, OFlags};
use taillight_core::OpKind;
use taillight_lab::blocklog::{BlockEvent, BlockEventKind, BlockLog};
use taillight_lab::cleanup::{Undo, set};
use taillight_lab::stage::{LoopDevice, image};
use taillight_rundir::layers::{EARLIER_ROUNDS, LayerKind, LayerRow, flags, read_layers};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Bytes of one piece on the disk.
const PIECE: u64 = 2 * PAGE;
const SIZE: u64 = 16 * MIB;
/// The kernel reads ahead so far; no folio is larger.
const AHEAD: u64 = 128 << 10;
/// The kernel's description of its types, which the trace programs need.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// The log's stamps are whole microseconds, ns.
const SAME: i64 = 1000;

/// A file system over a loop device, with one file in small pieces, and a log of the device.
struct Stage {
    undo: Undo,
    disk: LoopDevice,
    file: std::path::PathBuf,
    /// In the file, on the disk, length; sectors.
    map: Vec<(u64, u64, u64)>,
}

/// The neighbour reads no more, bytes: each page is three events, and the kernel's log must hold them
/// however slow the disk is.
const NEIGHBOUR: u64 = 400 * MIB;

/// Somebody else who reads another file of the same file system, in order, until told to stop.
struct CacheNeighbour {
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<u64>>,
}

impl CacheNeighbour {
    fn of(file: &Path) -> CacheNeighbour {
        let file = file.with_file_name("other");
        let stop = Arc::new(AtomicBool::new(false));
        let over = stop.clone();
        let reader = std::thread::spawn(move || {
            let mut read = 0;
            while !over.load(Relaxed) && read < NEIGHBOUR {
                std::thread::sleep(Duration::from_millis(5));
                forget(&file);
                read += std::fs::read(&file).expect("readable").len() as u64;
            }
            read
        });
        CacheNeighbour { stop, reader: Some(reader) }
    }

    /// How much it read, bytes.
    fn end(mut self) -> u64 {
        self.stop.store(true, Relaxed);
        let reader = self.reader.take().expect("a reader");
        reader.join().expect("it reads")
    }
}

/// A test that fails must not leave a reader behind: the file system could not be taken away.
impl Drop for CacheNeighbour {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Stage {
    fn new(kind: &str) -> Stage {
        let mut undo = Undo::default();
        let name = format!("pages-{kind}");
        let image = image(&mut undo, &name, 320 * MIB).expect("an image");
        let disk = LoopDevice::over(&mut undo, &image, false).expect("a loop device");
        let ahead = disk.sys("queue/read_ahead_kb");
        let restored = ahead.clone();
        undo.add(move || drop(set(&restored, 128)));
        let file = disk.mount(&mut undo, kind).expect("mounted").join("data");
        std::fs::write(file.with_file_name("other"), vec![9; 4 << 20]).expect("written");
        in_pieces(&file);
        let map = map(&file);
        assert!(map.len() as u64 > SIZE / PIECE / 2, "{} pieces", map.len());
        Stage { undo, disk, file, map }
    }

    /// Makes a traced run; its I/Os and the log. None where there are no trace programs.
    fn run(&mut self, words: &str) -> Option<(Vec<LayerRow>, Vec<BlockEvent>)> {
        forget(&self.file);
        let log = BlockLog::begin(&mut self.undo, &self.disk.device).expect("a log");
        let dir = scratch();
        let words = format!(
            "--driver file --path {} --set trace.mode=all --set trace.threshold=1us \
             --set target.options.direct=false {words}",
            self.file.display()
        );
        let neighbour = CacheNeighbour::of(&self.file);
        let (code, out, err) = Run::start(dir.path(), &["env"], &words).end();
        assert!(neighbour.end() > 0, "the neighbour read as well");
        assert!(matches!(code, Some(0 | 7 | 8)), "{code:?}\n{out}\n{err}");
        let events = log.end().expect("the log");
        let manifest = manifest(dir.path(), "out");
        let why = &manifest["trace"]["why"];
        if manifest["trace"]["rung"] != "bpf" {
            // Root has all that it takes: then the programs do not load.
            assert!(!Path::new(TYPES).exists(), "not traced: {why}");
            eprintln!("skipped: {why}");
            return None;
        }
        Some((rows(&dir.path().join("out/layers.parquet")), events))
    }

    /// Where in the file a part begins, bytes; none for what is not the file's.
    fn at(&self, sector: u64) -> Option<u64> {
        let piece = |&&(_, disk, len): &&(u64, u64, u64)| (disk..disk + len).contains(&sector);
        let (file, disk, _) = self.map.iter().find(piece)?;
        Some((file + sector - disk) * 512)
    }
}

/// Writes a file, then takes a page out after every second one: what is left lies in pieces.
fn in_pieces(path: &Path) {
    let make = OFlags::CREATE | OFlags::RDWR;
    let file = rustix::fs::open(path, make, Mode::from_raw_mode(0o644)).expect("a file");
    let block = vec![7; MIB as usize];
    let mut left = SIZE / 2 * 3;
    while left > 0 {
        left -= rustix::io::write(&file, &block[..left.min(MIB) as usize]).expect("written") as u64;
    }
    rustix::fs::fsync(&file).expect("written");
    for n in (0..SIZE / PIECE).rev() {
        let at = n * (PIECE + PAGE) + PIECE;
        if at + PAGE < SIZE / 2 * 3 {
            rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, at, PAGE).expect("cut");
        }
    }
    rustix::fs::ftruncate(&file, SIZE).expect("cut");
    rustix::fs::fsync(&file).expect("written");
}

/// Throws a file out of the page cache.
fn forget(path: &Path) {
    let file = rustix::fs::open(path, OFlags::RDONLY, Mode::empty()).expect("a file");
    rustix::fs::fsync(&file).expect("written");
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("forgotten");
}

/// Earlier rounds of parts that are kept of an I/O.
const EARLIER: u64 = EARLIER_ROUNDS as u64;

/// Earlier rounds of an I/O: each after the one before, all of them inside of it.
fn in_order(io: &LayerRow, rounds: &[LayerRow]) {
    assert_eq!(rounds.len() as u64, io.rounds.unwrap_or(0).min(EARLIER), "{io:?} {rounds:?}");
    let mut at = io.start_ns;
    for row in rounds {
        assert_eq!((row.worker, row.token), (io.worker, io.token));
        let issue = row.issue_ns.unwrap_or(row.start_ns);
        let stamps = [at, row.start_ns, issue, row.end_ns];
        assert!(stamps.is_sorted(), "{stamps:?} {io:?}");
        at = row.end_ns;
    }
    if !rounds.is_empty() {
        assert!(io.bio_ns.is_some_and(|bio| bio >= at), "{io:?} {rounds:?}");
    }
}

/// The I/Os of a run. What else its workers queued is said to be of one of them, not known which.
fn rows(path: &Path) -> Vec<LayerRow> {
    let mut ios = Vec::new();
    let (mut unplaced, mut rounds) = (0, Vec::new());
    let mut each = |rows: Vec<LayerRow>| {
        for row in &rows {
            let by = row.comm.as_deref().unwrap_or_default();
            if row.kind == LayerKind::Neighbour && by.starts_with("worker-") {
                assert_eq!(row.other.as_deref(), Some("unplaced"), "{row:?}");
                unplaced += 1;
            }
        }
        for row in rows {
            match row.kind {
                LayerKind::Round => rounds.push(row),
                LayerKind::Io => {
                    in_order(&row, &rounds);
                    rounds.clear();
                    ios.push(row);
                }
                _ => {}
            }
        }
        Ok(())
    };
    read_layers(path, &mut each).expect("a good file");
    println!("{unplaced} parts of unknown I/Os");
    ios
}

/// What an I/O asked for.
fn own(io: &LayerRow) -> Range<u64> {
    let from = io.offset.unwrap_or(0);
    from..from + io.size.unwrap_or(0)
}

/// What may come together with it: folios lie at multiples of their size.
fn with_it(io: &LayerRow) -> Range<u64> {
    let own = own(io);
    own.start / AHEAD * AHEAD..own.end.next_multiple_of(AHEAD)
}

/// The verdict on one read, of what was queued in its time: by place in the file.
#[derive(Debug, PartialEq)]
enum Matched {
    /// Everything it queued, and nothing else; or the page cache had it all.
    Right,
    /// Marked as seen in part.
    Part,
    /// Parts are missing, and it does not say so.
    Less,
    /// It has parts that it did not ask for.
    More,
}

/// `queued` are the places of the parts in its time, `first` that of its own first part; `shared` whether
/// another read in flight wanted the same place.
fn judge(
    io: &LayerRow,
    first: Option<u64>,
    queued: &[u64],
    shared: impl Fn(u64) -> bool,
) -> Matched {
    let (bios, parts) = (io.bios.unwrap_or(0), io.parts.unwrap_or(0));
    let (own, with) = (own(io), with_it(io));
    let of = |range: &Range<u64>, may: bool| {
        let here = queued.iter().filter(|at| range.contains(at));
        here.filter(|at| may || !shared(**at)).count() as u64
    };
    // Pages that come together with one that was asked for are waited for; how many, only the
    // kernel knows. Without one that was asked for there are none of them.
    let most = match of(&own, true) {
        0 => 0,
        _ => of(&with, true),
    };
    // One that is marked as seen in part may count a part that nobody saw.
    if bios > most + u64::from(parts < bios) {
        return Matched::More;
    }
    let its = |at: u64| with.contains(&at) && queued.contains(&at);
    if io.sector.is_some() && !first.is_some_and(its) {
        return Matched::More;
    }
    let unclear = io.flags.unwrap_or(0) & flags::UNCLEAR != 0;
    if unclear || parts < bios || io.rounds.unwrap_or(0) > EARLIER {
        return Matched::Part;
    }
    match bios < of(&own, false) {
        true => Matched::Less,
        false => Matched::Right,
    }
}

/// How the reads of a run were matched, where the kernel reads `ahead` so many bytes: right, in part,
/// less, more.
fn counted(stage: &Stage, ios: &[LayerRow], events: &[BlockEvent], ahead: u64) -> [usize; 4] {
    let queued: Vec<(i64, u64)> = events
        .iter()
        .filter(|e| e.what == BlockEventKind::Queue)
        .filter_map(|e| Some((e.at_ns, stage.at(e.sector)?)))
        .collect();
    let mut counts = [0; 4];
    for io in ios.iter().filter(|io| io.op == Some(OpKind::Read)) {
        let (from, to) = (io.start_ns - SAME, io.end_ns);
        let first = queued.partition_point(|(at, _)| *at < from);
        let here: Vec<u64> = queued[first..]
            .iter()
            .take_while(|(at, _)| *at <= to)
            .map(|(_, place)| *place)
            .collect();
        let beside = |o: &&LayerRow| o.start_ns < io.end_ns && io.start_ns < o.end_ns;
        // Reading ahead for one read meets what the next one wants.
        let before = |o: &LayerRow, at: u64| (own(o).end..own(o).end + 2 * ahead).contains(&at);
        let shared = |at: u64| {
            ios.iter().filter(beside).filter(|o| with_it(o).contains(&at) || before(o, at)).count()
                > 1
        };
        let first = io.sector.and_then(|sector| stage.at(sector));
        let matched = judge(io, first, &here, shared);
        counts[matched as usize] += 1;
    }
    counts
}

/// A run to be checked.
struct PageCase {
    kind: &'static str,
    engine: &'static str,
    words: &'static str,
    /// How far the kernel reads ahead, KiB.
    ahead: u64,
    /// Reads that are matched right, at least, of a hundred: the others say that parts may be missing.
    right: usize,
}

/// Reads that do not say that parts are missing, at most, of a thousand.
const LESS: usize = 5;

const CASES: &[PageCase] = &[
    PageCase {
        kind: "ext4",
        engine: "sync",
        words: "--rw read --bs 64KiB --ops 256",
        ahead: 128,
        right: 99,
    },
    PageCase {
        kind: "ext4",
        engine: "uring",
        words: "--rw randread --bs 32KiB --ops 512 --depth 16",
        ahead: 128,
        right: 95,
    },
    // Page by page: io_uring goes on with each where the one before has come.
    PageCase {
        kind: "ext4",
        engine: "uring",
        words: "--rw randread --bs 8KiB --ops 512 --depth 16",
        ahead: 0,
        right: 99,
    },
    // Syncs of the file among them, which stand nowhere in it.
    PageCase {
        kind: "ext4",
        engine: "uring",
        words: "--set workload.0.mix={read=80,fsync=20} --bs 32KiB --ops 640 --depth 16",
        ahead: 0,
        right: 95,
    },
    PageCase {
        kind: "xfs",
        engine: "uring",
        words: "--rw read --bs 64KiB --ops 256 --depth 4",
        ahead: 128,
        right: 99,
    },
    PageCase {
        kind: "xfs",
        engine: "sync",
        words: "--rw randread --bs 32KiB --ops 512",
        ahead: 128,
        right: 99,
    },
    PageCase {
        kind: "xfs",
        engine: "uring",
        words: "--rw randread --bs 32KiB --ops 512 --depth 16",
        ahead: 0,
        right: 95,
    },
    // More in flight than are looked at: none of them is sure.
    PageCase {
        kind: "xfs",
        engine: "uring",
        words: "--rw randread --bs 32KiB --ops 512 --depth 400",
        ahead: 0,
        right: 0,
    },
];

#[test]
fn a_read_has_the_parts_that_it_asked_for() {
    if let Some(why) = no_block_log() {
        eprintln!("skipped: {why}");
        return;
    }
    let _lab = lab();
    let begin = std::time::Instant::now();
    for kind in ["ext4", "xfs"] {
        let mut stage = Stage::new(kind);
        for case in CASES.iter().filter(|c| c.kind == kind) {
            let words = format!("--set target.options.engine={} {}", case.engine, case.words);
            set(&stage.disk.sys("queue/read_ahead_kb"), case.ahead).expect("set");
            let Some((ios, events)) = stage.run(&words) else {
                return;
            };
            let [right, part, less, more] = counted(&stage, &ios, &events, case.ahead << 10);
            let matched = ios.iter().filter(|io| io.bios.unwrap_or(0) > 0).count();
            println!(
                "{:?} {kind} {words}, {} ahead: {matched} of {} matched; {right} right, {part} in part, {less} \
                 less, {more} more",
                begin.elapsed(),
                case.ahead,
                ios.len()
            );
            assert!(matched > 0, "{kind} {words}");
            assert_eq!(more, 0, "{kind} {words}: parts that were not asked for");
            let all = right + part + less;
            assert!(less * 1000 <= all * LESS, "{kind} {words}: {less} of {all} lack parts");
            assert!(right * 100 >= all * case.right, "{kind} {words}: {right} of {all} right");
        }
    }
}
