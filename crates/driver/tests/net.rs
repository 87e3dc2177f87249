//! An example driver over `net`, as CONTRIBUTING describes one, with its server: a store over TCP that keeps what it is
//! sent and answers in order. Shows that a pipelined driver needs one file only, and keeps the contract.
#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taillight_core::capability::{AdminAction, Capabilities, DriverFacts, TargetKind};
use taillight_core::plan::TargetPlan;
use taillight_core::probe::Token;
use taillight_core::progress::OnProgress;
use taillight_core::{Error, Op, OpKind, Result, StopFlag};
use taillight_driver::conformance::{TestCase, assert_kept, keyed_plan, plan_for, target};
use taillight_driver::net::{
    Frame, PipelineProtocol, PipelinedSocket, Pipelines, ServerAddress, SlotTable,
};
use taillight_driver::{
    BoundDriver, Completion, Driver, DriverOptions, Geometry, KeyedTarget, NoOptions, OpenSpec,
    Session, SessionSpec, Target,
};

/// Bytes of the head of a frame: the kind (of a reply: whether the key was there), key, number of bytes that follow.
const HEAD: usize = 13;
const CLEAR: u8 = 255;

struct EchoDriver;

struct EchoTarget {
    address: ServerAddress,
    records: AtomicU64,
}

struct EchoProtocol {
    slots: SlotTable,
    /// For each connection, the slots whose replies are to come.
    sent: Vec<VecDeque<u32>>,
}

fn frame(kind: u8, key: u64, value: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&key.to_be_bytes());
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

/// The first byte of a frame, its value and its length.
fn unframe(bytes: &[u8]) -> Frame<(u8, &[u8])> {
    let Some(head) = bytes.first_chunk::<HEAD>() else { return Frame::Needs(HEAD) };
    let size = u32::from_be_bytes([head[9], head[10], head[11], head[12]]) as usize;
    match bytes.get(HEAD..HEAD + size) {
        Some(value) => Frame::Whole((head[0], value), HEAD + size),
        None => Frame::Needs(HEAD + size),
    }
}

impl Driver for EchoDriver {
    fn name(&self) -> &'static str {
        "echo"
    }
    fn about(&self) -> &'static str {
        "answers what it was sent"
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        NoOptions::parse(self.name(), &target.options)?;
        Ok(Box::new(EchoDriver))
    }
}

impl BoundDriver for EchoDriver {
    fn options(&self) -> Result<toml::Table> {
        Ok(toml::Table::new())
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ops: vec![OpKind::Get, OpKind::Insert, OpKind::Update, OpKind::Delete, OpKind::Rmw],
            max_depth: 4096,
            stores_data: true,
            admin: vec![AdminAction::Purge],
            facts: DriverFacts { kind: TargetKind::Keyed, ..DriverFacts::default() },
            ..Capabilities::default()
        }
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        let path = spec.plan.target.path.as_deref().unwrap_or_default();
        let (host, port) = path.rsplit_once(':').ok_or_else(|| Error::usage("HOST:PORT"))?;
        let port = port.parse().map_err(|_| Error::usage("HOST:PORT"))?;
        let address = ServerAddress::Tcp(host.to_owned(), port);
        Ok(Box::new(EchoTarget { address, records: AtomicU64::new(0) }))
    }
}

impl EchoTarget {
    fn connect(&self) -> Result<PipelinedSocket> {
        PipelinedSocket::connect(&self.address, Duration::from_secs(5), &StopFlag::default())
            .map_err(|e| Error::unavailable("no connection").source(e))
    }
}

impl Target for EchoTarget {
    fn geometry(&self) -> Geometry {
        Geometry::keyed()
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let sockets = (0..spec.depth.min(2)).map(|_| self.connect()).collect::<Result<Vec<_>>>()?;
        let depth = spec.depth as usize;
        let protocol = EchoProtocol {
            slots: SlotTable::new(spec),
            sent: sockets.iter().map(|_| VecDeque::with_capacity(depth)).collect(),
        };
        Ok(Box::new(Pipelines::new(sockets, protocol, "echo", depth)?))
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        if action != AdminAction::Purge {
            return Err(Error::unavailable("only purge"));
        }
        let mut socket = self.connect()?;
        frame(CLEAR, 0, &[], &mut socket.out);
        let stop = StopFlag::default();
        let deadline = taillight_driver::net::Deadline::within(Duration::from_secs(5), &stop);
        let answered = socket.answer(&deadline, |bytes| match unframe(bytes) {
            Frame::Whole(_, used) => Frame::Whole((), used),
            Frame::Needs(n) => Frame::Needs(n),
            Frame::Broken => Frame::Broken,
        });
        answered.map_err(|e| Error::target("no answer").source(e))?;
        self.records.store(0, Ordering::Relaxed);
        Ok(())
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        Some(self)
    }
}

impl KeyedTarget for EchoTarget {
    fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }
    fn loaded(&self, records: u64) -> Result<()> {
        self.records.store(records, Ordering::Relaxed);
        Ok(())
    }
}

impl PipelineProtocol for EchoProtocol {
    fn slots(&mut self) -> &mut SlotTable {
        &mut self.slots
    }
    fn request(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) -> Result<()> {
        let size = if op.kind.writes() && op.kind != OpKind::Delete { op.size } else { 0 };
        frame(op.kind as u8, op.key, &self.slots.buffer(slot)[..size as usize], send);
        let pending = self.slots.pending(slot);
        (pending.left, pending.wanted, pending.moved) = (1, 1, size);
        let at = taillight_driver::net::of_slot(slot, self.sent.len());
        self.sent[at].push_back(slot);
        Ok(())
    }
    fn take(
        &mut self,
        at: usize,
        bytes: &[u8],
        _: &mut Vec<u8>,
    ) -> Frame<io::Result<Option<Completion>>> {
        let (found, value, used) = match unframe(bytes) {
            Frame::Whole((found, value), used) => (found != 0, value, used),
            Frame::Needs(n) => return Frame::Needs(n),
            Frame::Broken => return Frame::Broken,
        };
        let Some(slot) = self.sent[at].pop_front() else { return Frame::Broken };
        self.slots.land(slot, value);
        self.slots.pending(slot).count = u32::from(found);
        Frame::Whole(Ok(self.slots.replied(slot)), used)
    }
    fn forget(&mut self) {
        self.sent.iter_mut().for_each(VecDeque::clear);
    }
}

type Store = Arc<Mutex<HashMap<u64, Vec<u8>>>>;

/// Starts a server on loopback, in threads that end with the process of the test; gives its address.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let store = Store::default();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let store = store.clone();
            std::thread::spawn(move || answer(client, &store));
        }
    });
    address
}

/// Answers requests until the client goes, or names the last key number, on which the connection is closed.
fn answer(mut client: TcpStream, store: &Store) -> io::Result<()> {
    loop {
        let mut head = [0; HEAD];
        client.read_exact(&mut head)?;
        let key = u64::from_be_bytes(head[1..9].try_into().unwrap());
        let mut value = vec![0; u32::from_be_bytes(head[9..].try_into().unwrap()) as usize];
        client.read_exact(&mut value)?;
        if key == u64::MAX >> 1 {
            return Ok(());
        }
        let mut store = store.lock().unwrap();
        let mut out = Vec::new();
        let is = |kind: OpKind| head[0] == kind as u8;
        match store.get(&key) {
            _ if head[0] == CLEAR => {
                store.clear();
                frame(1, 0, &[], &mut out);
            }
            None if !is(OpKind::Insert) => frame(0, 0, &[], &mut out),
            Some(held) if is(OpKind::Get) => frame(1, 0, held, &mut out),
            _ => {
                match is(OpKind::Delete) {
                    true => store.remove(&key),
                    false => store.insert(key, value),
                };
                frame(1, 0, &[], &mut out);
            }
        }
        drop(store);
        client.write_all(&out)?;
    }
}

#[test]
fn an_echo_store_over_the_network_layer_keeps_the_contract() {
    for depth in [1, 2, 32, 1024] {
        let target = target("echo", &serve(), "");
        let can = EchoDriver.capabilities();
        let plan = plan_for(&can, target, depth, false);
        assert_kept(&TestCase { driver: &EchoDriver, plan, destroy: None });
    }
}

#[test]
fn a_lost_connection_ends_what_is_in_flight_with_an_error_each() {
    let plan = keyed_plan(target("echo", &serve(), ""), 100, 8, false);
    let (stop, fits) = (StopFlag::default(), |_| Ok(()));
    let spec = OpenSpec { plan: &plan, run_id: "t", destroy: None, stop: &stop, fits: &fits };
    let target = EchoDriver.open(&spec, &mut |_| true).unwrap();
    let mut s = taillight_driver::conformance::session(target.as_ref(), 100, 8);
    for slot in 0..8 {
        // The operation in slot 0 has the server close its connection.
        let key = if slot == 0 { u64::MAX >> 1 } else { u64::from(slot) };
        s.submit(&Op::keyed(OpKind::Insert, key, 100), slot, Token::new(1, slot)).unwrap();
    }
    s.flush().unwrap();
    let mut out = Vec::new();
    s.poll(8, None, &mut out).unwrap();
    assert_eq!(out.len(), 8, "{out:?}");
    assert!(!out.iter().find(|c| c.token.slot() == 0).unwrap().status.is_ok());
    let e = s.submit(&Op::keyed(OpKind::Get, 1, 0), 0, Token::new(2, 0)).unwrap_err();
    assert!(e.to_string().contains("echo server is lost"), "{e}");
}
