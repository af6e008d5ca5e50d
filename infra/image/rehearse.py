"""Run the image's own steps in a clean folder, without Docker, and try what comes out of them.

    make image-steps
    python3.11 infra/image/rehearse.py [--keep DIR]

The folder gets what the Dockerfile copies, before each step what is copied before it. Needs Python 3.11, Java 17, make,
git, and the network or a cache of packages. Exit codes: 0 all is there, and runs; 1 something is not.
"""

import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRESENT = ("airflow", "spark-submit", "spark-class", "pststream")
ABSENT = ("pip", "uv", "ruff", "mypy", "pytest", "playwright", "moto_server")


def main(arguments: list[str] | None = None) -> int:
    """Copy, run, try; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="an empty folder for it, which stays")
    keep = parser.parse_args(arguments).keep
    with tempfile.TemporaryDirectory(prefix="pststream-image-") as scratch:
        folder = keep.absolute() if keep else Path(scratch)
        began = time.monotonic()
        build(folder)
        faults = found_faults(folder)
        size = sum(file.lstat().st_size for file in folder.rglob("*")) / 1e6
        print(f"{time.monotonic() - began:.0f} s, {size:.0f} MB; " + ("; ".join(faults) or "all is there, and runs"))
    return 1 if faults else 0


def build(folder: Path) -> None:
    """The Dockerfile's instructions between its two stages: COPY from the context, RUN of build.sh."""
    stage = (ROOT / "Dockerfile").read_text("utf-8").split(" AS build\n")[1].split("\nFROM ")[0]
    for sources, target, step in re.findall(
        r"^COPY (?!--)(.+) (\S+)$|^RUN bash (infra/image/build\.sh \S+)$", stage, re.M
    ):
        if step:
            subprocess.run(["bash", *step.split()], cwd=folder, env=environment(folder), check=True)
        for source in sources.split():
            copy(source, folder / target)


def copy(source: str, target: Path) -> None:
    """A file, or all of the context."""
    if source != ".":
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / source, target)
        return
    for file in context():
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, target / file)


def context() -> list[str]:
    """The project's files that .dockerignore lets through."""
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [
        file
        for file in files.stdout.splitlines()
        if any(fnmatch.fnmatch(file, p) or file.startswith(f"{p}/") for p in kept)
    ]


def environment(folder: Path) -> dict[str, str]:
    """As the image's, in this folder: its own caches, its own programs first, nothing of another home."""
    binaries = str(folder / ".venv" / "bin")
    ours = {
        name: value for name, value in os.environ.items() if not name.startswith(("PSTSTREAM_", "AIRFLOW", "PYTHON"))
    }
    path = os.pathsep.join([binaries, os.environ.get("PATH", os.defpath)])
    state = {
        "PSTSTREAM_CACHE_DIR": f"{folder}/cache",
        "AIRFLOW_HOME": f"{folder}/airflow",
        "PSTSTREAM_HOME": f"{folder}/home",
    }
    return ours | state | {"PATH": path, "VIRTUAL_ENV": ""}


def found_faults(folder: Path) -> list[str]:
    """What is missing, is there and should not be, or does not run."""
    binaries, surroundings = folder / ".venv" / "bin", environment(folder)
    faults = [f"{name} is missing" for name in PRESENT if not (binaries / name).exists()]
    faults += [f"{name} is still there" for name in ABSENT if (binaries / name).exists()]
    compiled = len(list((folder / "cache").rglob("*.nbc")))
    faults += [] if compiled else ["no kernel was compiled"]
    for command in (
        ["pststream", "init"],
        ["pststream", "doctor"],
        ["airflow", "version"],
        ["spark-submit", "--version"],
    ):
        done = subprocess.run(command, env=surroundings, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            faults.append(f"{' '.join(command)}: {(done.stdout + done.stderr)[-2000:]}")
    return faults


if __name__ == "__main__":
    sys.exit(main())
