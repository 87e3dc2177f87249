//! What drivers would choose for each run by its queue depth, fixed once for a series by the deepest queue of
//! its runs: along a sweep over depth such choices stay the same.
//!
//! Called by every method whose runs may differ in depth.

use taillight_core::plan::Plan;

/// The deepest queue of any workload of these plans; 1 without any.
pub(crate) fn deepest<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> u32 {
    let depths = plans.into_iter().flat_map(|plan| plan.workloads.iter().map(|w| w.queue_depth));
    depths.max().unwrap_or(1)
}

/// The plan as one of a series with queues up to `deepest`.
pub(crate) fn fix(plan: &mut Plan, deepest: u32) {
    if let Ok(driver) = taillight_driver::bind(&plan.target) {
        driver.fix_auto_options(&mut plan.target, deepest);
    }
}
