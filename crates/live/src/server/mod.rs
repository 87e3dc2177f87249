//! One thread that answers browsers and scrapers of a run; `page` and `metrics` have the answers, `head` the
//! requests.
//!
//! A loop over `poll` holds a limited number of connections, none of which can hold it up: a client that does
//! not ask or read is dropped after a time, or for a new one when all places are taken. Pages with events have a limit
//! of their own, so that there is always room for a scrape. The thread sleeps until somebody asks; with
//! nobody connected only the end wakes it. It runs at nice 19, and off the CPUs it is kept from where others are left.

#[cfg(test)]
mod tests;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use taillight_core::{Error, Result};

use crate::feed::{LiveFeed, LiveState, Waker};
use crate::head::{self, Head};
use crate::page::{self, Answer};

/// Most connections. For one more another goes, the one that has been without a request for the longest time first.
const CONNECTIONS: usize = 128;
/// Most of them that get events; the next one is told so.
const STREAMS: usize = 32;
/// Most connections accepted at a time: those are read before more may push them out.
const ACCEPTED: usize = 16;
/// Most reads of one connection at a time.
const READS: usize = 8;
/// From being accepted to a whole head, and until a client takes more of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// For reading a whole answer: a few MB over a slow line.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// Least time between two events.
const EVENT_PAUSE: Duration = Duration::from_millis(950);
/// A comment keeps the connection of a page alive that has no news.
const SILENCE: Duration = Duration::from_secs(15);
/// At the end, for the last event to go out.
const PARTING: Duration = Duration::from_secs(1);

/// How the view of a run is served.
#[derive(Debug, Clone, Default)]
pub struct LiveOptions {
    /// `ADDR:PORT`; `:PORT` or `PORT` on loopback; none = loopback, at the usual port or a free one.
    pub address: Option<String>,
    /// How long the last figures stay after the end, for a scrape.
    pub linger: Duration,
}

/// The usual port.
pub const PORT: u16 = 9713;

/// What the thread shares with who started it.
#[derive(Debug, Default)]
struct Shared {
    over: AtomicBool,
    /// A scrape came after the end.
    scraped_last: AtomicBool,
    thread: AtomicI32,
}

/// A served view.
pub struct LiveServer {
    state: Arc<LiveState>,
    shared: Arc<Shared>,
    address: SocketAddr,
    linger: Duration,
    thread: JoinHandle<()>,
    /// Ends with the thread.
    gone: Receiver<()>,
}

pub(crate) fn cannot(what: &str, e: impl Into<std::io::Error>) -> Error {
    Error::unavailable(format!("the live view cannot {what}")).source(e.into())
}

impl LiveServer {
    /// Begins to serve. Errors: `Usage` for an address that is none; `Unavailable` when it cannot be
    /// had.
    pub fn start(options: &LiveOptions) -> Result<LiveServer> {
        let (listener, hosts) = listen(options.address.as_deref())?;
        listener.set_nonblocking(true).map_err(|e| cannot("be served", e))?;
        let address = listener.local_addr().map_err(|e| cannot("be served", e))?;
        let (waker, woken) = Waker::new()?;
        let state = Arc::new(LiveState::new(Some(waker)));
        let shared = Arc::new(Shared::default());
        let (alive, gone) = channel();
        let mut service = Service {
            listener,
            woken,
            hosts,
            state: state.clone(),
            shared: shared.clone(),
            connections: Vec::new(),
            last_event: None,
        };
        let body = move || {
            let _alive = alive;
            service.run();
        };
        let thread = std::thread::Builder::new().name("live".to_owned()).spawn(body);
        let thread = thread.map_err(|e| cannot("start a thread", e))?;
        let linger = options.linger;
        Ok(LiveServer { state, shared, address, linger, thread, gone })
    }

    /// Where it is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a run is observed with.
    pub fn feed(&self) -> LiveFeed {
        LiveFeed::new(self.state.clone())
    }

    /// Keeps the thread off these CPUs, where others are left.
    pub fn keep_off(&self, cpus: impl Iterator<Item = u32>) {
        let thread = rustix::process::Pid::from_raw(self.shared.thread.load(Ordering::Acquire));
        let Ok(mut set) = sched_getaffinity(None) else { return };
        let known = |cpu: &usize| *cpu < CpuSet::MAX_CPU;
        cpus.map(|cpu| cpu as usize).filter(known).for_each(|cpu| set.unset(cpu));
        if set.count() > 0 && thread.is_some() {
            // Best effort: on a CPU of the load it still runs at nice 19.
            let _ = sched_setaffinity(thread, &set);
        }
    }

    /// Whether the last figures are kept for a scrape.
    pub fn lingers(&self) -> bool {
        !self.linger.is_zero()
    }

    /// Waits for a scrape of the last figures, no longer than was asked for and until `stopped`; then
    /// ends the service. What clients have been sent goes out first, if they read.
    pub fn finish(self, stopped: impl Fn() -> bool) {
        let until = Instant::now() + self.linger;
        let step = Duration::from_millis(50);
        while Instant::now() < until && !stopped() {
            if self.shared.scraped_last.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(step);
        }
        self.shared.over.store(true, Ordering::Relaxed);
        self.state.waker().iter().for_each(|waker| waker.wake());
        if self
            .gone
            .recv_timeout(2 * PARTING)
            .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Disconnected)
        {
            let _ = self.thread.join();
        }
    }
}

/// CPU time of this thread so far, ns.
pub fn thread_cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Binds the address, and the host name that may be asked for when it was given as one.
fn listen(asked: Option<&str>) -> Result<(TcpListener, Vec<String>)> {
    let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let Some(asked) = asked else {
        let bound = TcpListener::bind(loopback(PORT)).or_else(|_| TcpListener::bind(loopback(0)));
        return Ok((bound.map_err(|e| cannot("be served on loopback", e))?, Vec::new()));
    };
    let refused = |e: std::io::Error| {
        let hint = match e.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another program, perhaps another run, has this port: give another, or 0 for any"
            }
            std::io::ErrorKind::AddrNotAvailable => "no interface of this machine has this address",
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need rights: give a higher one"
            }
            _ => "give ADDR:PORT, such as 127.0.0.1:9713",
        };
        cannot("be served there", e).with("--live", asked).hint(hint)
    };
    let wrong = || {
        Error::usage("this is no address to serve the live view on")
            .with("--live", asked)
            .hint("give ADDR:PORT, such as 127.0.0.1:9713, or a port alone")
    };
    if let Ok(port) = asked.trim_start_matches(':').parse() {
        return Ok((TcpListener::bind(loopback(port)).map_err(refused)?, Vec::new()));
    }
    let (name, port) = asked.rsplit_once(':').ok_or_else(wrong)?;
    port.parse::<u16>().map_err(|_| wrong())?;
    let bound = TcpListener::bind(asked).map_err(refused)?;
    Ok((bound, vec![name.to_owned()]))
}

enum ClientStage {
    /// The head is not whole yet.
    Asking(Vec<u8>),
    /// Closed when the answer is out; since when.
    Answering(Instant),
    /// A page that gets events; the version of the model it has.
    Events(u64),
}

struct LiveClient {
    stream: TcpStream,
    stage: ClientStage,
    /// What is still to be sent.
    output: Vec<u8>,
    /// Since when nothing moved that should.
    since: Instant,
}

/// The thread's side.
struct Service {
    listener: TcpListener,
    woken: UnixStream,
    hosts: Vec<String>,
    state: Arc<LiveState>,
    shared: Arc<Shared>,
    connections: Vec<LiveClient>,
    last_event: Option<Instant>,
}

impl Service {
    fn run(&mut self) {
        let thread = rustix::thread::gettid();
        let _ = rustix::process::setpriority_process(Some(thread), 19);
        self.shared.thread.store(thread.as_raw_nonzero().get(), Ordering::Release);
        let mut parting = None;
        loop {
            if self.shared.over.load(Ordering::Relaxed) {
                let until = *parting.get_or_insert_with(|| Instant::now() + PARTING);
                let busy = self.connections.iter().any(|c| !c.output.is_empty());
                if !busy && self.events_are_out() || Instant::now() >= until {
                    return;
                }
            }
            if !self.wait(parting) {
                return;
            }
            self.accept();
            self.answer();
            self.tell();
            self.send();
            self.drop_late();
            let events = self.connections.iter().any(|c| matches!(c.stage, ClientStage::Events(_)));
            self.state.waker().iter().for_each(|waker| waker.await_news(events));
            self.state.cost.server_ns.store(thread_cpu_ns(), Ordering::Relaxed);
        }
    }

    fn events_are_out(&self) -> bool {
        let version = self.state.with_model(|model| model.version);
        let told = |c: &LiveClient| !matches!(c.stage, ClientStage::Events(seen) if seen < version);
        self.connections.iter().all(told)
    }

    /// Waits until there is something to do; false when it cannot go on.
    fn wait(&mut self, parting: Option<Instant>) -> bool {
        let pause = self.connections.iter().map(|c| match c.stage {
            ClientStage::Events(_) if c.output.is_empty() => {
                SILENCE.saturating_sub(c.since.elapsed())
            }
            _ => PATIENCE.saturating_sub(c.since.elapsed()),
        });
        let news = self.news_held().map(|held| EVENT_PAUSE.saturating_sub(held));
        let pause = pause.chain(news).chain(parting.map(|_| PARTING / 10)).min();
        let pause = pause.map(|p| Timespec {
            tv_sec: p.as_secs() as i64,
            // A moment more, so that it is over then.
            tv_nsec: i64::from(p.subsec_nanos()).min(998_000_000) + 1_000_000,
        });
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        for c in &self.connections {
            let out = if c.output.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::new(&c.stream, PollFlags::IN | out));
        }
        fds.push(PollFd::new(&self.listener, PollFlags::IN));
        match poll(&mut fds, pause.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
        drop(fds);
        let mut bytes = [0; 64];
        while (&self.woken).read(&mut bytes).is_ok_and(|n| n > 0) {}
        true
    }

    /// How long ago the last event was, when there is news that a page has not got.
    fn news_held(&self) -> Option<Duration> {
        let last = self.last_event?.elapsed();
        (!self.events_are_out()).then_some(last)
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED {
            let Ok((stream, _)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.connections.len() >= CONNECTIONS {
                self.make_room();
            }
            let _ = stream.set_nodelay(true);
            self.connections.push(LiveClient {
                stream,
                stage: ClientStage::Asking(Vec::new()),
                output: Vec::new(),
                since: Instant::now(),
            });
        }
    }

    /// Drops the connection that has been without a whole request for the longest time; where all have
    /// one, the answer that has been under way for the longest.
    fn make_room(&mut self) {
        let rank = |c: &LiveClient| match c.stage {
            ClientStage::Asking(_) => (0, c.since),
            ClientStage::Answering(began) => (1, began),
            ClientStage::Events(_) => (2, c.since),
        };
        let all = self.connections.iter().enumerate();
        if let Some((nth, _)) = all.min_by_key(|(_, c)| rank(c)) {
            self.connections.swap_remove(nth);
        }
    }

    /// Reads what came in; answers whole heads.
    fn answer(&mut self) {
        let mut connections = std::mem::take(&mut self.connections);
        let events = |c: &&LiveClient| matches!(c.stage, ClientStage::Events(_));
        let mut streams = connections.iter().filter(events).count();
        connections.retain_mut(|c| {
            let mut bytes = [0; 2048];
            for _ in 0..READS {
                match (&c.stream).read(&mut bytes) {
                    // The client closed; one that only ended its half is answered no more either.
                    Ok(0) => return false,
                    Ok(n) => {
                        if let ClientStage::Asking(input) = &mut c.stage {
                            input.extend_from_slice(&bytes[..n]);
                            if input.len() >= head::LONGEST {
                                break;
                            }
                        }
                    }
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => return false,
                }
            }
            if let ClientStage::Asking(input) = &c.stage
                && !input.is_empty()
            {
                let head = head::read(input, &self.hosts);
                self.begin_answer(c, head, &mut streams);
            }
            true
        });
        self.connections = connections;
    }

    fn begin_answer(&self, c: &mut LiveClient, head: Head, streams: &mut usize) {
        let (answer, head_only) = match head {
            Head::Partial => return,
            Head::Refused(status, words) => (Answer::plain_text(status, words), false),
            Head::Request(request)
                if request.path == "/events" && !request.head_only && *streams >= STREAMS =>
            {
                let words = "as many pages as there may be get events already: close one of them\n";
                (Answer::plain_text("503 Service Unavailable", words), false)
            }
            Head::Request(request) if request.path == "/events" && !request.head_only => {
                *streams += 1;
                c.output = page::EVENTS_HEAD.as_bytes().to_vec();
                c.stage = ClientStage::Events(request.last_event.unwrap_or(0));
                c.since = Instant::now();
                // A page that is new gets what there is at once.
                let version = self.state.with_model(|model| model.version);
                if request.last_event != Some(version) {
                    self.put_event(c);
                }
                return;
            }
            Head::Request(request) => {
                let only = request.head_only;
                if request.path == "/metrics" && !only {
                    self.state.cost.scrapes.fetch_add(1, Ordering::Relaxed);
                    let ended = self.state.with_model(|model| model.end.is_some());
                    self.shared.scraped_last.fetch_or(ended, Ordering::Relaxed);
                }
                let used = LiveFeed::new(self.state.clone()).cost();
                let answer = self.state.with_model(|model| page::answer(&request, model, &used));
                (answer, only)
            }
        };
        c.output = answer.bytes(head_only);
        c.since = Instant::now();
        c.stage = ClientStage::Answering(c.since);
    }

    fn put_event(&self, c: &mut LiveClient) {
        self.state.cost.events.fetch_add(1, Ordering::Relaxed);
        self.state.with_model(|model| {
            c.output.extend_from_slice(page::event(model).as_bytes());
            c.stage = ClientStage::Events(model.version);
        });
    }

    /// News to the pages that have taken all before, and a sign of life to the others.
    fn tell(&mut self) {
        let due = self.last_event.is_none_or(|t| t.elapsed() >= EVENT_PAUSE);
        let ending = self.shared.over.load(Ordering::Relaxed);
        let version = self.state.with_model(|model| model.version);
        let mut connections = std::mem::take(&mut self.connections);
        let mut told = false;
        for c in connections.iter_mut().filter(|c| c.output.is_empty()) {
            match c.stage {
                ClientStage::Events(seen) if seen != version && (due || ending) => {
                    self.put_event(c);
                    c.since = Instant::now();
                    told = true;
                }
                ClientStage::Events(_) if c.since.elapsed() >= SILENCE => {
                    c.output = b":\n\n".to_vec();
                    c.since = Instant::now();
                }
                _ => {}
            }
        }
        if told || self.last_event.is_none() {
            self.last_event = Some(Instant::now());
        }
        self.connections = connections;
    }

    fn send(&mut self) {
        self.connections.retain_mut(|c| {
            while !c.output.is_empty() {
                match (&c.stream).write(&c.output) {
                    Ok(0) => return false,
                    Ok(n) => {
                        c.output.drain(..n);
                        c.since = Instant::now();
                    }
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return true,
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => return false,
                }
            }
            !matches!(c.stage, ClientStage::Answering(_))
        });
    }

    /// Drops whoever neither asks nor reads.
    fn drop_late(&mut self) {
        self.connections.retain(|c| match c.stage {
            ClientStage::Events(_) if c.output.is_empty() => true,
            ClientStage::Answering(began) if began.elapsed() >= ANSWER_PATIENCE => false,
            _ => c.since.elapsed() < PATIENCE,
        });
    }
}
