//! One worker's session on a PostgreSQL server: operations become prepared statements that are bound and executed,
//! and the server's messages become completions. Each operation ends with a Sync, which makes its statements one
//! transaction. Transactions over several round trips are in `transaction_worker`.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use taillight_core::keys::KEY_MAX;
use taillight_core::{ALL_FIELDS, Error, Op, OpKind, Result, Status};

use super::errors::ServerErrors;
use super::messages::{self, BindMessage, PgMessage};
use super::own_rows::SessionChanges;
use super::statements::TableLayout;
use super::transaction_worker::TransactionWorker;
use crate::contract::{Completion, SessionSpec};
use crate::kv::{fields, rules::WorkloadRules, written::SessionKeys};
use crate::net::{
    ConnectionCounters, Frame, PipelineProtocol, PipelinedSocket, Pipelines, SlotTable, of_slot,
};

/// What an operation's answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Rows: of all columns, or of this one field.
    Rows(Option<u16>),
    /// The tag of a write; with `there`, no row is `NOT_FOUND`.
    Written { there: bool },
    /// That of a statement of a transaction.
    Statement(OpKind),
}

/// The protocol of a session: its state but the connections.
pub struct StatementPipeline {
    layout: TableLayout,
    /// Names of the statements of single fields: those that get, those that update.
    names: Vec<[String; 2]>,
    errors: Arc<ServerErrors>,
    counters: Arc<ConnectionCounters>,
    written: WriteNotes,
    slots: SlotTable,
    /// For each connection, slot and meaning of the answers to come. A slot always uses the same connection.
    awaited: Vec<VecDeque<(u32, Awaited)>>,
    key: Box<[u8; KEY_MAX]>,
    /// Only where the run has transactions.
    transactions: Option<TransactionWorker>,
}

/// Where a session notes the keys that it writes, and the rows that it changes.
pub struct WriteNotes {
    pub keys: Arc<SessionKeys>,
    pub changes: Arc<SessionChanges>,
}

/// A session over these connections, with their statements prepared. Errors: `Unavailable` without epoll.
pub fn session(
    sockets: Vec<PipelinedSocket>,
    layout: TableLayout,
    (errors, written): (Arc<ServerErrors>, WriteNotes),
    counters: Arc<ConnectionCounters>,
    transactions: Option<TransactionWorker>,
    spec: &SessionSpec,
) -> Result<Pipelines<StatementPipeline>> {
    let depth = spec.depth.max(1) as usize;
    let share = depth.div_ceil(sockets.len());
    let fields = if layout.fields { layout.columns.len() } else { 0 };
    let protocol = StatementPipeline {
        names: (0..fields).map(|i| [format!("g{i}"), format!("u{i}")]).collect(),
        layout,
        errors,
        counters,
        written,
        slots: SlotTable::new(spec),
        awaited: sockets.iter().map(|_| VecDeque::with_capacity(share)).collect(),
        key: Box::new([0; KEY_MAX]),
        transactions,
    };
    Pipelines::new(sockets, protocol, "PostgreSQL", depth)
}

/// Binds and executes a statement with a key and these values.
fn run<'v>(
    rules: &WorkloadRules,
    scratch: &mut [u8; KEY_MAX],
    send: &mut Vec<u8>,
    name: &str,
    key: u64,
    values: impl Iterator<Item = Option<&'v [u8]>> + Clone,
) {
    let mut bind = BindMessage::new(send, name, 1 + values.clone().count() as u16);
    bind.parameter(rules.format.write(key, scratch));
    values.for_each(|value| match value {
        Some(value) => bind.parameter(value),
        None => bind.null(),
    });
    bind.execute();
}

/// The data of each column, by the order of the fields in a value; none where a value lacks one.
fn by_column<'v>(
    columns: &'v [String],
    value: &'v [u8],
) -> impl Iterator<Item = Option<&'v [u8]>> + Clone {
    let mut fields = fields::fields(value);
    let mut next = fields.next();
    columns.iter().map(move |column| {
        let found = next.as_ref().filter(|f| f.name == column.as_bytes()).map(|f| f.data);
        if found.is_some() {
            next = fields.next();
        }
        found
    })
}

impl StatementPipeline {
    /// Ends an operation's statements with a Sync, and notes what answer is awaited.
    fn end(&mut self, slot: u32, awaited: Awaited, send: &mut Vec<u8>) {
        messages::sync(send);
        self.slots.pending(slot).left = 1;
        let connections = self.awaited.len();
        self.awaited[of_slot(slot, connections)].push_back((slot, awaited));
    }

    fn get(&mut self, field: u16, keys: impl Iterator<Item = u64>, slot: u32, send: &mut Vec<u8>) {
        let one = (field != ALL_FIELDS && self.layout.fields).then_some(field);
        let name = match one.and_then(|f| self.names.get(usize::from(f))) {
            Some(names) => names[0].as_str(),
            None => "g",
        };
        let mut wanted = 0;
        for key in keys {
            run(&self.layout.rules, &mut self.key, send, name, key, std::iter::empty());
            wanted += 1;
        }
        self.slots.pending(slot).wanted = wanted;
        self.end(slot, Awaited::Rows(one), send);
    }

    fn scan(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) {
        let count = u64::from(op.count).to_be_bytes();
        let values = std::iter::once(Some(&count[..]));
        run(&self.layout.rules, &mut self.key, send, "s", op.key, values);
        self.end(slot, Awaited::Rows(None), send);
    }

    fn delete(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) {
        run(&self.layout.rules, &mut self.key, send, "d", op.key, std::iter::empty());
        self.end(slot, Awaited::Written { there: true }, send);
    }

    fn put(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) {
        let name = match op.kind {
            OpKind::Insert => "i",
            OpKind::Put => "p",
            _ => "u",
        };
        let count = op.count.max(1);
        self.written.keys.note(op.key, op.count, op.size);
        self.written.changes.stores(u64::from(count));
        let buffer = self.slots.take_buffer(slot);
        let rules = &self.layout.rules;
        let values = buffer.chunks(op.size.max(1) as usize).chain(std::iter::once(&buffer[..0]));
        for (key, value) in (op.key..).zip(values).take(count as usize) {
            let value = &value[..op.size as usize];
            if !self.layout.fields {
                run(rules, &mut self.key, send, name, key, std::iter::once(Some(value)));
                continue;
            }
            let one = self.names.get(usize::from(op.field)).filter(|_| op.kind == OpKind::Update);
            let Some(names) = one else {
                let data = by_column(&self.layout.columns, value);
                run(rules, &mut self.key, send, name, key, data);
                continue;
            };
            let data = fields::fields(value).take(1).map(|field| Some(field.data));
            run(rules, &mut self.key, send, names[1].as_str(), key, data);
        }
        self.slots.give_back(slot, buffer);
        let pending = self.slots.pending(slot);
        pending.moved = op.bytes();
        pending.count = if op.count > 1 { op.count } else { 0 };
        self.end(slot, Awaited::Written { there: op.kind == OpKind::Update }, send);
    }

    /// Sends a statement of a transaction, with its Sync.
    fn statement(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) -> Result<()> {
        let Some(worker) = &mut self.transactions else {
            return Err(Error::internal("a transaction in a run that has none"));
        };
        worker.request(op, slot as usize, send);
        self.slots.pending(slot).left = 1;
        let connections = self.awaited.len();
        self.awaited[of_slot(slot, connections)].push_back((slot, Awaited::Statement(op.kind)));
        Ok(())
    }

    /// Takes the tag of a finished statement: notes changes, and sets `NOT_FOUND` where a row had to be there.
    fn done(&mut self, slot: u32, awaited: Awaited, tag: &[u8]) {
        let failed = match awaited {
            Awaited::Written { there } => {
                let rows = messages::affected(tag);
                self.written.changes.answered(tag, rows);
                there && rows == 0
            }
            Awaited::Statement(kind) => match kind {
                // Their rows are there at every moment of a run.
                OpKind::UpdateAccounts
                | OpKind::UpdateTellers
                | OpKind::UpdateBranches
                | OpKind::SelectAccounts
                | OpKind::SelectPoint
                | OpKind::OltpPointSelect => messages::affected(tag) == 0,
                // A transaction that has failed is undone by its commit, which is no error.
                OpKind::Commit if tag != b"COMMIT\0" => {
                    self.slots.pending(slot).status = Status::STORE;
                    false
                }
                _ => false,
            },
            _ => false,
        };
        if failed {
            self.slots.pending(slot).status = Status::NOT_FOUND;
        }
    }

    /// Takes an error of the server: counts it, and sets the status.
    #[cold]
    fn refused(&mut self, slot: u32, awaited: Awaited, body: &[u8]) {
        let mut status = self.errors.note(body);
        // An operation of one statement is not begun again.
        if let (Awaited::Statement(kind), Some(worker)) = (awaited, &mut self.transactions)
            && kind.is_statement()
        {
            status = worker.failed(slot as usize, messages::field(body, b'C'), status);
        }
        self.slots.pending(slot).status = status;
    }

    /// Takes a row: counts it, and puts its columns into the slot's buffer if they are kept.
    fn row(&mut self, slot: u32, awaited: Awaited, body: &[u8]) {
        let Awaited::Rows(one) = awaited else { return };
        self.slots.pending(slot).count += 1;
        if !self.layout.fields {
            if let Some(Some(value)) = messages::columns(body).next() {
                self.slots.land(slot, value);
            }
            return;
        }
        let first = one.map_or(0, usize::from);
        let names = self.layout.columns.iter().skip(first);
        for (name, value) in names.zip(messages::columns(body)) {
            if let Some(value) = value {
                self.slots.land_field(slot, name.as_bytes(), value);
            }
        }
    }

    /// Takes a message; the completion if it ends an operation. `Err` when it ends the connection, or was not due.
    fn answer(&mut self, at: usize, message: PgMessage<'_>) -> io::Result<Option<Completion>> {
        match message.kind {
            b'N' => {
                self.errors.warn(message.body);
                return Ok(None);
            }
            b'S' | b'A' => return Ok(None),
            _ => {}
        }
        let Some((slot, awaited)) = self.awaited[at].front().copied() else {
            // The server says why it ends the connection.
            if message.kind == b'E' {
                self.errors.note(message.body);
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            return Err(io::ErrorKind::InvalidData.into());
        };
        match message.kind {
            b'D' => self.row(slot, awaited, message.body),
            b'C' => self.done(slot, awaited, message.body),
            b'E' => self.refused(slot, awaited, message.body),
            b'Z' => {
                self.awaited[at].pop_front();
                if let (Awaited::Statement(kind), Some(worker)) = (awaited, &mut self.transactions)
                {
                    let status = self.slots.pending(slot).status;
                    let state = message.body.first().copied().unwrap_or_default();
                    worker.ended(slot as usize, kind, status, state);
                }
                return Ok(self.slots.replied(slot));
            }
            b'1' | b'2' | b'I' | b'n' => {}
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(None)
    }
}

impl PipelineProtocol for StatementPipeline {
    fn slots(&mut self) -> &mut SlotTable {
        &mut self.slots
    }

    fn request(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) -> Result<()> {
        let keys = op.key..op.key + u64::from(op.count.max(1));
        match op.kind {
            OpKind::Get => self.get(op.field, keys, slot, send),
            OpKind::Insert | OpKind::Put | OpKind::Update => self.put(op, slot, send),
            OpKind::Delete => self.delete(op, slot, send),
            OpKind::Scan => self.scan(op, slot, send),
            kind if kind.is_statement() || kind == OpKind::OltpPointSelect => {
                self.statement(op, slot, send)?;
            }
            other => {
                let what = format!("driver `postgres` knows no {}", other.name());
                return Err(Error::internal(what));
            }
        }
        Ok(())
    }

    fn request_many(&mut self, op: &Op, keys: &[u64], slot: u32, send: &mut Vec<u8>) -> Result<()> {
        if op.kind != OpKind::Get {
            return Err(Error::internal("driver `postgres` has drawn keys for gets only"));
        }
        self.get(op.field, keys.iter().copied().take(op.count as usize), slot, send);
        Ok(())
    }

    fn take(
        &mut self,
        at: usize,
        bytes: &[u8],
        _: &mut Vec<u8>,
    ) -> Frame<io::Result<Option<Completion>>> {
        match messages::parse(bytes) {
            Frame::Whole(message, used) => Frame::Whole(self.answer(at, message), used),
            Frame::Needs(n) => Frame::Needs(n),
            Frame::Broken => Frame::Broken,
        }
    }

    fn forget(&mut self) {
        self.counters.broken();
        if let Some(worker) = &mut self.transactions {
            worker.forget();
        }
        self.awaited.iter_mut().for_each(VecDeque::clear);
    }
}
