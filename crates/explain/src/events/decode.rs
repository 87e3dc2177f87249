//! Decodes rows of a trace into typed I/Os and events: once, where a run directory or the memory of a run that goes on is
//! read, so that no later step has to ask for what a row of its kind always has ([`LayerRow::lacking`]).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use taillight_rundir::layers::{LayerKind, LayerRow, flags};

use crate::events::event::*;
use crate::events::io::{LowerStamps, Parts, TracedIo};
use crate::events::rounds::{BlockRound, known};
use crate::events::stacks::Stack;
use crate::events::thread::Thread;

/// What a row is.
#[derive(Debug)]
pub enum Decoded {
    Io(Box<TracedIo>),
    /// An earlier round of the parts of the I/O with this token, whose row follows.
    Round(u64, BlockRound),
    Event(LayerEvent),
}

/// Decodes rows. There are few threads and stacks in many rows: each is kept once.
#[derive(Debug, Default)]
pub struct Decoder {
    threads: HashSet<Arc<Thread>>,
    stacks: HashMap<Arc<str>, Arc<Stack>>,
}

impl Decoder {
    /// What a row is; none of a kind that no verdict rests on (`Task`), and where the row lacks what its kind always
    /// has: the reader of a file refuses the whole file for that.
    pub fn decode(&mut self, row: LayerRow) -> Option<Decoded> {
        let (start_ns, end_ns, worker, token) = (row.start_ns, row.end_ns, row.worker, row.token);
        let event: LayerEvent = match row.kind {
            LayerKind::Io => return Some(Decoded::Io(traced_io(row)?.into())),
            LayerKind::Round => return Some(Decoded::Round(token?, round(&row))),
            LayerKind::Task => return None,
            LayerKind::OffCpu => {
                worker?;
                self.off_cpu(&row)?.into()
            }
            LayerKind::Worker => RingThread { off: self.off_cpu(&row)?, token }.into(),
            LayerKind::Kthread => Helper {
                off: self.off_cpu(&row)?,
                thread: self.thread(other(&row, row.pid)),
                serves: row.has(flags::SERVES),
            }
            .into(),
            LayerKind::Held => {
                let stack = self.stack(&row);
                HeldPart { start_ns, end_ns, token, dev: row.dev, stack }.into()
            }
            LayerKind::Neighbour => self.neighbour(row)?.into(),
            LayerKind::Commit => Commit { start_ns, end_ns, dev: row.dev }.into(),
            LayerKind::Flush => Flush { start_ns, end_ns, dev: row.dev }.into(),
            LayerKind::Reclaim => Reclaim { start_ns, end_ns, worker, token }.into(),
            LayerKind::Gap => {
                let could_run = row.state == Some(0);
                Gap { start_ns, end_ns, worker, token, could_run }.into()
            }
            LayerKind::Still => Still { start_ns, end_ns }.into(),
            LayerKind::CpuQuota => {
                CpuQuota { start_ns, end_ns, without_ns: row.blocked_ns? }.into()
            }
            LayerKind::Stolen => {
                Stolen { start_ns, end_ns, cpu: row.cpu, taken_ns: row.blocked_ns? }.into()
            }
            LayerKind::Pause => {
                let (stopped_ns, reason) = (row.middle_ns?, row.other?);
                Pause { start_ns, end_ns, stopped_ns, reason }.into()
            }
        };
        Some(Decoded::Event(event))
    }

    /// Forgets threads and stacks that no event has any more.
    pub fn forget_unused(&mut self) {
        self.threads.retain(|thread| Arc::strong_count(thread) > 1);
        self.stacks.retain(|_, stack| Arc::strong_count(stack) > 1);
    }

    fn off_cpu(&mut self, row: &LayerRow) -> Option<OffCpu> {
        // Of a thread of the kernel the name and the number are its own.
        let named = row.other.is_some() || row.waker_pid.is_some();
        let known = named && row.kind != LayerKind::Kthread;
        let at_least = row.blocked_ns.zip(row.waited_ns);
        Some(OffCpu {
            start_ns: row.start_ns,
            end_ns: row.end_ns,
            woken_ns: row.middle_ns,
            state: row.state?,
            worker: row.worker,
            stack: self.stack(row),
            ran: self.ran(row),
            waker: Waker {
                worker: row.waker,
                thread: known.then(|| self.thread(other(row, row.waker_pid))),
                is_own: row.has(flags::WOKEN_BY_OWN),
            },
            cpu: row.cpu,
            at_least: at_least.map(|(asleep_ns, waited_ns)| AtLeast { asleep_ns, waited_ns }),
        })
    }

    fn neighbour(&mut self, row: LayerRow) -> Option<Neighbour> {
        Some(Neighbour {
            start_ns: row.start_ns,
            end_ns: row.end_ns,
            size: row.size?,
            operation: row.flags,
            thread: self.ran(&row),
            owner: match row.other.as_deref() {
                None => Owner::Other,
                Some("own") => Owner::OwnThread,
                Some("unplaced") => Owner::Unplaced,
                Some("held") => Owner::HeldPages,
                Some("limit") => Owner::Held,
                Some(_) => Owner::Unknown,
            },
            dev: row.dev,
        })
    }

    /// The thread that `comm` names. In old runs the one number beside it is another thread's in a preempted thread's
    /// row, in a kernel thread's, and where the kernel read ahead.
    fn ran(&mut self, row: &LayerRow) -> Option<Arc<Thread>> {
        let name = row.comm.clone()?;
        let others = row.state == Some(0) || row.kind == LayerKind::Kthread || &*name == READ_AHEAD;
        Some(self.thread(Thread {
            name,
            tid: row.comm_tid.or(row.pid.filter(|_| !others)),
            pid: row.comm_pid,
            command: row.command.clone(),
            cgroup: row.cgroup.clone(),
        }))
    }

    fn thread(&mut self, thread: Thread) -> Arc<Thread> {
        if let Some(known) = self.threads.get(&thread) {
            return known.clone();
        }
        let thread = Arc::new(thread);
        self.threads.insert(thread.clone());
        thread
    }

    fn stack(&mut self, row: &LayerRow) -> Option<Arc<Stack>> {
        let functions = row.stack.as_ref()?;
        let known = self.stacks.get(functions);
        Some(known.cloned().unwrap_or_else(|| {
            let stack = Stack::of(functions.clone());
            self.stacks.insert(functions.clone(), stack.clone());
            stack
        }))
    }
}

/// The thread that `other` names, with this number.
fn other(row: &LayerRow, tid: Option<u64>) -> Thread {
    Thread {
        name: row.other.clone().unwrap_or_default(),
        tid,
        pid: row.other_pid,
        command: row.other_command.clone(),
        cgroup: row.other_cgroup.clone(),
    }
}

fn round(row: &LayerRow) -> BlockRound {
    BlockRound {
        bio: row.start_ns,
        last: None,
        alloc: known(row.alloc_ns),
        insert: None,
        issue: known(row.issue_ns),
        done: Some(row.end_ns),
        held: row.held_ns,
        ends: false,
    }
}

fn traced_io(row: LayerRow) -> Option<TracedIo> {
    let parts = match (row.bios, row.parts) {
        (None, None) => None,
        (queued, done) => Some(Parts { queued: queued?, done: done? }),
    };
    Some(TracedIo {
        worker: row.worker?,
        op: row.op?,
        start_ns: row.start_ns,
        end_ns: row.end_ns,
        offset: row.offset?,
        size: row.size?,
        flags: row.flags?,
        dev: row.dev,
        parts,
        rounds: row.rounds.unwrap_or(0),
        token: row.token,
        enter_ns: row.enter_ns,
        punt_ns: row.punt_ns,
        sync_punt_ns: row.sync_punt_ns,
        bio_ns: row.bio_ns,
        bio_last_ns: row.bio_last_ns,
        held_ns: row.held_ns,
        alloc_ns: row.alloc_ns,
        insert_ns: row.insert_ns,
        issue_ns: row.issue_ns,
        requeue_ns: row.requeue_ns,
        done_ns: row.done_ns,
        cqe_ns: row.cqe_ns,
        wake_ns: row.wake_ns,
        run_ns: row.run_ns,
        served_ns: row.served_ns,
        answered_ns: row.answered_ns,
        slept_ns: row.blocked_ns,
        lower: LowerStamps {
            dev: row.low_dev,
            bio_ns: row.low_bio_ns,
            issue_ns: row.low_issue_ns,
            done_ns: row.low_done_ns,
        },
    })
}

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;
    use taillight_rundir::fixture;

    use super::*;

    /// A row of each kind, whole.
    fn row(kind: LayerKind) -> LayerRow {
        LayerRow {
            kind,
            state: Some(1),
            token: Some(7),
            blocked_ns: Some(5),
            middle_ns: Some(3),
            other: Some("other".into()),
            ..fixture::traced_io(1, 9)
        }
    }

    #[test]
    fn what_cannot_be_decoded_is_what_the_reader_refuses() {
        use LayerKind::*;
        type Case = (LayerKind, &'static str, fn(&mut LayerRow));
        let cases: [Case; 15] = [
            (Io, "worker", |row| row.worker = None),
            (Io, "op", |row| row.op = None),
            (Io, "offset", |row| row.offset = None),
            (Io, "size", |row| row.size = None),
            (Io, "flags", |row| row.flags = None),
            (Io, "bios", |row| row.bios = None),
            (Io, "parts", |row| row.parts = None),
            (OffCpu, "worker", |row| row.worker = None),
            (OffCpu, "state", |row| row.state = None),
            (Worker, "state", |row| row.state = None),
            (Round, "token", |row| row.token = None),
            (Neighbour, "size", |row| row.size = None),
            (CpuQuota, "blocked_ns", |row| row.blocked_ns = None),
            (Pause, "middle_ns", |row| row.middle_ns = None),
            (Pause, "other", |row| row.other = None),
        ];
        for (kind, column, spoil) in cases {
            let mut row = row(kind);
            spoil(&mut row);
            assert_eq!(row.lacking(), Some(column), "{kind:?}");
            assert!(Decoder::default().decode(row).is_none(), "{kind:?} without {column}");
        }
        for (kind, _) in LayerKind::NAMES {
            assert_eq!(row(kind).lacking(), None, "{kind:?}");
            assert_eq!(Decoder::default().decode(row(kind)).is_some(), kind != Task, "{kind:?}");
        }
    }

    #[test]
    fn a_backend_that_sees_no_block_io_has_no_parts() {
        let row = LayerRow { bios: None, parts: None, ..row(LayerKind::Io) };
        let Some(Decoded::Io(io)) = Decoder::default().decode(row) else { panic!() };
        assert_eq!((io.op, io.parts, io.slept_ns), (OpKind::Read, None, Some(5)));
        assert!(!io.has_block_io() && !io.all_parts_done());
    }

    #[test]
    fn a_word_beside_the_name_says_whose_an_io_is() {
        let owner = |word: Option<&str>| {
            let row = LayerRow { other: word.map(Into::into), ..row(LayerKind::Neighbour) };
            match Decoder::default().decode(row) {
                Some(Decoded::Event(LayerEvent::Neighbour(io))) => io.owner,
                other => panic!("{other:?}"),
            }
        };
        // The words that crates/trace/bpf/block.h writes.
        assert_eq!(owner(None), Owner::Other);
        assert_eq!(owner(Some("own")), Owner::OwnThread);
        assert_eq!(owner(Some("unplaced")), Owner::Unplaced);
        assert_eq!(owner(Some("held")), Owner::HeldPages);
        assert_eq!(owner(Some("limit")), Owner::Held);
        assert_eq!(owner(Some("of a later version")), Owner::Unknown);
    }

    #[test]
    fn what_is_null_is_no_zero() {
        let event = |row| match Decoder::default().decode(row) {
            Some(Decoded::Event(event)) => event,
            other => panic!("{other:?}"),
        };
        let could_run = |state| {
            let gap = LayerRow { state, ..row(LayerKind::Gap) };
            let LayerEvent::Gap(gap) = event(gap) else { panic!() };
            gap.could_run
        };
        assert!(could_run(Some(0)) && !could_run(None));
        let at_least = |blocked_ns, waited_ns| {
            let off = LayerRow { blocked_ns, waited_ns, ..row(LayerKind::OffCpu) };
            let LayerEvent::OffCpu(off) = event(off) else { panic!() };
            off.at_least
        };
        let known = AtLeast { asleep_ns: 0, waited_ns: 8 };
        assert_eq!(at_least(Some(0), Some(8)), Some(known));
        assert_eq!((at_least(None, Some(8)), at_least(Some(5), None)), (None, None));
    }

    #[test]
    fn names_go_to_the_threads_that_have_them() {
        let seen = |kind| LayerRow {
            comm: Some("batch".into()),
            comm_tid: Some(11),
            pid: Some(12),
            waker_pid: Some(13),
            other_pid: Some(14),
            stack: Some("io_schedule;blk_mq_get_tag".into()),
            flags: Some(flags::WOKEN_BY_OWN | flags::SERVES),
            ..row(kind)
        };
        let mut decoder = Decoder::default();
        let mut decode = |kind| match decoder.decode(seen(kind)) {
            Some(Decoded::Event(event)) => event,
            other => panic!("{other:?}"),
        };
        let LayerEvent::OffCpu(off) = decode(LayerKind::OffCpu) else { panic!() };
        assert_eq!((off.ran.as_ref().unwrap().tid, off.waker.tid()), (Some(11), Some(13)));
        assert_eq!((off.waker.name(), off.waker.is_own), (Some("other"), true));
        // The thread's own name and number, not its waker's.
        let LayerEvent::Helper(helper) = decode(LayerKind::Kthread) else { panic!() };
        assert_eq!((&*helper.thread.name, helper.thread.tid), ("other", Some(12)));
        assert_eq!((helper.waker.name(), helper.serves), (None, true));
        assert!(Arc::ptr_eq(&off.ran.clone().unwrap(), &helper.ran.clone().unwrap()), "kept once");
        assert!(Arc::ptr_eq(&off.stack.clone().unwrap(), &helper.stack.clone().unwrap()));
        drop((off, helper));
        decoder.forget_unused();
        assert!(decoder.threads.is_empty() && decoder.stacks.is_empty());
    }
}
