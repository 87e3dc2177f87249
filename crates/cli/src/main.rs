//! The taillight command.
fn main() {}
