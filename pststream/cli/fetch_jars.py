"""Fetch the Delta jars, verify them by checksum, and install them into the environment of this Python.

Spark's own Ivy resolves them, from the repositories that are configured on this machine. Delta also names 26 jars that
Spark has already in newer versions; they are excluded. After this no run needs the network.

    python -m pststream.cli.fetch_jars [--from DIR]     DIR: a folder with the jars, for a machine without a network
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKSUMS = Path(__file__).with_name("jars.sha256")
TARGET = Path(sys.prefix) / "share" / "pststream" / "jars"
DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
"""Of the version of the Python package delta-spark. Version 4.4.1 asks for a jar that does not exist."""

SPARK_HAS = "com.*:*,commons-*:*,io.airlift:*,jakarta.*:*,javax.*:*,org.*:*"


def main(arguments: list[str] | None = None) -> int:
    """Install the jars unless they are there with the right checksums; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", type=Path, help="a folder with the jars")
    source: Path | None = parser.parse_args(arguments).source
    wanted = read_checksums()
    try:
        if find_invalid(TARGET, wanted):
            fetch(wanted, source)
        install_checksums(wanted)
    except (OSError, RuntimeError) as error:
        print(f"fetch_jars: {error}", file=sys.stderr)
        return 1
    print(f"{len(wanted)} jars verified in {TARGET}")
    return 0


def read_checksums(file: Path = CHECKSUMS) -> dict[str, str]:
    """Return {file name: SHA-256} of the jars, from a file that is as `sha256sum` writes it."""
    pairs = (line.split() for line in file.read_text("utf-8").splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def find_invalid(folder: Path, wanted: dict[str, str]) -> list[str]:
    """Return the names of the jars that are missing in `folder` or differ from their checksum."""
    return [name for name, digest in wanted.items() if sha256(folder / name) != digest]


def sha256(path: Path) -> str | None:
    """Return the hexadecimal SHA-256 of a file, None if there is no file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(wanted: dict[str, str], source: Path | None) -> None:
    """Copy the jars to `TARGET`, from `source` or through Ivy; raise RuntimeError if one is missing or invalid."""
    with tempfile.TemporaryDirectory(prefix="pststream-jars-") as scratch:
        folder = source or resolve(Path(scratch))
        if invalid := find_invalid(folder, wanted):
            names = ", ".join(invalid)
            raise RuntimeError(f"missing, or not as in {CHECKSUMS.name}: {names}; nothing was installed")
        TARGET.mkdir(parents=True, exist_ok=True)
        for name in wanted:
            replace(folder / name, TARGET / name)


def resolve(scratch: Path) -> Path:
    """Fetch the jars with Spark's Ivy into `scratch`; return the folder, file names without the prefix `group_`."""
    application = scratch / "nothing.py"
    application.write_text("", "utf-8")
    binaries = str(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": os.pathsep.join([binaries, os.environ.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop("SPARK_HOME", None)
    if not Path(binaries, "spark-submit").exists():
        raise RuntimeError("Spark is not installed: pip install 'pststream[spark]'")
    command = [f"{binaries}/spark-submit", "--master", "local[1]", "--packages", DELTA]
    command += ["--exclude-packages", SPARK_HAS, "--conf", f"spark.jars.ivy={scratch}/ivy", str(application)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Spark could not fetch {DELTA} (is Java 17 here, and the network?):\n{done.stderr[-3000:]}")
    jars = scratch / "ivy" / "jars"
    for path in list(jars.glob("*.jar")):
        path.rename(jars / path.name.split("_", 1)[1])
    return jars


def install_checksums(wanted: dict[str, str]) -> None:
    """Copy the checksums to the folder of the jars, for `pststream doctor`; delete jars that are not wanted."""
    for path in TARGET.glob("*.jar"):
        if path.name not in wanted:
            path.unlink()
    installed = TARGET / CHECKSUMS.name
    if sha256(installed) != sha256(CHECKSUMS):
        replace(CHECKSUMS, installed)


def replace(source: Path, target: Path) -> None:
    """Copy a file atomically."""
    part = target.with_name(f"{target.name}.part{os.getpid()}")
    shutil.copyfile(source, part)
    part.replace(target)


if __name__ == "__main__":
    sys.exit(main())
