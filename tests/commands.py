"""Run commands in tests: in this process, in a separate one that has loaded the program, or in a new Python."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.command_process import ROOT, CommandProcess
from tests.worlds import WrittenWorld

ENTRY = "from pststream.cli.main import entry; entry()"
KILLED = -9


@dataclass(frozen=True)
class Result:
    """Exit code and outputs of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on standard output."""
        return json.loads(self.out)


def run_here(*arguments: str | Path) -> Result:
    """Run a command in this process."""
    from pststream.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return Result(code, out.getvalue(), err.getvalue())


def run_apart(*arguments: str | Path, environment: dict[str, str] | None = None) -> Result:
    """Run a command in a separate process that has loaded the program, with additional environment variables."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        process = CommandProcess(arguments, {**os.environ, **(environment or {})}, out, err)
        try:
            code = process.wait(550)
        finally:
            process.kill()
        return Result(code, out.read_text("utf-8"), err.read_text("utf-8"))


def run_in_new_python(*arguments: str | Path, environment: dict[str, str] | None = None) -> Result:
    """Run a command in a new process of Python, with additional environment variables."""
    command = [sys.executable, "-c", ENTRY, *map(str, arguments)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=550,
    )
    return Result(done.returncode, done.stdout, done.stderr)


class Home:
    """A home whose commands run in this process; a command that does not exit with `code` fails the test."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *arguments: str | Path, code: int = 0) -> Any:
        """Run a command with --json; return its document, or None if it failed as expected.

        An ingest that succeeds ends with 3 if a file has more rejected than accepted rows.
        """
        result = run_here(*arguments, "--home", self.path, "--json")
        document = result.json if result.out.strip() else None
        expected = 3 if arguments[0] == "ingest" and not code and (document or {}).get("mostly_rejected") else code
        said = f"{result.err[-4000:]}\n{result.out[-500:]}"
        assert result.code == expected, f"{arguments} ended with {result.code}:\n{said}"
        return document

    def crash(self, step: str, *arguments: str | Path) -> Result:
        """Run a command in a separate process that kills itself at a step."""
        return run_apart(*arguments, "--home", self.path, "--json", environment={"PSTSTREAM_CRASH_AT": step})

    def set(self, **settings: Any) -> None:
        """Change keys of the home's settings file."""
        file = self.path / "pststream.toml"
        kept = [line for line in file.read_text().splitlines() if line.split(" = ")[0] not in settings]
        file.write_text("\n".join([*(f"{k} = {json.dumps(v)}" for k, v in settings.items()), *kept]) + "\n")

    def add_sink(self, name: str, **keys: Any) -> None:
        """Add a sink to the settings file."""
        lines = [f"[sinks.{name}]", *(f"{k} = {json.dumps(v)}" for k, v in keys.items())]
        with open(self.path / "pststream.toml", "a") as file:
            file.write("\n".join(lines) + "\n")

    def ingest(self, kind: str, files: Sequence[Path], *options: str) -> Any:
        """Ingest files in the order given by their names."""
        return self.run("ingest", kind, *files, *options)

    def match(self, *options: str) -> Any:
        """Run micro-batches until nothing is left."""
        return self.run("match", "--until-empty", *options)

    def exported(self) -> list[tuple[str, int, str]]:
        """Export the matches as (object_id, ts in microseconds, subscription_id), sorted, with repeats."""
        out = self.exports
        out.unlink(missing_ok=True)
        self.run("export", "matches", "--out", out)
        table = pq.read_table(out)
        moments = table["ts"].cast(pa.timestamp("us", tz="UTC")).cast("int64").to_pylist()
        return sorted(zip(table["object_id"].to_pylist(), moments, table["subscription_id"].to_pylist()))

    @property
    def exports(self) -> Path:
        """Path of the file with the exported matches."""
        return self.path.parent / f"{self.path.name}-matches.parquet"

    def rejects(self) -> Counter[tuple[str, str]]:
        """Count the rejected rows by kind and reason."""
        return Counter((row["kind"], row["reason"]) for row in self.run("rejects", "--limit", "1000000")["rejects"])


def new_home(path: Path, **settings: Any) -> Home:
    """Make a home with some settings changed."""
    home = Home(path)
    home.run("init")
    shutil.rmtree(home.path / "expectations")  # each check would load the library of suites for seconds
    home.set(**settings)
    return home


def ingest_world(home: Home, world: WrittenWorld, objects_first: bool = True) -> tuple[Any, Any]:
    """Ingest a whole world, one call per kind; return the documents of the calls for objects and for requests."""
    if objects_first:
        objects = home.ingest("objects", world.objects)
        return objects, home.ingest("requests", world.requests)
    requests = home.ingest("requests", world.requests)
    return home.ingest("objects", world.objects), requests
