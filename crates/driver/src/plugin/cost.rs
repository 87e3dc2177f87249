//! What the bridge to a plug-in costs by itself, measured when a target is opened, by operations that do
//! nothing.
//!
//! They pass all that an operation passes between the engine and the store: descriptor, call, what the bridge makes of
//! key and value, answer. Figures are means over short blocks. Taken off is the median of a loop that only reads the
//! clock before each operation and keeps as many answers, as with any driver: what is left is what the plug-in adds. The
//! clock is read in both, since a processor that need not wait for it hides much of a call behind the next one.

use std::hint::black_box;

use taillight_core::keys::KEY_MAX;
use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::probe::Token;
use taillight_core::{Clock, MonoClock, Result, Status};

use super::session::HostSession;
use crate::contract::{Completion, Session, Submitted};
use crate::kv::fields;
use crate::kv::rules::WorkloadRules;

/// Blocks whose means are sorted, and operations of one.
const BLOCKS: usize = 100;
const OPERATIONS: u32 = 100;
/// Bridges whose operations take longer than this, ns, are warmed up by time: compilers of their own, and caches of
/// another process.
const QUICK_NS: f64 = 100.0;
/// How long, ns. A JVM compiles a shim that is called all the time within 0.2 s.
const WARM_UP_NS: i64 = 300_000_000;
/// Longest wait for an answer, ns.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Cost of an operation, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BridgeCost {
    /// Operations handed over together.
    pub batch: u32,
    pub p50: f64,
    pub p99: f64,
}

impl std::fmt::Display for BridgeCost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BridgeCost { batch, p50, p99 } = self;
        write!(f, "{} an operation (99 % of {BLOCKS} blocks: {})", ns(*p50), ns(*p99))?;
        match batch {
            1 => Ok(()),
            n => write!(f, ", handed over by {n}"),
        }
    }
}

/// In words; less than the loop that is taken off can tell is no figure.
fn ns(value: f64) -> String {
    if value < 1.0 { "less than 1 ns".to_owned() } else { format!("{value:.1} ns") }
}

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

/// Measures, with as many operations at a time as the session is deep. Errors: `Target` when the plug-in does not end a
/// no-op well.
pub fn measure(host: &mut HostSession, depth: u32) -> Result<BridgeCost> {
    let depth = depth.max(1);
    let mut out = Vec::with_capacity(depth as usize);
    let own = blocks(depth, || bare_round(depth, &mut out))?;
    let all = blocks(depth, || round(host, depth, &mut out))?;
    let less = |ns: f64| ns - own[BLOCKS / 2];
    Ok(BridgeCost { batch: depth, p50: less(all[BLOCKS / 2]), p99: less(all[BLOCKS * 99 / 100]) })
}

/// Means of an operation over `BLOCKS` blocks, sorted, ns; as many warm up before, and more where an operation is not
/// quick.
fn blocks(depth: u32, mut round: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let rounds = OPERATIONS.div_ceil(depth);
    let mut set = || {
        let mut means = Vec::with_capacity(BLOCKS);
        for _ in 0..BLOCKS {
            let start = MonoClock.now();
            for _ in 0..rounds {
                round()?;
            }
            means.push(MonoClock.now().since(start) as f64 / f64::from(rounds * depth));
        }
        means.sort_by(f64::total_cmp);
        Ok(means)
    };
    let begun = MonoClock.now();
    while set()?[BLOCKS / 2] > QUICK_NS && MonoClock.now().since(begun) < WARM_UP_NS {}
    set()
}

/// What a round is without a plug-in.
#[inline]
fn bare_round(depth: u32, out: &mut Vec<Completion>) -> Result<()> {
    out.clear();
    for slot in 0..depth {
        black_box(MonoClock.now());
        out.push(Completion::ok(Token::new(1, black_box(slot)), 0));
    }
    all_ended(out, depth)
}

/// One round of `depth` no-ops.
#[inline]
fn round(host: &mut HostSession, depth: u32, out: &mut Vec<Completion>) -> Result<()> {
    out.clear();
    for slot in 0..depth {
        black_box(MonoClock.now());
        if let Submitted::Done(completion) = host.noop(slot)? {
            out.push(completion);
        }
    }
    if out.len() < depth as usize {
        let session = host.session();
        session.flush()?;
        let left = depth - out.len() as u32;
        // The clock is read only where the plug-in did not answer at once.
        session.poll(0, None, out)?;
        if out.len() < depth as usize {
            let until = MonoClock.now().plus(PATIENCE_NS);
            session.poll(left, Some(until), out)?;
        }
    }
    all_ended(out, depth)
}

/// Errors: `Target` where not each operation ended well.
#[inline]
fn all_ended(out: &[Completion], depth: u32) -> Result<()> {
    let good = |c: &Completion| c.status == Status::OK && c.token.generation() == 1;
    if out.len() == depth as usize && out.iter().all(good) {
        return Ok(());
    }
    let wrong = out.iter().find(|c| !good(c)).map(|c| (c.status, Token::slot(c.token)));
    Err(taillight_core::Error::target(
        "the plug-in does not end the operation that does nothing (TL_NOOP)",
    )
    .with("ended", format!("{} of {depth}", out.len()))
    .with_some("one ended", wrong.map(|(status, slot)| format!("{status}, in slot {slot}")))
    .hint("answer kind 255 like any other operation: status 0, the token given back"))
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

    #[test]
    fn a_cost_below_what_can_be_told_is_no_figure() {
        let said = |p50, p99| BridgeCost { batch: 1, p50, p99 }.to_string();
        assert_eq!(said(12.34, 20.0), "12.3 ns an operation (99 % of 100 blocks: 20.0 ns)");
        assert!(
            said(-0.4, 0.0).starts_with("less than 1 ns an operation (99 % of 100 blocks: less")
        );
    }
}
