//! Storage drivers under one contract, and the guard.
