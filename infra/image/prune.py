"""Remove from this Python's environment what only tests, checks and builds need, so that the image is small.

Kept is what stands in requirements.in above its heading of tests, and all that this needs in turn.
"""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
HEADING = "# Tests and checks."


def main() -> int:
    """Remove them; returns the exit code."""
    above, heading, _ = (ROOT / "requirements.in").read_text("utf-8").partition(HEADING)
    if not heading:
        raise SystemExit(f"prune: requirements.in has no heading {HEADING!r}")
    lines = (line.split("#")[0].strip() for line in above.splitlines())
    kept = needed([Requirement(line) for line in lines if line])
    installed = {canonicalize_name(found.metadata["Name"]) for found in metadata.distributions()}
    # The project itself stays; pip goes last, as it does the work.
    gone = sorted(installed - kept - {"pststream", "pip"})
    uninstall = [sys.executable, "-m", "pip", "uninstall", "--quiet", "--yes", "--disable-pip-version-check"]
    subprocess.run([*uninstall, *gone], check=True)
    subprocess.run([*uninstall, "pip"], check=True)
    print(f"removed {', '.join(gone)}, pip")
    return 0


def needed(asked: list[Requirement]) -> set[str]:
    """The names of these packages and of all that they need here."""
    found: set[tuple[str, str]] = set()
    while asked:
        requirement = asked.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras}:
            if (name, extra) in found:
                continue
            found.add((name, extra))
            for line in metadata.requires(name) or []:
                more = Requirement(line)
                if more.marker is None or more.marker.evaluate({"extra": extra}):
                    asked.append(more)
    return {name for name, _ in found}


if __name__ == "__main__":
    sys.exit(main())
