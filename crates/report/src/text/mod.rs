//! Text for people, below all stages: numbers with units, tables on a terminal.

pub mod format;
pub mod table;
