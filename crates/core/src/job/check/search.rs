//! A search must have room to search in.

use super::{Checked, need};
use crate::job::percentile;
use crate::plan::Plan;

/// Everything about `[search]`.
pub(super) fn search(plan: &Plan) -> Checked {
    let Some(s) = &plan.search else {
        return Ok(());
    };
    need(
        s.rate.is_some() != s.queue_depth.is_some(),
        "search",
        "it varies either the rate or the queue depth",
        "write rate = { from = \"100/s\", to = \"100000/s\" } or queue_depth = { from = 1, to = 128 }",
    )?;
    if let Some(r) = s.rate {
        let size = plan.workloads.first().map_or(1.0, |w| w.block_size.mean());
        need(
            r.from.unit == r.to.unit && r.from.ops_per_s(size) < r.to.ops_per_s(size),
            "search.rate",
            format!("{} to {} is no range to search", r.from, r.to),
            "give from below to, both in operations or both in bytes",
        )?;
    }
    if let Some(d) = s.queue_depth {
        need(
            d.from > 0 && d.from < d.to,
            "search.queue_depth",
            format!("{} to {} is no range to search", d.from, d.to),
            "give from at least 1 and below to",
        )?;
    }
    percentile(&s.at).map_err(|what| {
        super::Complaint::new("search.at", what, "write it as text: at = \"99.9\"")
    })?;
    need(
        s.ceiling.0 > 0 && s.probe.0 > 0,
        "search",
        "a ceiling or a probe of no time",
        "write ceiling = \"5ms\" and probe = \"10s\"",
    )?;
    need(
        s.precision > 0.0 && s.precision < 1.0,
        "search.precision",
        format!("{} is not between 0 and 1", s.precision),
        "0.05 means: known to 5 percent",
    )
}
