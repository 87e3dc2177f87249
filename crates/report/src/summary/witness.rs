//! What others counted of the same operations and bytes, in words: the ratio, and what explains that it is not 1.

use taillight_core::witness::{Witness, WitnessUnit};
use taillight_rundir::summary::WitnessSummary;

use crate::format;

/// A witness with its ratio, judged.
pub fn judged(witness: &Witness) -> WitnessSummary {
    WitnessSummary {
        counts: witness.clone(),
        ratio: witness.ratio(),
        explained: witness.is_explained(),
        text: text(witness),
    }
}

fn text(it: &Witness) -> String {
    let amount = |n: u64| match it.unit {
        WitnessUnit::Bytes => format::bytes(n),
        WitnessUnit::Operations | WitnessUnit::Records => format::count(n),
    };
    let (theirs, ours) = (amount(it.witnessed), amount(it.counted));
    let counts = format!("{}: {} ({theirs} there, {ours} here)", it.source, it.ratio_text());
    if it.is_equal() && it.is_explained() {
        return counts;
    }
    let mut parts = Vec::new();
    if let Some(own) = it.own {
        let beside = it.charged().saturating_sub(it.counted);
        let others = it.witnessed.saturating_sub(own);
        parts.extend((others > 0).then(|| format!("{} of others", amount(others))));
        parts.extend((beside > 0).then(|| format!("{} of this process beside", amount(beside))));
    } else if it.witnessed > it.counted && it.shared {
        parts.push(format!("others may have done {}", amount(it.witnessed - it.counted)));
    }
    if it.uncertain > 0 {
        parts.push(format!("{} failed, or crossed phases", amount(it.uncertain)));
    }
    let reason = match (it.charged() < it.counted, it.charged() > it.counted) {
        (true, _) => it.less.as_ref(),
        (_, true) => it.more.as_ref(),
        _ => None,
    };
    parts.extend(reason.cloned());
    if !it.is_explained() {
        parts.push("nothing known explains the difference".to_owned());
    }
    format!("{counts}: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::OpKind;

    #[test]
    fn a_ratio_stands_beside_what_explains_it() {
        let gib = 1u64 << 30;
        let disk = Witness {
            source: "/proc/diskstats of vda, bytes read".into(),
            unit: WitnessUnit::Bytes,
            ops: vec![OpKind::Read],
            counted: gib,
            witnessed: gib,
            uncertain: 0,
            own: Some(gib),
            less: None,
            more: None,
            shared: true,
        };
        assert_eq!(
            judged(&disk).text,
            "/proc/diskstats of vda, bytes read: 1.000 (1.00 GiB there, 1.00 GiB here)"
        );
        let shared = judged(&Witness { witnessed: 2 * gib, ..disk.clone() });
        assert!(
            shared.explained && shared.text.ends_with(": 1.00 GiB of others"),
            "{}",
            shared.text
        );
        let lost = judged(&Witness { witnessed: gib / 2, own: Some(gib / 2), ..disk.clone() });
        assert!(!lost.explained && lost.text.ends_with("nothing known explains the difference"));
        let less = Some("the page cache answers".to_owned());
        let cached = judged(&Witness { witnessed: 0, own: Some(0), less, ..disk });
        assert!(cached.explained && cached.text.ends_with(": the page cache answers"));
        assert_eq!(cached.ratio, Some(0.0));
    }
}
