"""Install the package next to nothing else, as a user does, and run two homes side by side in an Airflow.

    make package-check
    .venv/bin/python infra/check_package.py [EXTRAS ...]

EXTRAS: as `airflow` or `airflow,spark` (both by default). For each, a wheel of this folder and the extras are installed
into a new environment, and tests/dags/two_homes.py runs there, in a scratch folder. Needs the network or a cache of
packages. Exit codes: 0 both homes have their matches; 1 not.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "dags" / "two_homes.py"
UV = [str(Path(sys.executable).with_name("uv")), "--quiet", "--system-certs"]


def main(extras: list[str]) -> int:
    """Check each choice of extras; return the exit code."""
    codes = []
    with tempfile.TemporaryDirectory(prefix="pststream-package-") as scratch:
        folder = Path(scratch)
        run([*UV, "build", "--wheel", "--out-dir", folder, ROOT])
        [wheel] = folder.glob("*.whl")
        for number, extra in enumerate(extras or ["airflow", "airflow,spark"]):
            codes.append(check(folder / str(number), f"pststream[{extra}] @ {wheel.as_uri()}"))
    return max(codes)


def check(folder: Path, requirement: str) -> int:
    """Install the requirement, run the program, print what it did; return the exit code."""
    python, own = folder / "venv" / "bin" / "python", folder / "own"
    began = time.monotonic()
    run([*UV, "venv", "--python", sys.executable, folder / "venv"])
    run([*UV, "pip", "install", "--python", python, requirement])
    installed = time.monotonic()
    own.mkdir()
    done = run([python, PROGRAM, own], folder)
    document = json.loads(done.stdout.splitlines()[-1])
    packages = run([*UV, "pip", "freeze", "--python", python]).stdout.splitlines()
    main_ones = ", ".join(one for one in packages if one.startswith(("apache-airflow==", "pyspark")))
    print(f"{requirement.partition(' ')[0]}: {len(packages)} packages, {main_ones}: {installed - began:.0f} s")
    print(f"  two homes, {time.monotonic() - installed:.0f} s:", json.dumps(document["homes"]))
    homes = document["homes"].values()
    good = [home["pairs"] and set(home["states"].values()) == {"success", "skipped"} for home in homes]
    return 0 if len(good) == 2 and all(good) else 1


def run(words: list[object], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command without our own settings; exit with its standard error if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        ending = done.stdout[-2000:] + done.stderr[-4000:]
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{ending}")
    return done


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
