"""Taillight's driver `process` in Python: a store is a class, and `serve` makes a program of it.

    import taillight

    class Mine(taillight.Store):
        name = "mine"
        ...

    taillight.serve(Mine)

The standard library alone, Python 3.9 or newer, Linux on x86-64. What crosses the border is described in
taillight_process.h. Statuses are 0 (done), an errno, or NOT_FOUND; an exception of a store is its errno or else STORE,
and the words of the first ten different ones of a session go to standard error.

Memory order. x86 keeps loads and stores in their order, but for a store that a later load of another place overtakes.
That matters once, between raising a count and reading the other side's flag of sleep: a lock is taken between them,
which is a full barrier there. In going to sleep the system call is one. Other machines need barriers that the standard
library does not have, so that `serve` refuses them: taillight_process.h is for those.
"""
import ctypes
import errno
import json
import mmap
import os
import platform
import socket
import struct
import sys
import threading
import time

ABI = 1
READ, WRITE, TRIM, FSYNC, GET, PUT, INSERT, UPDATE, DELETE, SCAN = range(10)
NOOP = 255
OK, STORE, NOT_FOUND = 0, -4, -6
KEEP, REVERSE, MARK = 1, 2, 4
FLUSH, COMPACT, DROP_CACHES, EMPTY = 0, 1, 2, 16

_OP = struct.Struct("=QBBHIQQIIQQHHI")  # tl_op
_DONE = struct.Struct("=QiIQQQQQH6x")  # tl_done
_OP_TAIL, _OP_WAITING, _DONE_TAIL, _DONE_WAITING = 0, 32, 64, 96  # in words of 4 bytes
_ENTRIES = 4096
_SPINS = 2000
_SYS_FUTEX, _FUTEX_WAIT, _FUTEX_WAKE = 202, 0, 1
_WRAP = 0xFFFFFFFF


class Store:
    """A store of records. Override what it has; `kind` is "keyed".

    Methods of operations are called by one thread for each worker. A store with scans keeps what comes with `mark` where
    no scan meets it; it is the one record of Taillight's own."""

    name = "store"
    about = ""
    version = ""
    kind = "keyed"
    options = []  # of {"name", "default", "about"}
    words = {}  # further words of describe: {"sync": True, ...}

    def __init__(self, plan):
        """Opens. `plan` has path, size, workers, options and more, as tl_driver.open's. An exception refuses."""

    def close(self):
        """Closes; nothing of it is called any more."""

    def empty(self):
        """Whether nothing at all is stored, no mark either. False where that is not known."""
        return False

    def admin(self, action):
        """FLUSH, COMPACT or DROP_CACHES, where `words` claims them."""

    # def get(self, key, mark): the value, or None
    # def put(self, key, value, mark, sync): stores; beside get, which finds what is updated
    # def delete(self, key, mark): whether it was there
    # def scan(self, key, count, reverse): values in the order of keys, from key on
    # def read(self, offset, size), def write(self, offset, data, sync): blocks, of kind "file"
    # def sample(self): {"name": number}


def _describe(store):
    has = lambda name: hasattr(store, name)
    ops = [kinds for name, kinds in (("get", ["get"]), ("put", ["put", "insert", "update"]), ("delete", ["delete"]),
                                     ("scan", ["scan"]), ("read", ["read"]), ("write", ["write"])) if has(name)]
    said = {"name": store.name, "about": store.about, "version": store.version, "kind": store.kind,
            "ops": sum(ops, []), "options": store.options}
    said.update(store.words)
    return said


_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = [("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long)]


class _Ring(threading.Thread):
    """One session, until it is closed and all of it has ended."""

    def __init__(self, store, ask, fd, spins):
        super().__init__(daemon=True)
        self.store, self.spins = store, spins
        self.memory = mmap.mmap(fd, ask["len"])
        self.words = memoryview(self.memory).cast("I")
        self.mask = ask["entries"] - 1
        self.dones = _ENTRIES + 64 * ask["entries"]
        self.slots, self.slot_size = ask["slots_at"], ask["slot_size"]
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.barrier = threading.Lock()
        self.closing = False
        self.told = set()

    def futex(self, word, call, value, most=None):
        _libc.syscall(_SYS_FUTEX, ctypes.c_void_p(self.base + 4 * word), call, ctypes.c_uint32(value),
                      ctypes.byref(most) if most else None, None, 0)

    def wake(self):
        self.futex(_OP_TAIL, _FUTEX_WAKE, 1)

    def sleep(self, head):
        """The system call frees other threads of Python meanwhile."""
        words = self.words
        words[_OP_WAITING] = 1
        if words[_OP_TAIL] == head:
            self.futex(_OP_TAIL, _FUTEX_WAIT, head, _Timespec(0, 50_000_000))
        words[_OP_WAITING] = 0

    def run(self):
        words, memory, mask, barrier = self.words, self.memory, self.mask, self.barrier
        perform, now, unpack, pack = self.perform, time.monotonic_ns, _OP.unpack_from, _DONE.pack_into
        head = looks = 0
        while True:
            if words[_OP_TAIL] == head:
                looks += 1
                if looks > self.spins:
                    if self.closing:
                        return
                    self.sleep(head)
                    looks = 0
                continue
            looks = 0
            op = unpack(memory, _ENTRIES + 64 * (head & mask))
            start = now()
            try:
                status, count, moved = perform(op)
            except Exception as e:  # a store that fails is a status of this operation
                status, count, moved = self.failed(e), 0, 0
            end = now()
            pack(memory, self.dones + 64 * (head & mask), op[0], status, count, moved, start, end, 0, 0, 0)
            head = (head + 1) & _WRAP
            words[_DONE_TAIL] = head
            with barrier:
                pass
            if words[_DONE_WAITING]:
                words[_DONE_WAITING] = 0
                self.futex(_DONE_TAIL, _FUTEX_WAKE, 1)

    def failed(self, e):
        words = "%s: %s" % (type(e).__name__, e)
        if words not in self.told and len(self.told) < 10:
            self.told.add(words)
            print("taillight driver: %s" % words, file=sys.stderr, flush=True)
        return e.errno if isinstance(e, OSError) and e.errno else STORE

    def give(self, at, values):
        """Values into the slot, as much of them as it has room for: their bytes."""
        moved = 0
        for value in values:
            part = value[:max(0, self.slot_size - moved)]
            self.memory[at + moved:at + moved + len(part)] = part
            moved += len(value)
        return moved

    def perform(self, op):
        """Status, records, bytes."""
        _, kind, sync, _, count, offset, size, _, key_len, key_at, value_at, _, flags, _ = op
        memory, store = self.memory, self.store
        key = memory[self.slots + key_at:self.slots + key_at + key_len]
        at = self.slots + value_at
        mark = bool(flags & MARK)
        if kind == NOOP:  # the bridge's cost: what there is of key and value is made Python's, and Python's given back
            value = memory[at:at + (offset or size)]
            return OK, 0, self.give(at, [value]) if offset else 0
        if kind == GET:
            value = store.get(key, mark)
            return (NOT_FOUND, 0, 0) if value is None else (OK, 0, self.give(at, [value]))
        if kind in (PUT, INSERT, UPDATE):
            if kind == UPDATE and store.get(key, mark) is None:
                return NOT_FOUND, 0, 0
            store.put(key, memory[at:at + size], mark, sync)
            return OK, 0, size
        if kind == DELETE:
            return (OK if store.delete(key, mark) else NOT_FOUND), 0, 0
        if kind == SCAN:
            values = store.scan(key, count, bool(flags & REVERSE))
            return OK, len(values), self.give(at, values)
        if kind == READ:
            return OK, 0, self.give(at, [store.read(offset, size)])
        if kind == WRITE:
            store.write(offset, memory[at:at + size], sync)
            return OK, 0, size
        return errno.ENOTSUP, 0, 0


class _Server:
    def __init__(self, store):
        self.store = store
        self.targets, self.rings = {}, {}

    def answer(self, ask, fd):
        do, number = ask["do"], ask.get("target")
        if do == "describe":
            return {"abi": ABI, "samples": hasattr(self.store, "sample"), "describe": _describe(self.store)}
        if do == "open":
            store = self.store(ask["plan"])
            # Threads of Python take turns: only one alone gains by looking again at once.
            self.targets[number] = store, _SPINS if ask["plan"].get("workers", 1) <= 1 else 0, []
            return {"file_size": getattr(store, "file_size", ask["file_size"]), "align": getattr(store, "align", 1)}
        if do == "close_session":
            ring = self.rings.pop(ask["session"], None)
            if ring:
                ring.closing = True
                ring.wake()
            return {}
        store, spins, rings = self.targets[number]
        if do == "session":
            ring = _Ring(store, ask, fd, spins)
            self.rings[ask["session"]] = ring
            rings.append(ring)
            ring.start()
        elif do == "admin":
            if ask["action"] == EMPTY:
                return {"answer": int(bool(store.empty()))}
            store.admin(ask["action"])
        elif do == "sample":
            return {"values": store.sample()}
        elif do == "close":
            for ring in rings:
                ring.join()
            store.close()
            del self.targets[number]
        return {}


def serve(store):
    """Serves a class of stores until Taillight closes the socket."""
    if platform.machine() not in ("x86_64", "AMD64") or sys.maxsize < 2**32:
        sys.exit("taillight.py needs a machine of 64-bit x86; taillight_process.h serves on others")
    try:
        line = socket.socket(fileno=os.dup(0))
        line.getpeername()
    except OSError:
        sys.exit("this is a driver for Taillight, which starts it: taillight drivers --check \"python3 %s\"" % sys.argv[0])
    server, said, fd = _Server(store), b"", None
    while True:
        part, fds, _, _ = socket.recv_fds(line, 1 << 16, 1)
        if not part:
            os._exit(0)
        said += part
        fd = fds[0] if fds else fd
        if not said.endswith(b"\n"):
            continue
        try:
            answer = server.answer(json.loads(said), fd)
        except Exception as e:  # told to Taillight, which says it
            answer = {"error": "%s: %s" % (type(e).__name__, e)}
        said = b""
        if fd is not None:
            os.close(fd)
            fd = None
        line.sendall(json.dumps(answer).encode() + b"\n")
