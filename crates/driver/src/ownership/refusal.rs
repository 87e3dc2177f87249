//! Refusals to lose data that stands at a target, with what to do instead: those about foreign,
//! changed or kept data say how to confirm the loss (`destroy = true` and `--destroy NAME`).

use std::fmt::Display;
use std::path::Path;

use taillight_core::{Error, Result};

/// A target as refusals name it.
#[derive(Debug, Clone)]
pub struct NamedTarget {
    /// What would be lost.
    pub shown: String,
    /// What `--destroy` must name.
    pub confirm: String,
    /// What a user may choose instead.
    pub instead: &'static str,
}

impl NamedTarget {
    /// A target that is called by its path or address.
    pub fn of(path: impl Display) -> NamedTarget {
        NamedTarget { shown: path.to_string(), confirm: path.to_string(), instead: "another path" }
    }

    /// What to do instead, or how to confirm.
    pub fn way_out(&self) -> String {
        format!(
            "choose {}; or if all of it may be lost, set `destroy = true` under [target] and add: \
             --destroy {}",
            self.instead, self.confirm
        )
    }
}

impl From<&Path> for NamedTarget {
    fn from(path: &Path) -> NamedTarget {
        NamedTarget::of(path.display())
    }
}

/// Checks that `destroy = true` and `--destroy NAME` come together and name the target.
/// `same` tells whether a name means the target once resolved. Returns whether destroying is
/// confirmed. Errors: `Refused` when one is missing or the name is another one's.
pub fn confirmed(
    destroy: bool,
    name: Option<&str>,
    target: &NamedTarget,
    same: impl Fn(&str) -> bool,
) -> Result<bool> {
    let confirm = &target.confirm;
    match (destroy, name) {
        (false, None) => Ok(false),
        (true, None) => Err(Error::refused("`destroy = true` needs the target confirmed by name")
            .with("target", confirm)
            .hint(format!("if all its data may be lost, add: --destroy {confirm}"))),
        (false, Some(_)) => Err(Error::refused("--destroy needs `destroy = true` under [target]")
            .with("target", confirm)
            .hint("if all its data may be lost, add: --set target.destroy=true")),
        (true, Some(name)) if same(name) => Ok(true),
        (true, Some(name)) => Err(Error::refused("--destroy names something else than the target")
            .with("target", confirm)
            .with("destroy", name)
            .hint(format!("if all data of the target may be lost, write: --destroy {confirm}"))),
    }
}

/// Refuses to write what Taillight did not make, unless confirmed. `example` is a part of it.
/// Errors: `Refused`, saying how to confirm.
pub fn foreign(confirmed: bool, target: &NamedTarget, example: Option<&str>) -> Result<()> {
    if confirmed {
        return Ok(());
    }
    Err(Error::refused("the plan would overwrite data that Taillight did not make")
        .with("target", &target.shown)
        .with_some("one of them", example)
        .hint(target.way_out()))
}

/// Refuses to write over what stands where Taillight's mark names something else, as `differs` says. Errors:
/// `Refused`, saying how to confirm.
pub fn another(confirmed: bool, target: &NamedTarget, differs: &str) -> Result<()> {
    if confirmed {
        return Ok(());
    }
    Err(Error::refused(
        "what is there is not what Taillight's mark names, but a copy or a successor",
    )
    .with("target", &target.shown)
    .with("differs", differs)
    .hint(target.way_out()))
}

/// Refuses to write over what Taillight made and was changed after its mark was sealed: by the run, which was
/// then killed, or by somebody since, which cannot be told. Errors: `Refused`, saying how to confirm.
pub fn unfinished(confirmed: bool, target: &NamedTarget) -> Result<()> {
    if confirmed {
        return Ok(());
    }
    let what = "what is there was left by a killed run, or changed since: nothing proves that all \
                of it is Taillight's";
    Err(Error::refused(what)
        .with("target", &target.shown)
        .hint(format!("delete it if nobody needs it, or {}", target.way_out())))
}

/// The refusal of kept records whose keys or values have another form than the plan's.
pub fn other_form(target: &NamedTarget, there: &str, asked: &str) -> Error {
    Error::refused("the target holds records of another form")
        .with("target", &target.shown)
        .with("there", there)
        .with("asked", asked)
        .hint(target.way_out())
}

/// The refusal to empty what other ranks use.
pub fn not_alone() -> Error {
    Error::usage("ranks that share a target cannot purge it").hint("begin with an empty target")
}

/// The refusal of a target that another run took in the moment before.
pub fn taken(target: impl Display) -> Error {
    Error::refused("another run has taken the target since it was looked at")
        .with("target", target)
        .hint("wait until it is over, or choose another target")
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::ErrorKind;

    #[test]
    fn confirmation_needs_both_and_the_right_name() {
        let t = NamedTarget::of("/t");
        let same = |n: &str| n == "/t";
        assert!(!confirmed(false, None, &t, same).unwrap());
        assert!(confirmed(true, Some("/t"), &t, same).unwrap());
        for (destroy, name) in [(true, None), (false, Some("/t")), (true, Some("/other"))] {
            let e = confirmed(destroy, name, &t, same).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Refused);
        }
        assert!(foreign(true, &t, None).is_ok());
        assert_eq!(foreign(false, &t, None).unwrap_err().kind(), ErrorKind::Refused);
    }
}
