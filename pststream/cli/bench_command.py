"""Run `bench`: list the benchmarks, or run one. They stand beside the package in a clone, and not in the wheel."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from pststream.base.errors import UsageError
from pststream.cli.command import CommandContext, CommandResult, check_output_path, whole


def add_bench_options(bench: argparse.ArgumentParser) -> None:
    """Add the options of `bench`."""
    bench.add_argument("what", choices=("list", "run"))
    bench.add_argument("name", nargs="?", help="for `run`: a benchmark, as `list` shows them")
    bench.add_argument("--scale", choices=("small", "full"), default="small", help="default %(default)s")
    bench.add_argument("--seed", type=whole, default=1, help="default %(default)s")
    bench.add_argument("--out", metavar="FILE", help="also write the JSON document to this file")
    bench.add_argument("--workloads", metavar="A,B", help="of the benchmarks of planners: only these")
    bench.add_argument(
        "--objects",
        metavar="FILE",
        help="of the benchmarks of planners: objects of this file (lon, lat, text) in place of synthetic ones",
    )


def bench_command(context: CommandContext, arguments: Any) -> CommandResult:
    """List the benchmarks, or run one."""
    _find_benchmarks()
    from benchmarks.registry import BENCHMARKS, run_benchmark

    if arguments.what == "list":
        listed = {name: BENCHMARKS[name].meaning for name in sorted(BENCHMARKS)}
        width = max(map(len, listed))
        return CommandResult(listed, "\n".join(f"{name:{width}}  {meaning}" for name, meaning in listed.items()))
    if arguments.name is None:
        raise UsageError("bench run: name a benchmark", "pststream bench list shows them")
    if arguments.name not in BENCHMARKS:
        raise UsageError(f"benchmark {arguments.name!r} is unknown", "one of: " + ", ".join(sorted(BENCHMARKS)))
    check_output_path(arguments.out)
    document = run_benchmark(
        arguments.name,
        arguments.scale,
        arguments.seed,
        context.settings,
        context.progress,
        workloads=() if arguments.workloads is None else arguments.workloads.split(","),
        objects=arguments.objects,
    )
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return CommandResult(document, json.dumps(document, indent=1))


def _find_benchmarks() -> None:
    """Let this process and those that it starts import `benchmarks`; raise UsageError outside of a clone."""
    clone = str(Path(__file__).resolve().parents[2])
    if not Path(clone, "benchmarks", "registry.py").exists():
        raise UsageError("the package contains no benchmarks", "clone the project, and run `make setup` there")
    if clone not in sys.path:
        sys.path.append(clone)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), clone]))
