//! Tests that trace, load the whole machine or judge what it does, apart from the others.

mod common;
mod culprits;
mod delivered;
mod lab;
mod ladder;
mod limits;
mod matching;
mod rights;
mod stacked;
mod trace_trouble;
mod traced_server;
mod watch;
mod watch_blame;
mod watch_calls;
mod watch_hard;
mod watch_proof;
mod watch_waits;
