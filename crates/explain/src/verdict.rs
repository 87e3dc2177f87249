//! Which layer an I/O is blamed on, and whether that is sure.

pub mod backlog;
pub mod judge;
pub mod rules;
