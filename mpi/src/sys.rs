//! MPI through the shim in `shim.c`, as a [`Group`]. Called by one thread, the one that initialised it
//! (`MPI_THREAD_FUNNELED`); only the abort may come from another. No message blocks in MPI: waiting is looking again
//! and again, with sleep between looks unless [`Patience`] spins.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::time::Duration;

use taillight_core::{Error, Result};
use taillight_scale::{Group, Patience};

use crate::link::RankLink;

unsafe extern "C" {
    fn tl_init(rank: *mut c_int, size: *mut c_int) -> c_int;
    fn tl_finalize() -> c_int;
    fn tl_abort(code: c_int);
    fn tl_host(name: *mut c_char, room: c_int) -> c_int;
    fn tl_send(bytes: *const c_void, length: c_int, to: c_int, request: *mut *mut c_void) -> c_int;
    fn tl_done(request: *mut c_void, done: *mut c_int) -> c_int;
    fn tl_probe(from: c_int, length: *mut c_int) -> c_int;
    fn tl_receive(
        bytes: *mut c_void,
        length: c_int,
        from: c_int,
        request: *mut *mut c_void,
    ) -> c_int;
    fn tl_ends(fd: c_int, own: *mut c_char, other: *mut c_char, room: c_int) -> c_int;
    fn tl_ask(fd: c_int, on: c_int) -> c_int;
    fn tl_silent_ms(fd: c_int) -> c_long;
}

/// Length of a host's name at most.
const NAME: usize = 256;

/// The ranks of an MPI job.
pub struct MpiGroup {
    rank: u32,
    size: u32,
    host: String,
    /// Connections to other ranks, as far as they are known.
    links: BTreeMap<u32, RankLink>,
    /// Of each rank the message that has begun and is not whole.
    begun: BTreeMap<u32, BegunMessage>,
}

/// Both ends of a TCP connection of this process, its own first; none where the descriptor is none.
pub fn ends_of(fd: c_int) -> Option<(String, String)> {
    let (mut own, mut other) = ([0 as c_char; NAME], [0 as c_char; NAME]);
    // SAFETY: the shim writes at most NAME bytes to each, and only reads what the descriptor is.
    let code = unsafe { tl_ends(fd, own.as_mut_ptr(), other.as_mut_ptr(), NAME as c_int) };
    // SAFETY: with the answer 0 both have a zero.
    let text = |name: &[c_char]| unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into();
    (code == 0).then(|| (text(&own), text(&other)))
}

/// Has the kernel ask the other end of a connection for life each second, or no more. False where it cannot.
pub fn ask(fd: c_int, on: bool) -> bool {
    // SAFETY: takes numbers, and sets options of a socket that stay without effect on what is sent.
    unsafe { tl_ask(fd, c_int::from(on)) == 0 }
}

/// How long the kernel of the other end has not answered; none where the connection is over.
pub fn silence(fd: c_int) -> Option<Duration> {
    // SAFETY: takes a number, and only reads.
    let ms = unsafe { tl_silent_ms(fd) };
    u64::try_from(ms).ok().map(Duration::from_millis)
}

fn checked(code: c_int, what: &'static str) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Error::unavailable("MPI answers with an error")
            .with("call", what)
            .with("code", code)),
    }
}

fn number(n: u32) -> Result<c_int> {
    c_int::try_from(n).map_err(|_| Error::internal("a number is too large for MPI").with("n", n))
}

/// Waits for a request; false when it failed or took too long, and MPI may still use its bytes.
///
/// # Safety
/// The request was made by the shim, and is not used afterwards.
unsafe fn done(request: *mut c_void, patience: Patience) -> bool {
    loop {
        let mut done = 0;
        // SAFETY: as above; it is not used after it was answered with 1.
        let code = unsafe { tl_done(request, &mut done) };
        if code != 0 || done != 0 {
            return code == 0;
        }
        if !patience.look_again() {
            return false;
        }
    }
}

/// A message that MPI writes to memory, which is not freed until it is whole: a wait for it may be given up, and a
/// later one takes it.
struct BegunMessage {
    bytes: *mut [u8],
    request: *mut c_void,
}

// SAFETY: it goes where its group goes, which one thread at a time calls; the bytes are read once MPI is done with them.
unsafe impl Send for BegunMessage {}

/// What a look at the messages of a rank found.
enum Arrival {
    NotYet,
    Whole(Vec<u8>),
    Failed,
}

impl MpiGroup {
    /// Looks once whether the next message of a rank is whole: it is begun where it is there, and asked for again where it
    /// was begun.
    fn arrival(&mut self, rank: u32) -> Result<Arrival> {
        let message = match self.begun.remove(&rank) {
            Some(message) => message,
            None => {
                let (from, mut length) = (number(rank)?, -1);
                // SAFETY: `length` outlives the call.
                if unsafe { tl_probe(from, &mut length) } != 0 {
                    return Ok(Arrival::Failed);
                }
                let Ok(length) = u32::try_from(length) else { return Ok(Arrival::NotYet) };
                let bytes: *mut [u8] = Box::into_raw(vec![0u8; length as usize].into_boxed_slice());
                let mut request = std::ptr::null_mut();
                // SAFETY: `bytes` has room for the message that the probe saw, and is freed only where MPI has it whole.
                if unsafe { tl_receive(bytes.cast(), number(length)?, from, &mut request) } != 0 {
                    return Ok(Arrival::Failed);
                }
                BegunMessage { bytes, request }
            }
        };
        let mut done = 0;
        // SAFETY: the request was made above, and is not used after it was answered with 1 or an error.
        let code = unsafe { tl_done(message.request, &mut done) };
        if code == 0 && done == 0 {
            self.begun.insert(rank, message);
            return Ok(Arrival::NotYet);
        }
        if code != 0 {
            // MPI may still write to its bytes.
            return Ok(Arrival::Failed);
        }
        // SAFETY: made from a box above, and MPI is done with it.
        Ok(Arrival::Whole(unsafe { Box::from_raw(message.bytes) }.into_vec()))
    }

    /// Joins the job that `mpirun` started this process for. Errors: `Unavailable` when MPI cannot be initialised.
    pub fn join() -> Result<MpiGroup> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: both point to integers that outlive the call.
        checked(unsafe { tl_init(&mut rank, &mut size) }, "MPI_Init_thread")?;
        let mut name = [0 as c_char; NAME];
        // SAFETY: the shim writes at most NAME bytes, the last of them zero.
        checked(unsafe { tl_host(name.as_mut_ptr(), NAME as c_int) }, "MPI_Get_processor_name")?;
        // SAFETY: the call above has put a zero within the array.
        let host = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        Ok(MpiGroup {
            rank: rank.unsigned_abs(),
            size: size.unsigned_abs(),
            host,
            links: BTreeMap::new(),
            begun: BTreeMap::new(),
        })
    }

    /// Leaves the job; nothing may be sent afterwards.
    pub fn leave() {
        // SAFETY: called once, by the thread that joined, after the last message.
        let _ = unsafe { tl_finalize() };
    }

    /// Ends the job for all ranks.
    pub fn abort(code: u8) {
        // SAFETY: takes a number, and does not come back where MPI works.
        unsafe { tl_abort(c_int::from(code)) };
    }
}

impl Group for MpiGroup {
    fn rank(&self) -> u32 {
        self.rank
    }
    fn size(&self) -> u32 {
        self.size
    }
    fn host(&self) -> &str {
        &self.host
    }

    fn send(&mut self, to: u32, bytes: &[u8], patience: Patience) -> Result<bool> {
        let length = u32::try_from(bytes.len()).ok().and_then(|n| number(n).ok());
        let length = length.ok_or_else(|| Error::internal("a message is too long for MPI"))?;
        let copy: Box<[u8]> = bytes.into();
        let mut request = std::ptr::null_mut();
        // SAFETY: `copy` is not moved or freed before MPI says that it has sent it, or it is leaked below.
        let begun = unsafe { tl_send(copy.as_ptr().cast(), length, number(to)?, &mut request) };
        checked(begun, "MPI_Isend")?;
        // SAFETY: the request is the one made above, and is not used again.
        let sent = unsafe { done(request, patience) };
        if !sent {
            // MPI may still read it.
            Box::leak(copy);
        }
        Ok(sent)
    }

    fn receive(&mut self, rank: u32, patience: Patience) -> Result<Option<Vec<u8>>> {
        loop {
            match self.arrival(rank)? {
                Arrival::Whole(bytes) => {
                    self.links.get_mut(&rank).into_iter().for_each(RankLink::rest);
                    return Ok(Some(bytes));
                }
                Arrival::Failed => return Ok(None),
                Arrival::NotYet => {}
            }
            // Messages whose time counts are not to be disturbed.
            if !patience.look_again() || (!patience.spins && self.is_cut_off(rank)) {
                return Ok(None);
            }
        }
    }

    fn ends(&self) -> Vec<String> {
        crate::link::own().into_iter().map(|(_, own, other)| format!("{other} {own}")).collect()
    }

    fn meet(&mut self, others: &[(u32, Vec<String>)]) {
        // Both ends: that of a local server, on the loopback address, may be one on their host, too.
        let known = crate::link::own().into_iter();
        let known: Vec<(String, c_int, String)> =
            known.map(|(fd, own, other)| (format!("{own} {other}"), fd, other)).collect();
        for (rank, ends) in others {
            let link = known.iter().find(|(both, ..)| ends.contains(both));
            let link = link.map(|(_, fd, other)| (*rank, RankLink::new(*fd, other.clone())));
            self.links.extend(link);
        }
    }

    fn is_cut_off(&mut self, rank: u32) -> bool {
        self.links.get_mut(&rank).is_some_and(RankLink::is_cut_off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Alone in its job, a rank sends to itself: more than MPI takes before somebody asks for it.
    #[test]
    fn a_message_that_was_given_up_half_way_is_whole_later() {
        let mut group = match MpiGroup::join() {
            Ok(group) => group,
            Err(why) => return eprintln!("skipped: a message in parts: {why}"),
        };
        let own = group.rank();
        let bytes: Vec<u8> = (0..8 << 20).map(|n: u32| (n % 251) as u8).collect();
        // Whether it is taken before it is asked for is up to MPI.
        let _ = group.send(own, &bytes, Patience::of(Duration::ZERO)).unwrap();
        let mut came = None;
        for _ in 0..1_000 {
            came = group.receive(own, Patience::of(Duration::ZERO)).unwrap();
            if came.is_some() {
                break;
            }
        }
        assert!(came.is_some_and(|came| came == bytes));
        MpiGroup::leave();
    }
}
