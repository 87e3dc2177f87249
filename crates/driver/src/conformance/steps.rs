//! Steps that tests of drivers take: a target's plan, opening it, a session, one operation.
#![allow(clippy::unwrap_used)]

use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::probe::Token;
use taillight_core::{Clock, MonoClock, Op, Result};

use crate::contract::{Completion, OpenSpec, Session, SessionSpec, Submitted, Target};

/// The target of a plan, with `options` as text.
pub fn target(driver: &str, path: &str, options: &str) -> TargetPlan {
    TargetPlan {
        driver: driver.to_owned(),
        path: Some(path.to_owned()),
        options: options.parse().unwrap(),
        ..TargetPlan::default()
    }
}

/// Opens the plan's target by its driver. Errors: as [`crate::BoundDriver::open`].
pub fn open(plan: &Plan, destroy: Option<&str>, run_id: &str) -> Result<Box<dyn Target>> {
    let spec = OpenSpec {
        plan,
        run_id,
        destroy,
        stop: &taillight_core::StopFlag::default(),
        fits: &|_| Ok(()),
    };
    crate::bind(&plan.target)?.open(&spec, &mut |_| true)
}

/// A session of the first worker.
pub fn session(target: &dyn Target, buffer_size: u64, depth: u32) -> Box<dyn Session> {
    let spec =
        SessionSpec { worker: 0, workload: 0, index: 0, keep: true, depth, buffer_size, seed: 1 };
    target.session(&spec).unwrap()
}

/// One operation in slot 0 to its end, at most 30 s.
pub fn one(session: &mut dyn Session, op: &Op) -> Completion {
    match session.submit(op, 0, Token::new(1, 0)).unwrap() {
        Submitted::Done(completion) => return completion,
        Submitted::Queued => session.flush().unwrap(),
        Submitted::Full => panic!("full with nothing in flight"),
    }
    let mut out = Vec::new();
    let until = MonoClock.now().plus(30_000_000_000);
    session.poll(1, Some(until), &mut out).unwrap();
    assert_eq!(out.len(), 1, "{op:?} did not end");
    out[0]
}
