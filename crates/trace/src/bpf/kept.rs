//! What a trace has kept: I/Os and events, in memory, and beyond some MiB of it in a file. The collector puts
//! them here, and they are read in order at the end.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use super::layout::{EVENT_BYTES, TraceEvent};
use super::spill::{SpillFile, SpillReader};
use super::traced_io::{
    EarlierRound, IO_BYTES, IoWithRounds, KeptIo, ROUND_BYTES, TracedBatch, TracedIo,
    UNTOUCHED_BYTES, UNTOUCHED_MARK, UntouchedIo,
};

/// Memory for I/Os beyond which they go to the file, as fast as it takes them.
const IOS_BYTES: usize = 16 << 20;
/// The same for events, as their number: 18 MiB.
pub const EVENTS_HELD: usize = 1 << 16;
/// Events that go to the file at a time.
const EVENTS_AT_A_TIME: usize = 1 << 12;

/// I/Os kept.
pub struct KeptIos {
    /// In memory, as they came.
    pub batches: VecDeque<TracedBatch>,
    bytes: usize,
    file: SpillFile,
    count: u64,
}

/// Bytes of the file that are read at a time: some hundred I/Os of a worker, and some events.
const IOS_WINDOW: usize = 64 << 10;
const EVENTS_WINDOW: usize = 16 << 10;

/// Where an I/O is, in the order of the file: worker, submit, place.
type IoKey = (u16, i64, u64);

/// The order of the I/Os that are in the file.
pub struct IoOrder(Vec<IoKey>);

impl KeptIos {
    pub fn new(dir: Option<&Path>) -> KeptIos {
        KeptIos { batches: VecDeque::new(), bytes: 0, file: SpillFile::new(dir), count: 0 }
    }

    pub fn push(&mut self, batch: TracedBatch) {
        self.count += batch.len() as u64;
        self.bytes += batch.bytes();
        self.batches.push_back(batch);
    }

    pub fn len(&self) -> u64 {
        self.count
    }

    /// Bytes in memory and in the file.
    pub fn bytes(&self) -> usize {
        self.bytes + self.file.len() as usize
    }

    /// Moves one batch into the file, of the first `told`, if memory is short; and gives its memory back.
    pub fn spill(&mut self, told: usize) -> Option<TracedBatch> {
        if self.bytes <= IOS_BYTES || told == 0 || !self.file.due() {
            return None;
        }
        let first = self.batches.front()?;
        // In order, as they are read back.
        let mut ios: Vec<KeptIo<'_>> = first.each().collect();
        ios.sort_unstable_by_key(KeptIo::key);
        let mut bytes = Vec::with_capacity(first.bytes() + first.len() * (IO_BYTES / 4));
        ios.iter().for_each(|io| io.write(&mut bytes));
        self.file.append(&bytes).ok()?;
        let mut batch = self.batches.pop_front()?;
        self.bytes -= batch.bytes();
        batch.clear();
        Some(batch)
    }

    /// Bytes written to storage.
    pub fn written(&self) -> u64 {
        self.file.written()
    }

    /// Looks at every I/O once, a worker's about in order, and sorts those in the file. Errors: it cannot be read.
    pub fn order(&self, mut look: impl FnMut(&TracedIo)) -> io::Result<IoOrder> {
        let mut keys: Vec<IoKey> = Vec::new();
        let (mut at, mut reader) = (0, SpillReader::new(&self.file, IOS_WINDOW));
        while at < self.file.len() {
            let (io, rounds_at, rounds) = parsed(&mut reader, at)?;
            look(&io);
            keys.push((io.worker, io.submit, at));
            at = rounds_at + rounds as u64;
        }
        keys.sort_unstable();
        self.batches.iter().flat_map(TracedBatch::each).for_each(|io| look(&io.whole().0));
        Ok(IoOrder(keys))
    }

    /// Every I/O by worker and submit, each with its rounds. Errors: as `each`; the file cannot be read.
    pub fn in_order<E: From<io::Error>>(
        &self,
        order: IoOrder,
        mut each: impl FnMut(IoWithRounds<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut held: Vec<_> = self.batches.iter().flat_map(TracedBatch::each).collect();
        held.sort_unstable_by_key(KeptIo::key);
        let mut held = held.into_iter().peekable();
        let mut reader = SpillReader::new(&self.file, IOS_WINDOW);
        for (worker, submit, at) in order.0 {
            while let Some(one) = held.next_if(|one| one.key() < (worker, submit)) {
                each(one.whole())?;
            }
            let (io, rounds_at, rounds) = parsed(&mut reader, at)?;
            let bytes = reader.bytes(rounds_at, rounds)?;
            let round = |bytes: &[u8]| EarlierRound::parse(bytes.try_into().ok()?);
            let rounds = bytes.chunks_exact(ROUND_BYTES).map(round);
            let rounds: Vec<EarlierRound> = rounds.collect::<Option<_>>().ok_or_else(damaged)?;
            each((io, &rounds))?;
        }
        held.map(KeptIo::whole).try_for_each(each)
    }
}

/// An I/O of the file, where its rounds are, and how many bytes they have.
type ParsedIo = (TracedIo, u64, usize);

fn parsed(reader: &mut SpillReader<'_>, at: u64) -> io::Result<ParsedIo> {
    let mark = UNTOUCHED_MARK.len();
    if reader.bytes(at, mark)? == UNTOUCHED_MARK {
        let at = at + mark as u64;
        let io = UntouchedIo::parse(array(reader.bytes(at, UNTOUCHED_BYTES)?)?);
        return Ok((io.ok_or_else(damaged)?.whole(), at + UNTOUCHED_BYTES as u64, 0));
    }
    let io = TracedIo::parse(array(reader.bytes(at, IO_BYTES)?)?).ok_or_else(damaged)?;
    let rounds = io.kept() * ROUND_BYTES;
    Ok((io, at + IO_BYTES as u64, rounds))
}

fn array<const N: usize>(bytes: &[u8]) -> io::Result<&[u8; N]> {
    bytes.try_into().map_err(|_| damaged())
}

/// Events kept.
pub struct KeptEvents {
    /// In memory, as they came.
    pub held: Vec<TraceEvent>,
    file: SpillFile,
    stored: usize,
}

impl KeptEvents {
    pub fn new(dir: Option<&Path>) -> KeptEvents {
        KeptEvents { held: Vec::new(), file: SpillFile::new(dir), stored: 0 }
    }

    pub fn len(&self) -> usize {
        self.stored + self.held.len()
    }

    /// Moves the first events into the file while there are too many: those that ended before `decided`, or any while
    /// memory is short; none beyond the first `told`. Returns how many.
    pub fn spill(&mut self, decided: i64, told: usize) -> usize {
        let mut gone = 0;
        while self.held.len() - gone > EVENTS_HELD && self.file.due() {
            let short = self.held.len() - gone > 2 * EVENTS_HELD;
            let rest = &self.held[gone..told.clamp(gone, self.held.len())];
            let some = rest.iter().take(EVENTS_AT_A_TIME);
            let some = some.take_while(|e| short || (e.end as i64) < decided).count();
            let written = rest[..some].iter().take_while(|e| self.file.append(&e.bytes()).is_ok());
            let written = written.count();
            gone += written;
            if written == 0 {
                break;
            }
        }
        self.held.drain(..gone);
        self.stored += gone;
        gone
    }

    /// Every event by its begin. Errors: as `each`; the file cannot be read.
    pub fn in_order<E: From<io::Error>>(
        &self,
        mut each: impl FnMut(&TraceEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut keys: Vec<(u64, u32)> = Vec::with_capacity(self.len());
        let mut reader = SpillReader::new(&self.file, EVENTS_WINDOW);
        for place in 0..self.len() {
            keys.push((self.at(&mut reader, place)?.start, place as u32));
        }
        keys.sort_unstable();
        keys.into_iter().try_for_each(|(_, place)| each(&self.at(&mut reader, place as usize)?))
    }

    fn at(&self, reader: &mut SpillReader<'_>, place: usize) -> io::Result<TraceEvent> {
        if let Some(held) = place.checked_sub(self.stored) {
            return self.held.get(held).copied().ok_or_else(damaged);
        }
        let bytes = reader.bytes((place * EVENT_BYTES) as u64, EVENT_BYTES)?;
        TraceEvent::parse(bytes).ok_or_else(damaged)
    }

    /// Bytes written to storage.
    pub fn written(&self) -> u64 {
        self.file.written()
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what was kept of the trace was changed")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taillight_core::probe::Token;

    use super::super::layout::{EarlierRounds, OperationSlot};
    use super::super::traced_io::{BATCH, read_slot};
    use super::*;

    /// Lets a file take what is given to it from now on.
    fn soon() {
        std::thread::sleep(Duration::from_millis(400));
    }

    #[test]
    fn ios_are_read_in_order_from_file_and_memory() {
        let home = tempfile::tempdir().unwrap();
        let mut kept = KeptIos::new(None);
        kept.file = SpillFile::with_room(home.path());
        let each = TracedBatch::touched().bytes();
        let many = IOS_BYTES / each + 4;
        for n in 0..many as i64 {
            let mut batch = TracedBatch::empty();
            for i in 0..BATCH as i64 {
                let mut io = read_slot(&OperationSlot::default(), Token(0));
                // Two workers, of which the second came first.
                (io.worker, io.submit) = ((1 - n % 2) as u16, n * 10_000 + i);
                if i % 2 == 1 {
                    let (worker, submit) = (io.worker, io.submit);
                    batch.push_untouched(UntouchedIo { worker, submit, ..UntouchedIo::default() });
                    continue;
                }
                io.rounds = u32::from(i % 100 == 0);
                batch.push(io, &EarlierRounds::default());
            }
            kept.push(batch);
        }
        soon();
        assert!(kept.spill(0).is_none(), "not told yet");
        let mut moved = 0;
        while let Some(batch) = kept.spill(1) {
            assert_eq!(batch.len(), 0);
            moved += 1;
        }
        assert!(moved >= 3 && kept.bytes <= IOS_BYTES, "{moved}");
        let mut looked = 0;
        let order = kept.order(|_| looked += 1).unwrap();
        let (mut before, mut count, mut rounds) = ((0, i64::MIN), 0, 0);
        let read = kept.in_order(order, |(io, own)| {
            assert!((io.worker, io.submit) > before && own.len() == io.rounds as usize);
            before = (io.worker, io.submit);
            (count, rounds) = (count + 1, rounds + own.len());
            io::Result::Ok(())
        });
        read.unwrap();
        assert_eq!((count, kept.len()), (many * BATCH, (many * BATCH) as u64));
        assert_eq!(rounds, many * BATCH.div_ceil(100));
        assert_eq!(looked, count);
        // Windows of several I/Os each, for their order and for themselves.
        assert!(kept.file.reads() < moved * BATCH as u64 / 8, "{} reads", kept.file.reads());
    }

    #[test]
    fn events_are_bounded_in_memory_and_none_is_lost() {
        let home = tempfile::tempdir().unwrap();
        let mut kept = KeptEvents::new(None);
        kept.file = SpillFile::with_room(home.path());
        let mut bytes = [0; EVENT_BYTES];
        bytes[0] = 1;
        let parsed = TraceEvent::parse(&bytes).unwrap();
        let all = EVENTS_HELD as u64 + 6000;
        // The latest begin comes first.
        for i in 0..all {
            let mut event = parsed;
            (event.start, event.end) = (all - i, all + i);
            kept.held.push(event);
        }
        soon();
        assert_eq!(kept.spill(0, usize::MAX), 0, "an I/O may need them");
        assert_eq!(kept.spill(i64::MAX, 0), 0, "not told yet");
        assert!(kept.spill(i64::MAX, usize::MAX) >= 6000);
        assert!(kept.held.len() <= EVENTS_HELD);
        let mut starts = Vec::new();
        kept.in_order(|e| {
            starts.push(e.start);
            io::Result::Ok(())
        })
        .unwrap();
        assert_eq!(starts, (1..=all).collect::<Vec<_>>());
    }
}
