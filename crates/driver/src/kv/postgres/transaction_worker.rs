//! A worker's transactions of TPC-B and sysbench, one in flight in each slot: their values, tries and commits.
//! `session` asks for one statement after the other; each ends with a Sync of its own and is a round trip, as pgbench
//! and sysbench do it. Only the ROLLBACK of a failed transaction shares the Sync of the next BEGIN.

use std::sync::Arc;

use rand::{RngExt as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use taillight_core::{Op, OpKind, Status};

use super::consistency::{CommitLedger, CommitTally};
use super::messages::{self, BindMessage};
use super::transactions::{Benchmark, RANGE, ROLLBACK, TpcbValues, TransactionTables};

/// Largest amount of TPC-B: they are drawn from -5000 to 5000.
const DELTA: i32 = 5000;
/// Groups of digits in sysbench's columns are numbers below this: eleven digits.
const GROUP: u64 = 100_000_000_000;

/// What the transaction in a slot is about, and where it stands.
#[derive(Debug, Clone, Copy, Default)]
struct SlotTransaction {
    /// TPC-B: the values of the transaction, the same in every try. Sysbench: only `aid` is used, the id of the row
    /// that `delete_row` takes away and `insert_row` puts back.
    values: TpcbValues,
    /// Tries so far, with the one that is about to begin.
    tries: u32,
    /// The next begin is that of another try.
    again: bool,
    /// The server still has the failed transaction open: a ROLLBACK goes before the next BEGIN.
    open: bool,
    /// COMMIT is sent and not answered.
    committing: bool,
}

/// The transactions of a session.
pub struct TransactionWorker {
    benchmark: Benchmark,
    rows: u64,
    tellers: u64,
    branches: u64,
    rng: Xoshiro256PlusPlus,
    slots: Vec<SlotTransaction>,
    max_tries: u32,
    /// What this session was told of its commits. The ledger of the run gets it when the session ends, and holds it
    /// against the tables after a run of TPC-B.
    tally: CommitTally,
    ledger: Arc<CommitLedger>,
    text: Vec<u8>,
}

/// Whether another try may succeed: after a serialization failure or a deadlock, and in sysbench after a unique
/// violation, because another transaction has put back the deleted row before `insert_row` does.
pub fn is_conflict(code: &[u8], benchmark: Benchmark) -> bool {
    matches!(code, b"40001" | b"40P01") || (code == b"23505" && benchmark == Benchmark::Sysbench)
}

impl TransactionWorker {
    pub fn new(
        tables: &TransactionTables,
        max_tries: u32,
        depth: usize,
        seed: u64,
        ledger: Arc<CommitLedger>,
    ) -> TransactionWorker {
        TransactionWorker {
            benchmark: tables.benchmark,
            rows: tables.rows,
            tellers: tables.tellers(),
            branches: tables.branches(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            slots: vec![SlotTransaction::default(); depth],
            max_tries,
            tally: CommitTally { unanswered: Vec::with_capacity(depth), ..CommitTally::default() },
            ledger,
            text: Vec::with_capacity(128),
        }
    }

    /// The id of one of `count` rows, drawn evenly from 1 on.
    fn one_of(&mut self, count: u64) -> i32 {
        self.rng.random_range(1..=count.max(1)) as i32
    }

    /// Puts random groups of eleven digits into `text`, as sysbench writes them.
    fn digits(&mut self, groups: usize) {
        self.text.clear();
        for group in 0..groups {
            if group > 0 {
                self.text.push(b'-');
            }
            let mut left = self.rng.random_range(0..GROUP);
            let at = self.text.len();
            self.text.resize(at + 11, b'0');
            for digit in self.text[at..].iter_mut().rev() {
                *digit = b'0' + (left % 10) as u8;
                left /= 10;
            }
        }
    }

    /// Begins a transaction in the slot, or another try of it. A new try of TPC-B keeps the values; in sysbench the
    /// engine draws the keys anew for each statement, and `request` the columns.
    fn begin(&mut self, op: &Op, slot: usize, send: &mut Vec<u8>) {
        let again = std::mem::take(&mut self.slots[slot].again);
        if !again {
            self.slots[slot].tries = 1;
            self.slots[slot].values = TpcbValues {
                aid: op.key as i32 + 1,
                tid: self.one_of(self.tellers),
                bid: self.one_of(self.branches),
                delta: self.rng.random_range(-DELTA..=DELTA),
            };
        }
        if std::mem::take(&mut self.slots[slot].open) {
            BindMessage::new(send, ROLLBACK, 0).execute();
        }
        BindMessage::new(send, OpKind::Begin.name(), 0).execute();
    }

    /// Writes the statement of `op` in the slot's transaction, and its Sync, into `send`.
    pub fn request(&mut self, op: &Op, slot: usize, send: &mut Vec<u8>) {
        let id = op.key as i32 + 1;
        let TpcbValues { aid, tid, bid, delta } = self.slots[slot].values;
        // An `oltp_point_select` is a transaction of this one statement, without BEGIN, and uses nothing of the slot; a
        // `select_point` is one of several statements.
        let name = match op.kind {
            OpKind::OltpPointSelect => OpKind::SelectPoint.name(),
            kind => kind.name(),
        };
        let numbers = |send: &mut Vec<u8>, all: &[i32]| {
            let mut bind = BindMessage::new(send, name, all.len() as u16);
            all.iter().for_each(|n| bind.parameter(&n.to_be_bytes()));
            bind.execute();
        };
        match op.kind {
            OpKind::Begin => self.begin(op, slot, send),
            OpKind::UpdateAccounts => numbers(send, &[delta, aid]),
            OpKind::SelectAccounts => numbers(send, &[aid]),
            OpKind::UpdateTellers => numbers(send, &[delta, tid]),
            OpKind::UpdateBranches => numbers(send, &[delta, bid]),
            OpKind::InsertHistory => numbers(send, &[tid, bid, aid, delta]),
            OpKind::SelectRange
            | OpKind::SelectSum
            | OpKind::SelectOrder
            | OpKind::SelectDistinct => numbers(send, &[id, id.saturating_add(RANGE as i32 - 1)]),
            OpKind::UpdateNonIndex => {
                self.digits(10);
                let mut bind = BindMessage::new(send, name, 2);
                bind.parameter(&self.text);
                bind.parameter(&id.to_be_bytes());
                bind.execute();
            }
            OpKind::DeleteRow => {
                // The row that `insert_row` puts back.
                self.slots[slot].values.aid = id;
                numbers(send, &[id]);
            }
            OpKind::InsertRow => {
                let k = self.one_of(self.rows);
                let mut bind = BindMessage::new(send, name, 4);
                bind.parameter(&aid.to_be_bytes());
                bind.parameter(&k.to_be_bytes());
                self.digits(10);
                bind.parameter(&self.text);
                self.digits(5);
                bind.parameter(&self.text);
                bind.execute();
            }
            OpKind::Commit => {
                self.slots[slot].committing = true;
                numbers(send, &[]);
            }
            _ => numbers(send, &[id]),
        }
        messages::sync(send);
    }

    /// The status of a statement that the server refused with this code. `CONFLICT` has the engine begin the
    /// transaction again; any other code, and a conflict in the last of `max_tries`, gives `status` and ends the
    /// transaction.
    pub fn failed(&mut self, slot: usize, code: &[u8], status: Status) -> Status {
        let it = &mut self.slots[slot];
        if !is_conflict(code, self.benchmark) || it.tries >= self.max_tries {
            return status;
        }
        it.tries += 1;
        it.again = true;
        Status::CONFLICT
    }

    /// A statement has ended with this status. `state` is what the server then says of its session: `I` outside a
    /// transaction, `T` inside one, `E` inside one that failed.
    pub fn ended(&mut self, slot: usize, kind: OpKind, status: Status, state: u8) {
        let it = &mut self.slots[slot];
        it.open = state != b'I' && !status.is_ok();
        if kind == OpKind::Commit {
            it.committing = false;
            // COMMIT of a failed transaction rolls it back without an error; `session` has made that no success.
            if status.is_ok() && self.benchmark == Benchmark::TpcB {
                self.tally.committed(&it.values);
            }
        }
    }

    /// The connections are lost, or the session ends: no answer comes any more. A commit of TPC-B that was sent may
    /// have happened or not, and is kept as unanswered, to be looked for in the tables.
    pub fn forget(&mut self) {
        for it in &mut self.slots {
            if std::mem::take(&mut it.committing) && self.benchmark == Benchmark::TpcB {
                self.tally.unanswered.push(it.values);
            }
        }
    }
}

impl Drop for TransactionWorker {
    fn drop(&mut self) {
        self.forget();
        self.ledger.add(std::mem::take(&mut self.tally));
    }
}
