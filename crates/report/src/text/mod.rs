//! Text for people, below all stages: numbers with units, tables on a terminal, what is
//! said where nothing is decided.

pub mod format;
pub mod origin;
pub mod table;
mod undecided;

pub use undecided::{by_chance, undecided};
