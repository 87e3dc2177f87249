//! A proxy on loopback before a server on a Unix socket, that holds answers back when told to: to the client it is
//! a slow server. It takes no connection once it is undone; one that is open lasts until either side closes it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cleanup::Undo;
use crate::fuse::DelayInjector;

/// How often a new connection and the end are looked for.
const PAUSE: Duration = Duration::from_millis(20);

/// Listens on a free port; the port and the injector. Each piece of an answer counts as one request.
pub fn serve(undo: &mut Undo, server: &Path) -> Result<(u16, Arc<DelayInjector>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("a port on loopback")?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let (slow, over) = (Arc::new(DelayInjector::default()), Arc::new(AtomicBool::new(false)));
    let (injector, ended, server) = (slow.clone(), over.clone(), server.to_owned());
    let thread = std::thread::Builder::new().name("proxy".into());
    let thread = thread.spawn(move || listen(&listener, &server, &injector, &ended))?;
    undo.add(move || {
        over.store(true, Relaxed);
        let _ = thread.join();
    });
    Ok((port, slow))
}

fn listen(listener: &TcpListener, server: &PathBuf, slow: &Arc<DelayInjector>, over: &AtomicBool) {
    while !over.load(Relaxed) {
        match listener.accept() {
            // A client that cannot be served sees its connection end.
            Ok((client, _)) => drop(join(client, server, slow)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            Err(_) => return,
        }
    }
}

/// Serves a connection by two threads, which end when either side closes it.
fn join(client: TcpStream, server: &PathBuf, slow: &Arc<DelayInjector>) -> std::io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_nodelay(true)?;
    let server = UnixStream::connect(server)?;
    let (mut asks, mut hears) = (client.try_clone()?, server.try_clone()?);
    let (mut client, mut server) = (client, server);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut asks, &mut hears);
        let _ = hears.shutdown(Shutdown::Both);
    });
    let slow = slow.clone();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(n @ 1..) = server.read(&mut buffer) {
            slow.pass(n);
            if client.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    });
    Ok(())
}
