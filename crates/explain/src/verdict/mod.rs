//! Blames a layer for what an I/O's time line has beyond the usual (`baseline`, `judge`) and says whether that is sure
//! (`rules`); an I/O that is blamed on its schedule may have the cause of an earlier one of its worker (`backlog`). What
//! stood in front of it at its disk is said beside that (`in_front`).

pub mod backlog;
pub mod baseline;
pub mod in_front;
pub mod judge;
pub mod rules;
