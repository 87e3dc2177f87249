"""A store that does nothing, as a program for `driver = "process"`: what the bridge to Python costs.

    taillight drivers --check "python3 sdk/examples/null.py"
    taillight run --driver process --set "target.options.command=python3 sdk/examples/null.py" \\
      --set workload.0.keys.count=1000 --ops 100000
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import taillight


class Null(taillight.Store):
    name = "null-python"
    about = "does nothing, in Python"
    version = "1"
    words = {"ops": ["get", "insert", "update", "delete"], "stores_data": False}

    def get(self, key, mark):
        return b""

    def put(self, key, value, mark, sync):
        pass

    def delete(self, key, mark):
        return True


taillight.serve(Null)
