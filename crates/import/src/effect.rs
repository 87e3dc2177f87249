//! The types of the tables that say what becomes of each option of another benchmark ([`OptionTable`], [`Effect`]), and
//! how they are looked up. The tables themselves are in `fio::options`, `sbk` and `ycsb::known`.

use taillight_core::suggest;

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It becomes part of the job.
    Mapped,
    /// It becomes part of the job: these fields, or what else, in words.
    Becomes(&'static str),
    /// Accepted with any value and without effect here: why, or what is different.
    Same(&'static str),
    /// Refused, unless the value is one of these that mean "not at all".
    Refused {
        /// Values that change nothing.
        unless: &'static [&'static str],
        /// What it would change.
        changes: &'static str,
    },
    /// With one of these values it changes nothing here, for this reason; with others it is refused.
    Only {
        /// Values that change nothing.
        values: &'static [&'static str],
        /// Why.
        why: &'static str,
        /// What another would change.
        changes: &'static str,
    },
}

impl Effect {
    /// What an option of this value would change, for which it is refused; `None` where it is taken.
    pub fn refuses(self, value: &str) -> Option<&'static str> {
        match self {
            Effect::Refused { unless: known, changes }
            | Effect::Only { values: known, changes, .. } => {
                Some(changes).filter(|_| !known.contains(&value))
            }
            Effect::Mapped | Effect::Becomes(_) | Effect::Same(_) => None,
        }
    }

    /// Why an option of this value changes nothing here; `None` where it becomes part of the job or is refused.
    pub fn no_effect(self, value: &str) -> Option<&'static str> {
        match self {
            Effect::Same(why) => Some(why),
            Effect::Only { values, why, .. } => Some(why).filter(|_| values.contains(&value)),
            Effect::Refused { unless, .. } => {
                Some("not asked for").filter(|_| unless.contains(&value))
            }
            Effect::Mapped | Effect::Becomes(_) => None,
        }
    }
}

/// Options with what becomes of them: names apart by blanks, aliases of one option by `|`.
pub struct OptionTable(pub &'static [(&'static str, Effect)]);

impl OptionTable {
    /// Each option, its aliases apart by `|`, and what becomes of it.
    fn entries(&self) -> impl Iterator<Item = (&'static str, Effect)> {
        let entries = self.0.iter();
        entries.flat_map(|(names, effect)| names.split_whitespace().map(|name| (name, *effect)))
    }

    /// Every name, aliases too.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries().flat_map(|(names, _)| names.split('|'))
    }

    /// The first name of an option, by any of its names; `None` for unknown ones.
    pub fn first_name(&self, written: &str) -> Option<&'static str> {
        let (names, _) =
            self.entries().find(|(names, _)| names.split('|').any(|n| n == written))?;
        names.split('|').next()
    }

    /// What becomes of the option whose first name is `name`; `None` for other aliases and unknown names.
    pub fn effect(&self, name: &str) -> Option<Effect> {
        let entry = self.entries().find(|(names, _)| names.split('|').next() == Some(name));
        entry.map(|(_, effect)| effect)
    }

    /// Options without equivalent, as their names stand in the table, and what each would change. With some values
    /// such an option is taken all the same.
    pub fn refused(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.0.iter().filter_map(|(names, effect)| match effect {
            Effect::Refused { changes, .. } | Effect::Only { changes, .. } => {
                Some((*names, *changes))
            }
            Effect::Mapped | Effect::Becomes(_) | Effect::Same(_) => None,
        })
    }

    /// The known name, aliases too, that is most like this one; `None` where none is like it.
    pub fn nearest(&self, written: &str) -> Option<&'static str> {
        suggest::nearest(written, self.names())
    }
}
