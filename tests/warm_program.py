"""Load all modules of the program and its kernels when imported; tests/command_process.py forks commands from here.

Nothing here starts a thread: a forked process would lack it.
"""

import importlib
import pkgutil
from types import ModuleType

from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

import pststream
from pststream.cli.arguments import build_parser
from pststream.engine.warm_up import load_kernels

NO_COMMANDS = ("benchmarks", "pststream.airflow")
"""Packages that no forked command loads; the second one loads Airflow."""

LEFT_OUT = ("pststream.kernels.planning.", "pststream.kernels.questions.", "pststream.kernels.region_counts.")
"""Packages with half of the kernels, which few forked commands call; those load what they need."""


def load_modules() -> list[ModuleType]:
    """Import the modules that commands use, and return them."""
    names = [module.name for module in pkgutil.walk_packages(pststream.__path__, "pststream.")]
    return [
        importlib.import_module(name)
        for name in names
        if not name.startswith(NO_COMMANDS) and not name.endswith("__main__")
    ]


def load_compiled(module: ModuleType) -> None:
    """Load the machine code that numba's cache has of the kernels of a module, for all types of arguments."""
    for kernel in vars(module).values():
        if isinstance(kernel, Dispatcher) and isinstance(kernel._cache, FunctionCache):
            # The keys of the index begin with the types of the arguments; numba has no other way to list them.
            for types, *_ in kernel._cache._cache_file._load_index():
                kernel.compile(types)


for loaded in load_modules():
    if loaded.__name__.startswith("pststream.kernels.") and not loaded.__name__.startswith(LEFT_OUT):
        load_compiled(loaded)
load_kernels()
build_parser()
