"""Fetch the jars of Delta or S3A, verify them by checksum, and install them into the environment of this Python.

Spark's own Ivy resolves them, from the repositories that are configured on this machine. They also name jars that Spark
has already in newer versions; these are excluded. After this no run needs the network.

    python -m pststream.cli.fetch_jars [--s3a] [--from DIR]

--s3a: Hadoop's client of S3 with the modules of Amazon's SDK that it needs, for Spark SQL on a home in a bucket
DIR: a folder with the jars, for a machine without a network
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

TARGET = Path(sys.prefix) / "share" / "pststream" / "jars"


class Jars(NamedTuple):
    """Jars that belong together: file of their checksums, folder, Maven coordinates, and what Ivy leaves out."""

    checksums: Path
    target: Path
    packages: str
    excluded: str


DELTA = Jars(
    Path(__file__).with_name("jars.sha256"),
    TARGET,
    # Of the version of the Python package delta-spark. Version 4.4.1 asks for a jar that does not exist.
    "io.delta:delta-spark_4.2_2.13:4.4.0",
    "com.*:*,commons-*:*,io.airlift:*,jakarta.*:*,javax.*:*,org.*:*",
)

SDK = "software.amazon.awssdk"
S3A = Jars(
    Path(__file__).with_name("s3a.sha256"),
    TARGET / "s3a",
    # Of Spark's Hadoop, and of the SDK that it was built with. By `sts` a service account of Kubernetes gets its role.
    f"org.apache.hadoop:hadoop-aws:3.5.0,{SDK}:s3:2.35.4,{SDK}:s3-transfer-manager:2.35.4,{SDK}:sts:2.35.4",
    # The bundle has all services of Amazon: 600 MB.
    f"{SDK}:bundle,commons-*:*,io.netty:*,org.apache.httpcomponents:*,org.slf4j:*,org.wildfly.openssl:*",
)


def main(arguments: list[str] | None = None) -> int:
    """Install the jars unless they are there with the right checksums; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--s3a", dest="jars", action="store_const", const=S3A, default=DELTA, help="the jars of S3A")
    parser.add_argument("--from", dest="source", type=Path, help="a folder with the jars")
    given = parser.parse_args(arguments)
    jars: Jars = given.jars
    wanted = read_checksums(jars.checksums)
    try:
        if find_invalid(jars.target, wanted):
            fetch(jars, wanted, given.source)
        install_checksums(jars, wanted)
    except (OSError, RuntimeError) as error:
        print(f"fetch_jars: {error}", file=sys.stderr)
        return 1
    print(f"{len(wanted)} jars verified in {jars.target}")
    return 0


def read_checksums(file: Path) -> dict[str, str]:
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


def fetch(jars: Jars, wanted: dict[str, str], source: Path | None) -> None:
    """Copy the jars to their folder, from `source` or through Ivy; raise RuntimeError if one is missing or invalid."""
    with tempfile.TemporaryDirectory(prefix="pststream-jars-") as scratch:
        folder = source or resolve(jars, Path(scratch))
        if invalid := find_invalid(folder, wanted):
            names = ", ".join(invalid)
            raise RuntimeError(f"missing, or not as in {jars.checksums.name}: {names}; nothing was installed")
        jars.target.mkdir(parents=True, exist_ok=True)
        for name in wanted:
            replace(folder / name, jars.target / name)


def resolve(jars: Jars, scratch: Path) -> Path:
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
    command = [f"{binaries}/spark-submit", "--master", "local[1]", "--packages", jars.packages]
    command += ["--exclude-packages", jars.excluded, "--conf", f"spark.jars.ivy={scratch}/ivy", str(application)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        error = done.stderr[-3000:]
        raise RuntimeError(f"Spark could not fetch {jars.packages} (is Java 17 here, and the network?):\n{error}")
    folder = scratch / "ivy" / "jars"
    for path in list(folder.glob("*.jar")):
        path.rename(folder / path.name.split("_", 1)[1])
    return folder


def install_checksums(jars: Jars, wanted: dict[str, str]) -> None:
    """Copy the checksums to the folder of the jars, for `pststream doctor`; delete jars that are not wanted."""
    for path in jars.target.glob("*.jar"):
        if path.name not in wanted:
            path.unlink()
    installed = jars.target / jars.checksums.name
    if sha256(installed) != sha256(jars.checksums):
        replace(jars.checksums, installed)


def replace(source: Path, target: Path) -> None:
    """Copy a file atomically."""
    part = target.with_name(f"{target.name}.part{os.getpid()}")
    shutil.copyfile(source, part)
    part.replace(target)


if __name__ == "__main__":
    sys.exit(main())
