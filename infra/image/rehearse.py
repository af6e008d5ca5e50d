"""Run the build steps of the image in a clean folder, without Docker, and check the result.

    make image-steps
    python3.11 infra/image/rehearse.py [--keep DIR]

Before each step the folder gets the files that the Dockerfile copies before that step. Needs Python 3.11, Java 17,
make, git, and the network or a cache of packages. Exit codes: 0 all programs are there and run; 1 not all.
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
    """Build and check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="an empty folder for the build, which is not deleted")
    keep = parser.parse_args(arguments).keep
    with tempfile.TemporaryDirectory(prefix="pststream-image-") as scratch:
        folder = keep.absolute() if keep else Path(scratch)
        began = time.monotonic()
        build(folder)
        faults = find_faults(folder)
        size = sum(file.lstat().st_size for file in folder.rglob("*")) / 1e6
        print(
            f"{time.monotonic() - began:.0f} s, {size:.0f} MB; "
            + ("; ".join(faults) or "all programs are there and run")
        )
    return 1 if faults else 0


def build(folder: Path) -> None:
    """Follow the instructions of the build stage of the Dockerfile: COPY from the context, RUN of build.sh."""
    stage = (ROOT / "Dockerfile").read_text("utf-8").split(" AS build\n")[1].split("\nFROM ")[0]
    for sources, target, step in re.findall(
        r"^COPY (?!--)(.+) (\S+)$|^RUN bash (infra/image/build\.sh \S+)$", stage, re.M
    ):
        if step:
            subprocess.run(["bash", *step.split()], cwd=folder, env=environment(folder), check=True)
        for source in sources.split():
            copy(source, folder / target)


def copy(source: str, target: Path) -> None:
    """Copy a file, or with `.` all files of the context."""
    if source != ".":
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / source, target)
        return
    for file in context():
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, target / file)


def context() -> list[str]:
    """Return the files of the project that .dockerignore does not exclude."""
    included = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [
        file
        for file in files.stdout.splitlines()
        if any(fnmatch.fnmatch(file, p) or file.startswith(f"{p}/") for p in included)
    ]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of the image, in this folder: its own caches and programs, no settings of another home."""
    binaries = str(folder / ".venv" / "bin")
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PSTSTREAM_", "AIRFLOW", "PYTHON"))
    }
    path = os.pathsep.join([binaries, os.environ.get("PATH", os.defpath)])
    state = {
        "PSTSTREAM_CACHE_DIR": f"{folder}/cache",
        "AIRFLOW_HOME": f"{folder}/airflow",
        "PSTSTREAM_HOME": f"{folder}/home",
    }
    return inherited | state | {"PATH": path, "VIRTUAL_ENV": ""}


def find_faults(folder: Path) -> list[str]:
    """Return a text for each program that is missing, is there and should not be, or does not run."""
    binaries, variables = folder / ".venv" / "bin", environment(folder)
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
        done = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            faults.append(f"{' '.join(command)}: {(done.stdout + done.stderr)[-2000:]}")
    return faults


if __name__ == "__main__":
    sys.exit(main())
