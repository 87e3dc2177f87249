//! Records of the kernel's log of context switches, read from bytes.

/// PERF_RECORD_LOST and PERF_RECORD_SWITCH.
const LOST: u32 = 2;
const SWITCH: u32 = 14;
/// PERF_RECORD_MISC_SWITCH_OUT and PERF_RECORD_MISC_SWITCH_OUT_PREEMPT.
const OUT: u16 = 1 << 13;
const PREEMPT: u16 = 1 << 14;
/// Bytes of type, marks and size before each record.
const HEADER: usize = 8;
/// Bytes behind each record: process, thread, time.
const IDENTITY: usize = 16;

/// What happened to a thread. Stamps are CLOCK_MONOTONIC ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchRecord {
    /// It left the CPU: preempted, or because it waits.
    Out {
        at: i64,
        preempted: bool,
    },
    In {
        at: i64,
    },
    /// So many records found no room before this time.
    Lost {
        at: i64,
        count: u64,
    },
}

/// Reads the records, in order. What cannot be a record ends the list.
pub fn records(mut bytes: &[u8]) -> impl Iterator<Item = SwitchRecord> {
    std::iter::from_fn(move || {
        loop {
            let size = usize::from(half(bytes, 6)?);
            let record = bytes.get(..size).filter(|_| size >= HEADER)?;
            bytes = &bytes[size..];
            if let Some(known) = parse(record) {
                return Some(known);
            }
        }
    })
}

fn parse(record: &[u8]) -> Option<SwitchRecord> {
    let marks = half(record, 4)?;
    let at = word(record, record.len().checked_sub(8)?)? as i64;
    let kind = u32::from(half(record, 0)?) | u32::from(half(record, 2)?) << 16;
    match kind {
        SWITCH if record.len() >= HEADER + IDENTITY => Some(if marks & OUT != 0 {
            SwitchRecord::Out { at, preempted: marks & PREEMPT != 0 }
        } else {
            SwitchRecord::In { at }
        }),
        LOST if record.len() >= HEADER + 16 + IDENTITY => {
            Some(SwitchRecord::Lost { at, count: word(record, HEADER + 8)? })
        }
        _ => None,
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, marks: u16, body: &[u64], at: u64) -> Vec<u8> {
        let size = (HEADER + body.len() * 8 + IDENTITY) as u16;
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(marks.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        body.iter().for_each(|w| bytes.extend(w.to_ne_bytes()));
        bytes.extend(7u64.to_ne_bytes());
        bytes.extend(at.to_ne_bytes());
        bytes
    }

    #[test]
    fn switches_and_losses_are_read_and_others_skipped() {
        let bytes = [
            record(SWITCH, OUT | PREEMPT, &[], 10),
            record(SWITCH, 0, &[], 20),
            record(5, 0, &[1, 2, 3], 21),
            record(SWITCH, OUT, &[], 30),
            record(LOST, 0, &[1, 9], 40),
        ]
        .concat();
        let expected = [
            SwitchRecord::Out { at: 10, preempted: true },
            SwitchRecord::In { at: 20 },
            SwitchRecord::Out { at: 30, preempted: false },
            SwitchRecord::Lost { at: 40, count: 9 },
        ];
        assert_eq!(records(&bytes).collect::<Vec<_>>(), expected);
        // Cut anywhere, nothing is made up.
        for end in 0..bytes.len() {
            let cut: Vec<_> = records(&bytes[..end]).collect();
            assert_eq!(cut, expected[..cut.len()]);
        }
        assert_eq!(records(&[0; 64]).count(), 0, "no record has no size");
    }
}
