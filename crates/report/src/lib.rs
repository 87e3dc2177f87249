//! Reads run directories: analysis, model, charts, renderers.
//!
//! What it is: everything between a run directory and what a person reads. What it is not: it
//! measures nothing and changes no captured data. Called by `cli`.
//!
//! [`make`] reads run directories and writes every rendering; [`console_text`] shows a summary on
//! a terminal. To add a chart see [`plots::CHARTS`], to add an export [`render::TEXTS`].

pub mod about;
pub mod analyse;
pub mod attribution;
mod charts;
mod console;
mod differs;
pub mod format;
mod host;
pub mod html;
mod latency;
mod load;
mod make;
pub mod model;
mod nvme;
mod palette;
mod place;
pub mod plots;
pub mod render;
mod saturation;
mod store;
mod summary;
mod verdict;
mod verified;

pub use analyse::damage::damaged;
pub use console::{console_text, table_text};
pub use make::{Brief, Frame, Options, Report, make};
pub use place::check_output;
pub use plots::Group;
pub use summary::summarise;
