//! From the engine's collector to the model: the [`Observer`] that a run hands its intervals to, and the
//! state behind every view. The message of an interval shares what the collector has closed; the next view that asks
//! folds it into the model, or the sender does where too many wait.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use taillight_core::plan::Plan;
use taillight_core::progress::Progress;
use taillight_core::{Clock, MonoClock, Result, Stamp};
use taillight_engine::{IntervalView, Observer};
use taillight_report::table::Tone;
use taillight_rundir::host::HostRow;
use taillight_rundir::manifest::LiveViewCost;
use taillight_rundir::summary::Cause;

use crate::model::LiveModel;
use crate::server::cannot;

/// What does not change while a run goes on.
#[derive(Debug, Clone)]
pub struct RunFacts {
    pub run_id: String,
    /// One line: what is driven how.
    pub about: String,
    /// Name of this machine, for a run that goes on here.
    pub host: Option<String>,
    pub plan: Plan,
    /// Where it stands, when it is one of several.
    pub series: Option<PlaceInSeries>,
    /// The run directory.
    pub dir: PathBuf,
}

/// A run's place in a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceInSeries {
    /// The point's name.
    pub id: String,
    /// The pass over the points of a loop, from 1 up.
    pub round: u32,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveEnd {
    /// `complete`, `partial` or `failed`; in words where there is no report.
    pub status: String,
    /// The run's page, when one was made.
    pub report: Option<PathBuf>,
    /// The report's verdict, one line.
    pub verdict: Option<String>,
    /// The verdict in a word or two, and its tone.
    pub word: Option<(&'static str, Tone)>,
    /// The layers that held the slow I/Os, of a traced run with a report.
    pub slow: Option<Vec<Cause>>,
}

/// What the model is told.
#[derive(Debug)]
pub enum LiveEvent {
    Begin(Box<RunFacts>),
    Phase(String),
    Interval(Box<IntervalView>),
    Overtime,
    /// A sample of the machine.
    Host(Vec<HostRow>),
    /// The layers that held the slow I/Os so far, of a traced run.
    Slow(Vec<Cause>),
    Stalled(Stamp),
    /// Long work that is not measuring: what, the part that is done, and the whole.
    Work(String, u64, u64),
    End(Box<LiveEnd>),
}

/// Wakes the server's thread, when it has clients that wait for news.
#[derive(Debug)]
pub(crate) struct Waker {
    stream: UnixStream,
    awaited: AtomicBool,
}

impl Waker {
    /// The waker and what the server polls. Errors: `Unavailable` without file descriptors.
    pub fn new() -> Result<(Waker, UnixStream)> {
        let pair = || -> std::io::Result<(UnixStream, UnixStream)> {
            let (stream, other) = UnixStream::pair()?;
            stream.set_nonblocking(true)?;
            other.set_nonblocking(true)?;
            Ok((stream, other))
        };
        let (stream, other) = pair().map_err(|e| cannot("make a pair of sockets", e))?;
        Ok((Waker { stream, awaited: AtomicBool::new(false) }, other))
    }

    /// Notes whether a client waits for news.
    pub fn await_news(&self, awaited: bool) {
        self.awaited.store(awaited, Ordering::Relaxed);
    }

    /// Wakes the thread if a client waits for news.
    fn news(&self) {
        if self.awaited.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes the thread. A full buffer wakes it as well.
    pub fn wake(&self) {
        let _ = (&self.stream).write(&[1]);
    }
}

/// With more events than this waiting, `tell` folds some of them into the model itself.
const WAITING_MAX: usize = 256;

/// The model with its events, held.
type HeldModel<'a> = MutexGuard<'a, (Receiver<LiveEvent>, LiveModel)>;

/// The state behind all views.
#[derive(Debug)]
pub struct LiveState {
    events: Sender<LiveEvent>,
    model: Mutex<(Receiver<LiveEvent>, LiveModel)>,
    /// Events that nobody took up yet.
    waiting: AtomicUsize,
    /// The server's, if there is one.
    waker: Option<Waker>,
    /// When measuring began, ns.
    measured_ns: AtomicI64,
    /// What the views have used.
    pub(crate) cost: ViewsCost,
}

/// What the views of a run used so far.
#[derive(Debug, Default)]
pub(crate) struct ViewsCost {
    /// CPU time of the server's thread, ns.
    pub server_ns: AtomicU64,
    /// CPU time of drawing on the terminal, ns.
    pub screen_ns: AtomicU64,
    pub scrapes: AtomicU64,
    /// Events sent to pages.
    pub events: AtomicU64,
}

impl LiveState {
    pub(crate) fn new(waker: Option<Waker>) -> LiveState {
        let (events, taken) = channel();
        let model = Mutex::new((taken, LiveModel::default()));
        let measured_ns = AtomicI64::new(i64::MAX);
        let (waiting, cost) = (AtomicUsize::new(0), ViewsCost::default());
        LiveState { events, model, waiting, waker, measured_ns, cost }
    }

    /// Looks at the model after all events so far; waits while another view looks.
    pub fn with_model<R>(&self, see: impl FnOnce(&mut LiveModel) -> R) -> R {
        // A view that panicked has only read: the model is as good as before.
        let held = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        see(&mut self.taken_up(held, usize::MAX).1)
    }

    /// As [`with_model`](Self::with_model), but none while another view looks: for callers that may not wait.
    pub fn try_with_model<R>(&self, see: impl FnOnce(&mut LiveModel) -> R) -> Option<R> {
        let held = self.model.try_lock().ok()?;
        Some(see(&mut self.taken_up(held, usize::MAX).1))
    }

    /// The model after at most `most` of the events that wait.
    fn taken_up<'a>(&self, mut held: HeldModel<'a>, most: usize) -> HeldModel<'a> {
        let (events, model) = &mut *held;
        let mut taken = 0;
        for event in events.try_iter().take(most) {
            model.take(event);
            taken += 1;
        }
        self.waiting.fetch_sub(taken, Ordering::Relaxed);
        held
    }

    pub(crate) fn waker(&self) -> Option<&Waker> {
        self.waker.as_ref()
    }

    pub(crate) fn tell(&self, event: LiveEvent) {
        // Counted first: who takes it up counts it off. The receiver lives as long as the state.
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.events.send(event);
        // Nobody has looked for long: the oldest two go into the model, so that what waits stays bounded.
        if waiting > WAITING_MAX
            && let Ok(held) = self.model.try_lock()
        {
            drop(self.taken_up(held, 2));
        }
        self.waker.iter().for_each(Waker::news);
    }
}

/// Least time between two messages about long work.
const PAUSE: Duration = Duration::from_millis(250);

/// What a run is observed with.
#[derive(Debug, Clone)]
pub struct LiveFeed {
    state: Arc<LiveState>,
    told_work: Option<Instant>,
}

impl LiveFeed {
    /// Of a run that is shown on the terminal only.
    pub fn unserved() -> LiveFeed {
        LiveFeed::new(Arc::new(LiveState::new(None)))
    }

    pub(crate) fn new(state: Arc<LiveState>) -> LiveFeed {
        LiveFeed { state, told_work: None }
    }

    pub(crate) fn state(&self) -> &LiveState {
        &self.state
    }

    /// Slow I/Os were judged.
    pub fn slow(&self, layers: Vec<Cause>) {
        self.state.tell(LiveEvent::Slow(layers));
    }

    /// When measuring began, CLOCK_MONOTONIC ns; `i64::MAX` before.
    pub fn measured_ns(&self) -> i64 {
        self.state.measured_ns.load(Ordering::Relaxed)
    }

    /// A sample of the machine was taken.
    pub fn host(&self, sample: Vec<HostRow>) {
        self.state.tell(LiveEvent::Host(sample));
    }

    /// What the views used so far.
    pub fn cost(&self) -> LiveViewCost {
        let cost = &self.state.cost;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LiveViewCost {
            cpu_s: (of(&cost.server_ns) + of(&cost.screen_ns)) as f64 / 1e9,
            scrapes: of(&cost.scrapes),
            events: of(&cost.events),
        }
    }

    /// A run begins; what was known of the one before goes.
    pub fn begin(&self, facts: RunFacts) {
        self.state.measured_ns.store(i64::MAX, Ordering::Relaxed);
        self.state.tell(LiveEvent::Begin(Box::new(facts)));
    }

    /// The run is over and kept.
    pub fn end(&self, end: LiveEnd) {
        self.state.tell(LiveEvent::End(Box::new(end)));
    }
}

impl Observer for LiveFeed {
    fn phase(&mut self, name: &str) {
        if name == "measure" {
            self.state.measured_ns.store(MonoClock.now().0, Ordering::Relaxed);
        }
        self.state.tell(LiveEvent::Phase(name.to_owned()));
    }

    fn interval(&mut self, view: &IntervalView) {
        self.state.tell(LiveEvent::Interval(Box::new(view.clone())));
    }

    fn overtime(&mut self, _: Option<u64>) {
        self.state.tell(LiveEvent::Overtime);
    }

    fn stalled(&mut self, ns: u64) {
        // The clock of the run may be virtual: the age is known, and what shows it goes by the clock here.
        self.state.tell(LiveEvent::Stalled(Stamp(MonoClock.now().0 - ns as i64)));
    }

    fn progress(&mut self, p: Progress<'_>) {
        if self.told_work.is_none_or(|told| told.elapsed() >= PAUSE) {
            self.told_work = Some(Instant::now());
            self.state.tell(LiveEvent::Work(p.what.to_owned(), p.done, p.total));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_looks_at_stays_bounded_and_nothing_is_lost() {
        let state = LiveState::new(None);
        for i in 0..10_000_u64 {
            state.tell(LiveEvent::Work("reading".to_owned(), i, 10_000));
        }
        assert!(state.waiting.load(Ordering::Relaxed) <= WAITING_MAX + 2);
        state.with_model(|model| {
            assert_eq!((model.version, model.work), (10_000, Some((9_999, 10_000))))
        });
        assert_eq!(state.waiting.load(Ordering::Relaxed), 0);
        state.with_model(|_| assert!(state.try_with_model(|_| ()).is_none(), "somebody looks"));
    }
}
