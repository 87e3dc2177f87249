//! The lists whose product is tried: what stands there, and the ways to name it; and each cell, with
//! how it is tried or why it has no meaning. `docs/testing.md` has it as a table.

use super::later::{self, LateFault};
use super::occupied::{self, Occupant};
use super::stage::{AttackStage, Setup};
use super::{killed, legitimate, servers, stores};

/// Rows: what must not be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VictimKind {
    Occupied(Occupant),
    Database,
    Records,
    KilledMark,
    Late(LateFault),
}

pub const VICTIMS: [VictimKind; 13] = [
    VictimKind::Occupied(Occupant::Mounted),
    VictimKind::Occupied(Occupant::Swap),
    VictimKind::Occupied(Occupant::Member),
    VictimKind::Occupied(Occupant::Written),
    VictimKind::Occupied(Occupant::Mapped),
    VictimKind::Occupied(Occupant::ForeignFs),
    VictimKind::Database,
    VictimKind::Records,
    VictimKind::KilledMark,
    VictimKind::Late(LateFault::FailedStart),
    VictimKind::Late(LateFault::ChangedContent),
    VictimKind::Late(LateFault::TakenName),
    VictimKind::Late(LateFault::ForeignLog),
];

impl VictimKind {
    pub fn name(self) -> &'static str {
        match self {
            VictimKind::Occupied(Occupant::Mounted) => "mounted",
            VictimKind::Occupied(Occupant::Swap) => "swap",
            VictimKind::Occupied(Occupant::Member) => "set member",
            VictimKind::Occupied(Occupant::Written) => "open for writing",
            VictimKind::Occupied(Occupant::Mapped) => "mapped for writing",
            VictimKind::Occupied(Occupant::ForeignFs) => "foreign file system",
            VictimKind::Database => "foreign database",
            VictimKind::Records => "foreign keys or objects",
            VictimKind::KilledMark => "mark of a killed run",
            VictimKind::Late(fault) => fault.name(),
        }
    }

    /// Refused although `destroy = true` and `--destroy` are given; else it is tried without them.
    pub fn in_spite_of_confirmation(self) -> bool {
        let occupied = matches!(self, VictimKind::Occupied(o) if o != Occupant::ForeignFs);
        occupied || matches!(self, VictimKind::Late(_))
    }
}

/// Columns: the ways to name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    Direct,
    Partition,
    WholeDisk,
    Loop,
    LoopWithOffset,
    HardLink,
    BindMount,
    Symlink,
    OtherNamespace,
    Container,
    RenamedDevice,
    Resumed,
    NotRoot,
}

pub const NAMINGS: [Naming; 13] = [
    Naming::Direct,
    Naming::Partition,
    Naming::WholeDisk,
    Naming::Loop,
    Naming::LoopWithOffset,
    Naming::HardLink,
    Naming::BindMount,
    Naming::Symlink,
    Naming::OtherNamespace,
    Naming::Container,
    Naming::RenamedDevice,
    Naming::Resumed,
    Naming::NotRoot,
];

impl Naming {
    pub fn name(self) -> &'static str {
        match self {
            Naming::Direct => "direct",
            Naming::Partition => "partition",
            Naming::WholeDisk => "whole disk",
            Naming::Loop => "loop",
            Naming::LoopWithOffset => "loop with offset",
            Naming::HardLink => "hard link",
            Naming::BindMount => "bind mount",
            Naming::Symlink => "symlink",
            Naming::OtherNamespace => "other mount namespace",
            Naming::Container => "container",
            Naming::RenamedDevice => "renamed device",
            Naming::Resumed => "resumed",
            Naming::NotRoot => "not root",
        }
    }
}

/// Sets a case up and tries it.
pub type Case = Box<dyn Fn(&mut AttackStage<'_>) -> Setup<()> + Send + Sync>;

/// How a cell is tried: its cases, each on a stage of its own, or why there is none.
pub enum CellPlan {
    Cases(Vec<Case>),
    Meaningless(&'static str),
}

pub fn plan(victim: VictimKind, naming: Naming) -> CellPlan {
    match victim {
        VictimKind::Occupied(occupant) => occupied::plan(occupant, naming),
        VictimKind::Database => stores::plan(naming),
        VictimKind::Records => servers::plan(naming),
        VictimKind::KilledMark => killed::plan(naming),
        VictimKind::Late(fault) => later::plan(fault, naming),
    }
}

/// The table of cells as `docs/testing.md` has it: how many cases each cell has, and why some have none.
pub fn page() -> String {
    let mut text = String::from("| named as |");
    for victim in VICTIMS {
        text += &format!(" {} |", victim.name());
    }
    text += &format!("\n|---|{}\n", "--:|".repeat(VICTIMS.len()));
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    let (mut cells, mut cases) = (0, 0);
    for naming in NAMINGS {
        text += &format!("| {} |", naming.name());
        for victim in VICTIMS {
            match plan(victim, naming) {
                CellPlan::Cases(all) => {
                    (cells, cases) = (cells + 1, cases + all.len());
                    text += &format!(" {} |", all.len());
                }
                CellPlan::Meaningless(why) => {
                    let cell = format!("{} by {}", victim.name(), naming.name());
                    match reasons.iter_mut().find(|(reason, _)| *reason == why) {
                        Some((_, all)) => all.push(cell),
                        None => reasons.push((why, vec![cell])),
                    }
                    text += " - |";
                }
            }
        }
        text += "\n";
    }
    let product = VICTIMS.len() * NAMINGS.len();
    text += &format!(
        "\n{cells} of {} x {} = {product} cells have a meaning; they have {cases} cases. Without a \
         meaning are:\n\n",
        VICTIMS.len(),
        NAMINGS.len()
    );
    for (why, cells) in reasons {
        text += &format!("- {}: {why}.\n", cells.join(", "));
    }
    let how = |confirmed| {
        let victims = VICTIMS.into_iter().filter(|v| v.in_spite_of_confirmation() == confirmed);
        victims.map(VictimKind::name).collect::<Vec<_>>().join(", ")
    };
    text += &format!(
        "\nTried with `destroy = true` and `--destroy`, and refused in spite of them: {}. Tried without \
         them: {}.\n",
        how(true),
        how(false)
    );
    let uses: Vec<&str> = legitimate::uses().map(|(name, _)| name).collect();
    text += &format!("\n{} legitimate uses end with exit code 0:\n\n", uses.len());
    for name in uses {
        text += &format!("- {name}\n");
    }
    text
}
