//! A topic as a target: the guard, sessions by role, statistics, what became of the records, an orderly end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use taillight_core::plan::{AccessKind, Plan, VerifyMode, WorkloadPlan};
use taillight_core::{Error, OpKind, Result};

use super::address::KafkaAddress;
use super::admin::{TopicAdmin, TopicIdentity, TopicMark};
use super::consumer::{ConsumerSession, ReaderRole};
use super::options::{Acks, KafkaOptions};
use super::producer::ProducerSession;
use super::questions::TopicShape;
use super::read_back::{ReadBack, foreign_records, read_back};
use super::record::{KEY, run_number};
use super::sys::KafkaLibrary;
use super::tally::RunTally;
use super::transfer::{Consumer, Producer};
use crate::contract::{AdminAction, Geometry, OpenSpec, Session, SessionSpec, Target};
use crate::ownership::{Contents, OwnershipDecision, refusal};
use crate::trial;

/// What a record has beside key and value at most, with its batch, bytes.
const AROUND: u64 = 1024;
/// How often, and after what pause, it is looked whether records are there that were acknowledged.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);
/// Form of keys: what a later run compares.
const FORM: &str = "keys of run, writer, sum and sequence";

/// The target.
pub struct KafkaTarget {
    library: Arc<KafkaLibrary>,
    admin: Mutex<TopicAdmin>,
    options: KafkaOptions,
    servers: String,
    topic: String,
    run: u64,
    run_id: String,
    shape: TopicShape,
    /// Whether each workload appends.
    writers: Vec<bool>,
    block: u64,
    /// Records of the load that were there.
    records: u64,
    /// First and next offset of each partition when it was opened.
    begun: Vec<(i64, i64)>,
    /// The topic is this run's, and goes with it.
    ours: bool,
    tally: Arc<RunTally>,
    facts: Vec<(String, String)>,
    found: Mutex<Option<Result<ReadBack>>>,
    closed: bool,
}

/// What [`KafkaTarget::open`] refuses by the plan, the options, the brokers and the guard, not an
/// empty topic; nothing is changed.
pub fn check(options: &KafkaOptions, spec: &OpenSpec<'_>) -> Result<()> {
    Reached::to(options, spec)?.decide().map(drop)
}

/// Whether each workload appends. Errors: `Usage` for one that does not either append or read, or not in order; for
/// readers beside writers that do not follow them; for a plan with `verify`.
fn roles(plan: &Plan) -> Result<Vec<bool>> {
    let does = |w: &WorkloadPlan, op: OpKind| w.mix.iter().all(|m| m.op == op || m.weight == 0);
    let mut writers = Vec::new();
    for w in &plan.workloads {
        if !matches!(w.access.kind, AccessKind::Sequential | AccessKind::Follow) {
            return Err(Error::usage("a topic is written and read in order only")
                .with("workload", &w.name)
                .hint("use access = \"sequential\", or \"follow\" for readers beside writers"));
        }
        if !(does(w, OpKind::Write) || does(w, OpKind::Read)) {
            return Err(Error::usage("a worker on a topic either appends or reads")
                .with("workload", &w.name)
                .hint("use two workloads, mix = \"write\" and mix = \"read\""));
        }
        writers.push(does(w, OpKind::Write));
    }
    let apart = plan.workloads.iter().zip(&writers);
    let mut apart = apart.filter(|(w, writes)| !**writes && w.access.kind != AccessKind::Follow);
    if let (Some((w, _)), true) = (apart.next(), writers.contains(&true)) {
        return Err(Error::usage("readers beside writers read what these write")
            .with("workload", &w.name)
            .hint("write access = \"follow\" in the workloads that write and read; or read a kept topic in a run of its own"));
    }
    if plan.verify.mode != VerifyMode::Off {
        return Err(Error::usage("records of a topic are not verified by their place")
            .hint("leave [verify] out: readers check every record, and options.read_back = true looks for every one"));
    }
    Ok(writers)
}

/// Brokers that answer, before the guard is asked.
struct Reached {
    admin: TopicAdmin,
    writers: Vec<bool>,
    /// The mark that the run would write.
    new: TopicMark,
    confirmed: bool,
    found: Option<TopicShape>,
    brokers: usize,
}

impl Reached {
    fn to(options: &KafkaOptions, spec: &OpenSpec<'_>) -> Result<Reached> {
        let target = &spec.plan.target;
        let address = KafkaAddress::parse(target.path.as_deref(), &options.topic)?;
        let writers = roles(spec.plan)?;
        let library = KafkaLibrary::load(&options.library)?;
        let identity = TopicIdentity { topic: address.topic.clone() };
        let admin = TopicAdmin::new(library, address, options.clone(), spec.stop)?;
        let named = admin.named();
        let same = |name: &str| name == named.confirm;
        let confirmed = refusal::confirmed(target.destroy, spec.destroy, &named, same)?;
        let new = TopicMark::new(identity, spec.run_id, options.keep, FORM.to_owned());
        // Asked before anything begins: a setting of the load that the library refuses is the job's.
        Producer::new(
            &admin.library,
            &options.producer(&admin.address.servers, 1, 1),
            &admin.address.topic,
        )?;
        let (found, brokers) = admin.topic()?;
        Ok(Reached { admin, writers, new, confirmed, found, brokers })
    }

    /// What becomes of the topic; none where it is only read. Nothing is changed. Errors: `Refused` for a topic that
    /// Taillight did not make and the plan writes, whatever is confirmed, and for one of another run that is not kept,
    /// unless that is confirmed; `Unavailable` for one that is not there and the plan reads.
    fn decide(&self) -> Result<Option<OwnershipDecision<TopicIdentity>>> {
        let named = self.admin.named();
        let Some(shape) = self.found else {
            if self.writers.contains(&true) {
                return Ok(Some(OwnershipDecision::Create));
            }
            return Err(Error::unavailable("the topic is not there, and the plan only reads")
                .with("topic", &named.shown)
                .hint("write it in a run before, with options.keep = true"));
        };
        if !self.writers.contains(&true) {
            return Ok(None);
        }
        let Some(mark) = self.admin.mark()? else {
            return Err(Error::refused("the topic is none that Taillight made")
                .with("topic", &named.shown)
                .hint("choose another options.topic: topics of others are never written or deleted, not with --destroy either"));
        };
        let decision =
            TopicMark::decide(&self.new, Some(&mark), Contents::Records, self.confirmed, &named)?;
        if decision == OwnershipDecision::Wipe {
            // Its run may go on without writing, have left it as evidence, or share it with another program.
            let refused = refusal::unfinished(self.confirmed, &named);
            refused.map_err(|e| e.with("run", &mark.run_id))?;
            if !self.admin.stands_still(shape.partitions)? {
                return Err(Error::refused("another run writes to the topic")
                    .with("topic", &named.shown)
                    .with("run", &mark.run_id)
                    .hint("wait for its end, or choose another options.topic"));
            }
        }
        Ok(Some(decision))
    }
}

impl KafkaTarget {
    /// Asks the brokers, passes the guard, makes the topic. Errors: `Usage`, `Refused` or `Unavailable`.
    pub fn open(options: &KafkaOptions, spec: &OpenSpec<'_>) -> Result<KafkaTarget> {
        let at = Reached::to(options, spec)?;
        let decision = at.decide()?;
        let Reached { mut admin, writers, new, found, brokers, .. } = at;
        let there = || found.ok_or_else(|| Error::internal("a topic that is not there"));
        let (shape, ours, marked) = match decision {
            // The mark is no record of the load.
            None => (there()?, false, admin.mark()?.is_some()),
            Some(OwnershipDecision::Reuse(_)) => (there()?, false, true),
            Some(OwnershipDecision::Create) => (admin.create(&new)?, true, true),
            Some(OwnershipDecision::Wipe) => {
                trial::workers(spec.plan)?;
                admin.delete()?;
                (admin.create(&new)?, true, true)
            }
        };
        let begun = admin.offsets(shape.partitions)?;
        let block = spec.plan.workloads.iter().map(|w| w.block_size.max()).max().unwrap_or(1);
        let records = begun.iter().map(|(low, high)| high - low).sum::<i64>() as u64;
        let records = records.saturating_sub(u64::from(marked));
        if !writers.contains(&true) && records == 0 {
            return Err(Error::unavailable("the topic is empty, and the plan only reads")
                .with("topic", &admin.address.topic)
                .hint("write it in a run before, with options.keep = true"));
        }
        let mut facts = facts(&admin, shape, brokers);
        facts.extend(options.facts(&writers));
        Ok(KafkaTarget {
            library: admin.library.clone(),
            servers: admin.address.servers.clone(),
            topic: admin.address.topic.clone(),
            admin: Mutex::new(admin),
            options: options.clone(),
            run: run_number(spec.run_id),
            run_id: spec.run_id.to_owned(),
            shape,
            writers,
            block,
            records,
            begun,
            ours: ours && !options.keep,
            tally: Arc::default(),
            facts,
            found: Mutex::new(None),
            closed: false,
        })
    }

    fn admin(&self) -> MutexGuard<'_, TopicAdmin> {
        self.admin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The largest record with all that is around it.
    fn largest(&self) -> u64 {
        self.block + KEY as u64 + AROUND
    }

    /// How many of the `added` records others have written, where counts say it: retries may have doubled one, one that
    /// was not acknowledged is there or not, and where fewer are there than were acknowledged, some are lost.
    fn of_others(&self, added: u64) -> Option<u64> {
        let options = &self.options;
        let (sent, acknowledged) = (self.tally.sent(), self.tally.acknowledged());
        let once = options.idempotence || options.retries == 0;
        let sure =
            options.acks != Acks::None && (added == acknowledged || once && sent == acknowledged);
        match added {
            0 => Some(0),
            _ => added.checked_sub(acknowledged).filter(|_| sure),
        }
    }

    /// Records that came since the run began. With acks = 1 some are acknowledged a moment before all replicas have
    /// them, and are shown only then.
    fn grown(&self) -> Result<u64> {
        let mut looks = 0;
        loop {
            let added = added(&self.begun, &self.admin().offsets(self.shape.partitions)?);
            looks += 1;
            let late = self.options.acks == Acks::Leader && added < self.tally.acknowledged();
            if !late || looks == LOOKS {
                return Ok(added);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn writer(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let settings = self.options.producer(&self.servers, spec.depth, self.largest());
        let producer = Producer::new(&self.library, &settings, &self.topic)?;
        let (library, tally) = (self.library.clone(), self.tally.clone());
        let partitions = self.shape.partitions as u32;
        Ok(Box::new(ProducerSession::new(library, tally, producer, self.run, partitions, spec)?))
    }

    fn reader(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let mut settings = self.options.consumer(&self.servers, self.largest());
        let partitions = self.begun.len();
        let (from, role): (Vec<(i32, i64)>, ReaderRole) = if self.writers.contains(&true) {
            // From now on: what was there before is nobody's here.
            let now = self.admin().offsets(self.shape.partitions)?;
            (ends(&now), ReaderRole::Follows { run: self.run })
        } else {
            settings.push(("enable.partition.eof".to_owned(), "true".to_owned()));
            let filled = (0..).zip(&self.begun).filter(|(_, (low, high))| high > low);
            let from: Vec<(i32, i64)> = filled.map(|(p, (low, _))| (p, *low)).collect();
            let to = self.begun.iter().map(|(_, high)| *high).collect();
            (from.clone(), ReaderRole::Repeats { from, to })
        };
        let consumer = Consumer::new(&self.library, &settings, &self.topic, &from)?;
        let (library, tally) = (self.library.clone(), self.tally.clone());
        Ok(Box::new(ConsumerSession::new(library, tally, consumer, role, partitions, spec)?))
    }

    /// Deletes the topic that this run made; what was kept before stays. Errors: `Target` where reading back found
    /// records missing or damaged, and for a topic that is left since others wrote to it or its mark is another's
    /// by now; `Unavailable` when the brokers do not help.
    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let found = self.found.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let admin = self.admin.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut foreign = self.tally.foreign();
        let read = matches!(found, Some(Ok(_)));
        match found {
            // Evidence is not deleted.
            Some(Ok(back)) => {
                let options = &self.options;
                // What another replica may lack is only gone where the leader was lost.
                let none_lost = options.acks == Acks::Leader && !self.tally.may_have_lost(false);
                back.judged(admin, none_lost || options.promised(self.shape.replicas))?;
                foreign = foreign.max(back.foreign);
            }
            // Ended by the user: nothing was found wrong.
            Some(Err(_)) if admin.stop.stopped() => {}
            Some(Err(e)) => return Err(e),
            None => {}
        }
        if !self.ours {
            return Ok(());
        }
        let left = |e: Error| e.with("leftovers", format!("topic {}", self.topic));
        admin.detach_from_stop().map_err(left)?;
        if admin.topic().map_err(left)?.0.is_none() {
            return Ok(());
        }
        let counted = self.of_others(self.grown().map_err(left)?);
        foreign = match counted {
            Some(counted) => foreign.max(counted),
            // Read already, the records of others are counted.
            None if foreign > 0 || read => foreign,
            None => {
                let from = ends(&self.begun);
                foreign_records(&self.admin(), self.run, &from, self.largest()).map_err(left)?
            }
        };
        if foreign > 0 {
            return Err(Error::target("another program wrote to the topic, which was left alone")
                .with("topic", &self.topic)
                .with("records", foreign)
                .hint("look what is in the topic; a later run asks for --destroy before it deletes it"));
        }
        let admin = self.admin.get_mut().unwrap_or_else(PoisonError::into_inner);
        match admin.mark().map_err(left)? {
            Some(mark) if mark.run_id == self.run_id => admin.delete().map_err(left),
            _ => {
                Err(Error::target("the topic has another mark than this run's, and was left alone")
                    .with("topic", &self.topic)
                    .hint("look what is in the topic before you use it again"))
            }
        }
    }
}

/// Where each partition ended at a look at the offsets.
fn ends(offsets: &[(i64, i64)]) -> Vec<(i32, i64)> {
    (0..).zip(offsets).map(|(partition, (_, high))| (partition, *high)).collect()
}

/// Records that came to a topic between two looks at its offsets.
fn added(begun: &[(i64, i64)], now: &[(i64, i64)]) -> u64 {
    let grown = |((_, was), (_, is)): (&(i64, i64), &(i64, i64))| {
        u64::try_from(is.saturating_sub(*was)).unwrap_or(0)
    };
    begun.iter().zip(now).map(grown).sum()
}

fn facts(admin: &TopicAdmin, shape: TopicShape, brokers: usize) -> Vec<(String, String)> {
    let library = &admin.library;
    let mut facts: Vec<(String, String)> = [
        ("target.kind", "server".to_owned()),
        ("target.server", format!("kafka://{}", admin.address.servers)),
        ("kafka.topic", admin.address.topic.clone()),
        ("kafka.library", library.loaded_from()),
        ("kafka.library_version", library.version()),
        ("kafka.brokers", brokers.to_string()),
        ("kafka.partitions", shape.partitions.to_string()),
        ("kafka.replicas", shape.replicas.to_string()),
        ("kafka.in_sync_replicas", shape.in_sync.to_string()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    facts.extend(admin.settings());
    facts
}

impl Drop for KafkaTarget {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Target for KafkaTarget {
    fn geometry(&self) -> Geometry {
        if self.writers.contains(&true) {
            return Geometry::keyed();
        }
        Geometry { file_size: self.records.saturating_mul(self.block), ..Geometry::keyed() }
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        match self.writers.get(usize::from(spec.workload)) {
            Some(true) => self.writer(spec),
            Some(false) => self.reader(spec),
            None => Err(Error::internal("a session of no workload")),
        }
    }
    fn admin(&self, _: AdminAction) -> Result<()> {
        Err(Error::unavailable(
            "a topic has nothing to flush, compact or purge, and no caches to drop",
        ))
    }
    fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.writers.contains(&true) {
            notes.push(self.options.promise().to_owned());
            notes.extend(self.options.linger_note());
        }
        if self.writers.contains(&false) {
            notes.extend(self.options.fetch_note());
        }
        notes
    }
    fn end_facts(&self) -> Vec<(String, String)> {
        let mut facts = self.tally.facts();
        // What failed in the run may have taken what was acknowledged before it.
        let asked = self.options.read_back;
        let looks = asked || self.tally.may_have_lost(self.options.acks == Acks::All);
        let stopped = self.admin().stop.stopped();
        if !(looks && self.writers.contains(&true)) || (stopped && !asked) {
            return facts;
        }
        let from = ends(&self.begun);
        let found = read_back(&self.admin(), self.run, &from, self.largest(), &self.tally);
        match &found {
            Ok(back) => {
                facts.extend(back.facts());
                let promise = self.options.promise().to_owned();
                facts.push(("records.read_back.promise".to_owned(), promise));
            }
            Err(e) => facts.push(("records.read_back".to_owned(), e.to_string())),
        }
        // Unasked, a look that failed is no failure of the run.
        let found = Some(found).filter(|found| asked || found.is_ok());
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
        facts
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        self.tally.show(out);
    }
    fn close(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}
