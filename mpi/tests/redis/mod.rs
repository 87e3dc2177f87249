//! A Redis server that ranks reach.

#[allow(dead_code)] // these tests use a part of it
#[path = "../../../crates/driver/src/kv/redis/testing.rs"]
mod testing;

use std::path::Path;

use crate::common::Failed;
use testing::RedisServer;

/// A server that listens on a port of loopback as well.
pub struct Redis {
    pub port: u16,
    pub server: RedisServer,
}

impl Redis {
    /// With a directory of its own in this one, named as its port. None where there is no server to start, which is
    /// said.
    pub fn start(test: &str, dir: &Path) -> Result<Option<Redis>, Failed> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let own = dir.join(port.to_string());
        std::fs::create_dir(&own)?;
        let more = ["--bind", "127.0.0.1", "--port", &port.to_string()];
        let server = RedisServer::start(&own, &more)
            .inspect_err(|why| eprintln!("skipped: {test}: {why}"))
            .ok();
        Ok(server.map(|server| Redis { port, server }))
    }
}
