"""Load all modules of the program and its kernels when imported; tests/command_process.py forks commands from here.

Nothing here starts a thread: a forked process would lack it.
"""

import importlib
import pkgutil

import pststream

for module in pkgutil.walk_packages(pststream.__path__, "pststream."):
    if not module.name.startswith("pststream.benchmarks") and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
importlib.import_module("pststream.pipeline.engine.warm_up").load_kernels()
