"""A store in memory, as a program for `driver = "process"`:

    taillight drivers --check "python3 sdk/examples/dict.py"
    taillight run --driver process --set "target.options.command=python3 sdk/examples/dict.py" \\
      --set workload.0.keys.count=1000 --ops 100000
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import taillight


class Dict(taillight.Store):
    name = "dict-python"
    about = "records in memory, in Python"
    version = "1"

    def __init__(self, plan):
        self.records = {}

    def empty(self):
        return not self.records

    def get(self, key, mark):
        return self.records.get(key)

    def put(self, key, value, mark, sync):
        self.records[key] = value

    def delete(self, key, mark):
        return self.records.pop(key, None) is not None

    def sample(self):
        return {"records": len(self.records)}


taillight.serve(Dict)
