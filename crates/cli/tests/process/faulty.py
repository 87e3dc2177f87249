"""A store with one fault, chosen by its argument: what the host has to name."""
import os
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, sys.argv[2])
import taillight

fault = sys.argv[1]
armed = False  # what lies does so from the 100th get on


class Faulty(taillight.Store):
    name = "faulty"
    words = {"stores_data": False}

    def __init__(self, plan):
        if fault == "refuses":
            raise ValueError("not \"today\"")
        if fault == "dies":
            os._exit(3)
        if fault == "sleeps":
            time.sleep(1000)
        self.gets = 0

    def get(self, key, mark):
        global armed
        self.gets += 1
        if self.gets >= 100:
            armed = True
            if fault == "exits":
                os._exit(3)
            if fault in ("killed", "orphans"):
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == "hangs":
                time.sleep(1000)
            if fault == "fails":
                raise KeyError("lost")
        return b"value"

    def put(self, key, value, mark, sync):
        pass


class Liar:
    """Writes other ends than those that there are."""

    def __init__(self, done):
        self.done, self.last = done, 0

    def pack_into(self, memory, at, token, *rest):
        true = token
        if armed and fault == "twice":
            token = self.last
        if armed and fault == "slot":
            token = token + 1
        if armed and fault == "unknown":
            token = 2**64 - 1
        if armed and fault == "bytes":
            rest = (0, 0, 2**63) + rest[3:]
        if armed and fault == "noise":
            rest = (-2**31, 2**32 - 1) + 5 * (2**64 - 1,) + (2**16 - 1,)
        self.done.pack_into(memory, at, token, *rest)
        self.last = true
        if armed and fault == "many":
            struct.pack_into("I", memory, 256, 2**31)
            time.sleep(0.5)


if fault in ("stays", "orphans"):
    child = subprocess.Popen(["sleep", "30"])
    with open("pids", "w") as pids:
        print(os.getpid(), child.pid, file=pids)
if fault == "stays":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os._exit = lambda code: time.sleep(30)
if fault == "crashes":
    raise RuntimeError("no luck")
if fault == "abi":
    taillight.ABI = 7
if fault == "json":
    taillight.json.dumps = lambda answer: "perhaps"
if fault == "words":
    Faulty.kind = "graph"
taillight._DONE = Liar(taillight._DONE)
taillight.serve(Faulty)
