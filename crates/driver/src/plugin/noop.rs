//! Operations that do nothing in the store and pass all else: descriptor, call, what the bridge makes of key and value,
//! answer. A calibration compares them with those of `null`: the difference is what the bridge costs.

use taillight_core::keys::KEY_MAX;
use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::probe::Token;
use taillight_core::{Clock, Error, MonoClock, Op, Result, Stamp, Status};

use super::Plugin;
use super::carrier::PluginHandle;
use super::session::{HostSession, PluginSeat, PluginSession};
use crate::contract::{AdminAction, Completion, Geometry, Session, SessionSpec, Submitted, Target};
use crate::kv::fields;
use crate::kv::rules::WorkloadRules;

/// Longest wait for an answer, ns.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Longest value that such an operation carries, bytes: to copy a longer one takes longer than any bridge.
const VALUE_MAX: u64 = 64 << 10;

/// What an operation that does nothing carries: the first key of a plan, and where the plan writes a value of the
/// largest size that its first workload that writes has; where it only reads, it asks for as much as the first one reads.
#[derive(Debug, Clone, Default)]
pub struct NoopContents {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// Bytes that are to be given back.
    pub read: u64,
}

impl NoopContents {
    /// By the rules of the first workload; nothing where blocks are named by offset.
    pub fn of(plan: &Plan, rules: Option<&WorkloadRules>) -> NoopContents {
        let (Some(rules), Some(first)) = (rules, plan.workloads.first()) else {
            return NoopContents::default();
        };
        let mut key = [0; KEY_MAX];
        let start = first.keys.as_ref().map_or(0, |keys| keys.start);
        let key = rules.format.write(start, &mut key).to_vec();
        let mut value = Vec::new();
        let writes = |w: &&WorkloadPlan| w.mix.iter().any(|part| part.op.carries());
        let Some(w) = plan.workloads.iter().find(writes) else {
            let whole = first.value.as_ref().map_or(first.block_size.max(), |values| {
                values.value_bytes(first.block_size.max())
            });
            return NoopContents { key, value, read: whole.min(VALUE_MAX) };
        };
        let size = w.block_size.max();
        match w.value.as_ref().filter(|values| values.fields > 1) {
            None => value.resize(size.min(VALUE_MAX) as usize, 0x5A),
            // Half a value of fields is none.
            Some(values) if values.value_bytes(size) > VALUE_MAX => {}
            Some(values) => {
                for field in 0..values.fields {
                    let (name, at) = (format!("{}{field}", values.prefix), value.len());
                    value.resize(at + 8 + name.len() + size as usize, 0x5A);
                    fields::write(&mut value[at..], name.as_bytes(), size as usize);
                }
            }
        }
        NoopContents { key, value, read: 0 }
    }
}

impl std::fmt::Display for NoopContents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.key.len(), self.value.len(), self.read) {
            (0, ..) => Ok(()),
            (key, 0, 0) => write!(f, ", with a key of {key} B"),
            (key, 0, read) => write!(f, ", with a key of {key} B and {read} B to give back"),
            (key, value, _) => write!(f, ", with a key of {key} B and a value of {value} B"),
        }
    }
}

/// The same plug-in, whose operations do nothing.
#[derive(Clone)]
pub struct NoopTarget {
    pub plugin: &'static Plugin,
    pub handle: PluginHandle,
    pub geometry: Geometry,
    /// How keys are written; none where blocks are named by offset.
    pub rules: Option<WorkloadRules>,
    pub carried: NoopContents,
}

impl Target for NoopTarget {
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let carried = &self.carried;
        let size = spec.buffer_size.max(carried.value.len() as u64).max(carried.read);
        let seat = PluginSeat {
            keep: false,
            rules: self.rules.clone(),
            ..PluginSeat::beside(self.plugin, u32::from(spec.worker), spec.depth, size)
        };
        let mut session = PluginSession::new(&self.handle, seat)?;
        for slot in 0..spec.depth {
            session.buffer(slot)[..carried.value.len()].copy_from_slice(&carried.value);
        }
        let sizes = vec![0; spec.depth as usize];
        Ok(Box::new(NoopSession {
            session,
            value: carried.value.len() as u64,
            read: carried.read,
            sizes,
            first: 0,
        }))
    }
    fn admin(&self, _: AdminAction) -> Result<()> {
        Ok(())
    }
}

/// A session whose operations do nothing, whatever is asked of them.
struct NoopSession {
    session: PluginSession,
    /// Bytes of the value that an operation carries, and those to give back.
    value: u64,
    read: u64,
    /// Bytes of the operation in each slot, which count as moved.
    sizes: Vec<u64>,
    /// The number of the first slot among those of all workers, as tokens have it.
    first: u32,
}

impl Session for NoopSession {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.session.buffer(slot)
    }
    #[inline]
    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        self.sizes[slot as usize] = op.bytes();
        self.first = token.slot() - slot;
        let mut submitted = self.session.noop(op, slot, token, (self.value, self.read))?;
        if let Submitted::Done(completion) = &mut submitted {
            completion.moved = op.bytes();
        }
        Ok(submitted)
    }
    fn submit_batch(&self) -> u32 {
        self.session.submit_batch()
    }
    fn flush(&mut self) -> Result<()> {
        self.session.flush()
    }
    fn poll(&mut self, min: u32, until: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()> {
        let before = out.len();
        self.session.poll(min, until, out)?;
        for one in &mut out[before..] {
            one.moved = self.sizes[(one.token.slot() - self.first) as usize];
        }
        Ok(())
    }
}

/// Does nothing once. Errors: `Target` where that does not end well, or not in time.
pub fn check(host: &mut HostSession) -> Result<()> {
    let said = |e: Error| {
        e.hint("answer kind 255 like any other operation: status 0, the token given back")
    };
    let what = "the plug-in does not end the operation that does nothing (TL_NOOP)";
    match host.noop(MonoClock.now().plus(PATIENCE_NS)) {
        Ok(ended) if ended.status == Status::OK => Ok(()),
        Ok(ended) => Err(said(Error::target(what).with("it ended", ended.status))),
        Err(e) => Err(said(Error::target(what).source(e))),
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;
    use taillight_core::plan::{Keys, Values};
    use taillight_core::units::ByteSize;

    use super::*;

    #[test]
    fn an_operation_that_does_nothing_carries_what_the_plan_writes() {
        let said = |ops: &[OpKind], fields: u32, size: u64| {
            let workload = |op: &OpKind| WorkloadPlan {
                keys: Some(Keys::default()),
                value: Some(Values { fields, ..Values::default() }),
                ..WorkloadPlan::simple("w", *op, ByteSize(size))
            };
            let workloads: Vec<_> = ops.iter().map(workload).collect();
            let rules = WorkloadRules::of(&workloads[0], false).unwrap();
            let plan = Plan { workloads, ..Plan::default() };
            NoopContents::of(&plan, Some(&rules)).to_string()
        };
        let (get, update) = (OpKind::Get, OpKind::Update);
        assert_eq!(said(&[get], 1, 100), ", with a key of 23 B and 100 B to give back");
        assert_eq!(said(&[get, update], 1, 100), ", with a key of 23 B and a value of 100 B");
        assert_eq!(said(&[update], 1, 1 << 30), ", with a key of 23 B and a value of 65536 B");
        assert_eq!(said(&[update], 10, 100), ", with a key of 23 B and a value of 1140 B");
        assert_eq!(said(&[update], 10, 1 << 30), ", with a key of 23 B");
        assert_eq!(NoopContents::of(&Plan::default(), None).to_string(), "");
    }
}
