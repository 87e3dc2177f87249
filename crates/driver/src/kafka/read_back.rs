//! After the load: reads what it wrote once, looks for every acknowledged record and judges what is missing or damaged;
//! or only counts records of others.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use taillight_core::{Error, Result};

use super::admin::TopicAdmin;
use super::record::{RecordKey, sum};
use super::tally::{RunTally, WriterEnd};
use super::transfer::{Consumer, FetchedRecord};

/// Longest single wait for a record, ms.
const SLICE_MS: i32 = 500;

/// One writer's records in one partition.
struct FoundRecords {
    /// Records that it wrote, acknowledged or not.
    count: u64,
    /// A bit for each by its sequence: it was found.
    bits: Vec<u64>,
}

/// What was found, in records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadBack {
    /// Acknowledged by the brokers, there or not.
    pub acknowledged: u64,
    /// Records of this run that are there, each once, acknowledged or not.
    pub found: u64,
    /// Acknowledged and not there; the first of them in words.
    pub missing: u64,
    pub example: Option<String>,
    /// Further copies of records that are there.
    pub doubled: u64,
    /// With a value that its key's checksum is not of, which counts as found or doubled, too; or with a number that no
    /// writer of this run gave.
    pub torn: u64,
    /// Without a key of this run. One in a topic that the run made fails the run: see `KafkaTarget::end`.
    pub foreign: u64,
    /// Not acknowledged and there all the same.
    pub unacknowledged: u64,
}

/// The records of a run by writer and partition.
struct Expected {
    run: u64,
    partitions: usize,
    /// By writer, then by partition.
    lanes: Vec<FoundRecords>,
    back: ReadBack,
}

impl Expected {
    /// What the writers of the run `run` have written, of which nothing is found yet.
    fn of(run: u64, partitions: usize, ends: &[WriterEnd]) -> Expected {
        let writers = ends.iter().map(|e| e.writer as usize + 1).max().unwrap_or(0);
        let empty = || FoundRecords { count: 0, bits: Vec::new() };
        let mut lanes: Vec<FoundRecords> = (0..writers * partitions).map(|_| empty()).collect();
        for end in ends {
            for (partition, count) in end.written.iter().enumerate() {
                let words = usize::try_from(count.div_ceil(64)).unwrap_or(0);
                let lane = &mut lanes[end.writer as usize * partitions + partition];
                *lane = FoundRecords { count: *count, bits: vec![0; words] };
            }
        }
        Expected { run, partitions, lanes, back: ReadBack::default() }
    }

    /// Counts a record of the topic: as foreign, as torn for its number, or as found or doubled. One that is found or
    /// doubled is torn as well where its value does not match its key's checksum.
    fn see(&mut self, record: &FetchedRecord<'_>) {
        let Some(key) = RecordKey::read(record.key).filter(|key| key.run == self.run) else {
            self.back.foreign += 1;
            return;
        };
        let at = key.writer as usize * self.partitions + record.partition as usize;
        let Some(lane) = self.lanes.get_mut(at).filter(|lane| key.sequence < lane.count) else {
            self.back.torn += 1;
            return;
        };
        let (word, bit) = ((key.sequence / 64) as usize, 1u64 << (key.sequence % 64));
        match lane.bits[word] & bit {
            0 => self.back.found += 1,
            _ => self.back.doubled += 1,
        }
        lane.bits[word] |= bit;
        self.back.torn += u64::from(key.sum != sum(record.value));
    }

    /// Compares what was found with what was acknowledged.
    fn conclude(mut self, ends: &[WriterEnd]) -> ReadBack {
        for end in ends {
            let open: HashSet<(u32, u64)> = end.unacknowledged.iter().copied().collect();
            for partition in 0..end.written.len() as u32 {
                let at = end.writer as usize * self.partitions + partition as usize;
                let lane = &self.lanes[at];
                for sequence in 0..lane.count {
                    let there = lane.bits[(sequence / 64) as usize] >> (sequence % 64) & 1 == 1;
                    match (open.contains(&(partition, sequence)), there) {
                        (true, there) => self.back.unacknowledged += u64::from(there),
                        (false, true) => self.back.acknowledged += 1,
                        (false, false) => {
                            self.back.acknowledged += 1;
                            self.back.missing += 1;
                            self.back.example.get_or_insert_with(|| {
                                format!(
                                    "record {sequence} of writer {} in partition {partition}",
                                    end.writer
                                )
                            });
                        }
                    }
                }
            }
        }
        self.back
    }
}

/// Reads the topic from these offsets, one for each partition, to where it ends now, and compares what is there with
/// what the writers in `tally` wrote. `largest`: bytes of the largest record. Errors: `Unavailable` when it cannot be
/// read to its end, the run is to stop, or too many writes failed to tell.
pub fn read_back(
    admin: &TopicAdmin,
    run: u64,
    from: &[(i32, i64)],
    largest: u64,
    tally: &RunTally,
) -> Result<ReadBack> {
    if tally.ends(|ends| ends.iter().any(|end| end.forgot)) {
        return Err(Error::unavailable("too many writes failed to look for the others one by one"));
    }
    let mut expected = tally.ends(|ends| Expected::of(run, from.len(), ends));
    read_all(admin, from, largest, |record| expected.see(record))?;
    Ok(tally.ends(|ends| expected.conclude(ends)))
}

/// Records behind these offsets that are none of this run's. Errors: `Unavailable` when the topic cannot be read to its
/// end.
pub fn foreign_records(
    admin: &TopicAdmin,
    run: u64,
    from: &[(i32, i64)],
    largest: u64,
) -> Result<u64> {
    let mut foreign = 0;
    read_all(admin, from, largest, |record| {
        foreign += u64::from(RecordKey::read(record.key).is_none_or(|key| key.run != run));
    })?;
    Ok(foreign)
}

/// Shows all records from these offsets to where the topic ends now. Errors: `Unavailable` when no record comes for
/// `options.timeout`, or the run is to stop.
fn read_all(
    admin: &TopicAdmin,
    from: &[(i32, i64)],
    largest: u64,
    mut see: impl FnMut(&FetchedRecord<'_>),
) -> Result<()> {
    let to: Vec<i64> =
        admin.offsets(from.len() as i32)?.into_iter().map(|(_, high)| high).collect();
    let mut left: Vec<bool> =
        from.iter().map(|(p, low)| to.get(*p as usize).is_some_and(|high| high > low)).collect();
    let settings = admin.options.consumer(&admin.address.servers, largest);
    let mut consumer = Consumer::new(&admin.library, &settings, &admin.address.topic, from)?;
    let patience = Duration::from_nanos(admin.options.timeout.0);
    let mut last = Instant::now();
    let unread = || {
        Error::unavailable("the topic could not be read back to its end")
            .with("topic", &admin.address.topic)
            .hint("its records were not looked for: look at the brokers")
    };
    while left.contains(&true) {
        if admin.stop.stopped() {
            return Err(unread().hint("the run was ended before its records were looked for"));
        }
        let got = consumer.next(SLICE_MS, |record| {
            let at = record.partition as usize;
            if record.code != 0 || record.offset >= to.get(at).copied().unwrap_or(0) {
                return record.code == 0;
            }
            left[at] = record.offset + 1 < to[at];
            see(record);
            true
        });
        if got == Some(true) {
            last = Instant::now();
        } else if last.elapsed() > patience {
            return Err(unread());
        }
    }
    Ok(())
}

impl ReadBack {
    /// As facts for the manifest: `records.read_back.NAME`, and how many.
    pub fn facts(&self) -> Vec<(String, String)> {
        let all = [
            ("acknowledged", self.acknowledged),
            ("found", self.found),
            ("missing", self.missing),
            ("doubled", self.doubled),
            ("torn", self.torn),
            ("foreign", self.foreign),
            ("unacknowledged_found", self.unacknowledged),
        ];
        all.iter().map(|(name, n)| (format!("records.read_back.{name}"), n.to_string())).collect()
    }

    /// `promised`: what was acknowledged is to be there, by the settings or since no broker was lost. Errors:
    /// `Target` when records are missing that were to be there, or damaged. Foreign ones are not judged here.
    pub fn judged(&self, admin: &TopicAdmin, promised: bool) -> Result<()> {
        if self.torn == 0 && (self.missing == 0 || !promised) {
            return Ok(());
        }
        let what = match self.missing {
            0 => "records are not what was written",
            _ => "acknowledged records are missing",
        };
        Err(Error::target(what)
            .with("acknowledged", self.acknowledged)
            .with("missing", self.missing)
            .with_some("the first", self.example.as_ref())
            .with("damaged", self.torn)
            .with("promised", admin.options.promise())
            .hint("the topic is left as it is: look at its partitions and at the brokers' logs"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_doubled_torn_and_foreign_records_are_told_apart() {
        let end = WriterEnd {
            writer: 1,
            written: vec![4, 70],
            unacknowledged: vec![(0, 3), (1, 69)],
            forgot: false,
        };
        let ends = [end];
        let mut expected = Expected::of(9, 2, &ends);
        let mut see = |run, writer, partition, sequence, torn: bool| {
            let value = b"value";
            let sum = sum(value) ^ u32::from(torn);
            let key = RecordKey { run, writer, sequence, sum }.write();
            expected.see(&FetchedRecord { code: 0, partition, offset: 0, key: &key, value });
        };
        for sequence in [0, 1, 1, 3] {
            see(9, 1, 0, sequence, false);
        }
        for sequence in 0..69 {
            see(9, 1, 1, sequence, sequence == 5);
        }
        see(8, 1, 0, 2, false);
        let back = expected.conclude(&ends);
        let wanted = ReadBack {
            acknowledged: 72,
            found: 72,
            missing: 1,
            example: Some("record 2 of writer 1 in partition 0".to_owned()),
            doubled: 1,
            torn: 1,
            foreign: 1,
            unacknowledged: 1,
        };
        assert_eq!(back, wanted);
    }
}
