//! Decides what becomes of the keys under a prefix (reused, deleted, or the run refused), and does it.
//!
//! No key is deleted before the server has taken the run's mark, and none that was not seen at the decision.

use std::sync::Mutex;

use taillight_core::Result;

use super::admin::{AdminConnection, KeyIdentity, KeyMark, MARK, lock, mark};
use super::records::{KnownRecords, LeftRecords};
use crate::ownership::{Contents, HeldMark, MarkStore, OwnershipDecision, refusal};

/// What a prefix means for a run.
pub struct KeyDecision {
    /// The prefix has a mark.
    marked: bool,
    /// The mark of kept records has changed, and [`claim`] writes it: this run writes records of a form that the list
    /// in the mark lacks, or ranks share the records, and the mark names their run. False for more records of a
    /// listed form, and for a new form where the mark has no list.
    pub extends: bool,
    pub decision: OwnershipDecision<KeyIdentity>,
    /// The keys to delete: those that were seen; none that appear later.
    pub goes: Vec<Vec<u8>>,
    /// The records of a killed run, where it left the keys and their loss is not confirmed.
    left: Option<LeftRecords>,
}

/// Decides what becomes of the keys under the prefix for the run that would write the mark `new`; nothing is
/// changed. Where the run `writes` over kept records, each key named like one is asked for its type and length; keys of
/// other names beside kept records stay. Errors, unless `confirmed`: `Refused` for keys without a mark, for a key that
/// the killed run of the mark did not write, for a key named like a kept record that holds something else, and for kept
/// records of another form. Errors in any case: `Refused` for a run whose prefix is around this one or inside it, and
/// for a mark that is not Taillight's; `Usage` when keys cannot be made; `Unavailable`.
pub fn decide(
    admin: &Mutex<AdminConnection>,
    new: &KeyMark,
    writes: bool,
    confirmed: bool,
) -> Result<KeyDecision> {
    let found = mark(admin)?;
    let mut admin = lock(admin);
    admin.check_outer()?;
    let own = admin.mark_key();
    // All names are needed only where keys may be deleted; else one is enough, as the example in a refusal.
    let all = confirmed || found.as_ref().is_some_and(|mark| !mark.keep);
    let kept = found.as_ref().filter(|mark| mark.keep && mark.form == new.form && !confirmed);
    let known = kept.filter(|_| writes).map(|mark| KnownRecords::kept(&admin.prefix, mark, new));
    let known = known.transpose()?;
    let (mut keys, mut inner, mut changed) = (Vec::new(), None, None);
    admin.walk(|admin, page| {
        if let Some(known) = &known {
            changed = known.changed(admin, page)?;
        }
        for key in page.iter().filter(|key| key.as_slice() != own.as_bytes()) {
            if key.ends_with(MARK.as_bytes()) {
                inner = Some(String::from_utf8_lossy(key).into_owned());
            }
            if all || keys.is_empty() {
                keys.push(key.clone());
            }
        }
        Ok(inner.is_none() && (confirmed || changed.is_none()))
    })?;
    // A confirmation names the server, not a prefix: it gives up keys under this prefix, but not those of another run
    // whose prefix lies inside this one.
    if let Some(inner) = inner {
        return Err(admin.clash("another run's prefix lies inside this one", &inner));
    }
    if let Some(key) = changed {
        let key = String::from_utf8_lossy(&key);
        refusal::foreign(confirmed, &admin.named(), Some(&key))?;
    }
    let left = match &found {
        Some(mark) if !mark.keep && !confirmed => {
            Some(LeftRecords::of(&mut admin, mark, new, &mut keys)?)
        }
        _ => None,
    };
    let foreign = match (&found, &left) {
        (None, _) => keys.first().cloned(),
        (_, Some(left)) => left.foreign(&mut admin, &keys)?,
        _ => None,
    };
    let contents = match foreign {
        Some(key) => Contents::Foreign(Some(String::from_utf8_lossy(&key).into_owned())),
        None if found.is_none() => Contents::Empty,
        None => Contents::Records,
    };
    let mut decision = KeyMark::decide(new, found.as_ref(), contents, confirmed, &admin.named())?;
    let extends = match &mut decision {
        OwnershipDecision::Reuse(kept) if writes => kept.identity.extend(&new.identity),
        _ => false,
    };
    let goes = if decision == OwnershipDecision::Wipe { keys } else { Vec::new() };
    Ok(KeyDecision { marked: found.is_some(), extends, decision, goes, left })
}

/// Does what was decided: writes the mark `new`, or holds on to the mark of kept records; then deletes the keys that
/// go. `forgets`: the run deletes records, and its mark notes none. Errors: `Unavailable`; `Refused` when another run
/// was faster, or somebody else has changed what a killed run left; `Target` when a mark to be replaced is gone.
pub fn claim(
    admin: &Mutex<AdminConnection>,
    new: KeyMark,
    decided: KeyDecision,
    forgets: bool,
) -> Result<HeldMark<KeyIdentity>> {
    if let OwnershipDecision::Reuse(kept) = decided.decision {
        if decided.extends {
            admin.renew(&kept.bytes()?)?;
        }
        return Ok(HeldMark::new(kept, forgets));
    }
    let text = new.bytes()?;
    let Some(left) = decided.left else {
        match decided.marked {
            false => admin.create(&text)?,
            true => admin.renew(&text)?,
        }
        lock(admin).unlink(decided.goes.iter().map(Vec::as_slice))?;
        return Ok(HeldMark::new(new, forgets));
    };
    // Until the deletion is done the mark lists the records of both runs: killed now, this run leaves those of the
    // killed run before.
    let mut both = new.clone();
    both.identity.written.extend(left.forms.iter().cloned());
    admin.renew(&both.bytes()?)?;
    left.delete(&mut lock(admin), &decided.goes)?;
    admin.renew(&text)?;
    Ok(HeldMark::new(new, forgets))
}
