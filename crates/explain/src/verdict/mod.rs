//! Blames a layer for an I/O's time line (`judge`) and says whether that is sure (`rules`); an I/O that waited behind
//! another one of its worker has that one's cause (`backlog`).

pub mod backlog;
pub mod judge;
pub mod rules;
