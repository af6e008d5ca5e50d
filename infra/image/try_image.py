"""Build the image with buildah, run the demo in it as the image's user with a read-only root, and check its size.

    make test-image [BASE=IMAGE JAVA=IMAGE]
    try_image.py [--base IMAGE] [--java IMAGE] [--folder DIR]

Without --base a base is made by debootstrap from the package archive of this machine, without --java one with the Java
of this machine. The build uses this machine's configuration of pip and its certificates, by mounts that leave nothing
in the image. Needs root on Debian 12, buildah, debootstrap and Java 17; elsewhere it says what is missing and ends.
Exit codes: 0 built, small enough and the demo ran, or skipped; 1 not.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "localhost/pststream:test"
MOST_BYTES = 2_200_000_000
USER = "50000:0"
PACKAGES = "ca-certificates,python3,python3-venv"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
LEFT_OUT = ("jmods", "man", "docs", "src.zip", "demo", "ct.sym", "classes_nocoops.jsa")
"""Parts of a Java for developers, and for heaps of more than 32 GB, that no program here reads."""

DEMO = """set -eu
mount --make-rprivate / && mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"
for folder in /tmp /var/lib/pststream /var/cache/pststream/work; do
    mount -t tmpfs -o mode=1777 tmpfs "$1$folder"
done
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev"
cd / && root=$1 && shift
exec chroot --userspec=USER "$root" env -i HOME=/var/lib/pststream "$@"
""".replace("USER", USER)
"""Runs a command in a folder as in a container, for which buildah without runc has no read-only root."""

COMMANDS = (
    ("pststream", "demo", "--out", "/var/lib/pststream/demo"),
    ("PSTSTREAM_ENGINE=spark", "pststream", "demo", "--out", "/var/lib/pststream/spark"),
    ("AIRFLOW_HOME=/tmp/airflow", "airflow", "version"),
    ("spark-submit", "--version"),
)


def main() -> int:
    """Build and check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="an image with Python 3.11; default: made by debootstrap")
    parser.add_argument("--java", help="an image with Java 17 in /opt/java/openjdk; default: made from that of PATH")
    parser.add_argument("--folder", type=Path, help="an empty folder for the base, kept; default: a temporary one")
    options = parser.parse_args()
    if missing := find_missing(options):
        print(f"test-image: skipped, since it needs {', '.join(missing)}")
        return 0
    with tempfile.TemporaryDirectory(prefix="pststream-image-") as scratch:
        folder = options.folder or Path(scratch)
        base = options.base or make_base(folder / "base")
        java = options.java or make_java(folder / "java")
        began = time.monotonic()
        build(base, java, Path(scratch))
        print(f"built in {time.monotonic() - began:.0f} s")
    container = buildah("from", "--pull-never", IMAGE)
    try:
        root = Path(buildah("mount", container))
        faults = [*run_programs(root), *check_size(root)]
    finally:
        buildah("rm", container)
    print("; ".join(faults) or "the demo ran on threads and on Spark, and the image is small enough")
    return 1 if faults else 0


def find_missing(options: argparse.Namespace) -> list[str]:
    """Return what this machine lacks."""
    programs = ["buildah", *([] if options.base else ["debootstrap"]), *([] if options.java else ["java"])]
    return [*([] if os.geteuid() == 0 else ["root"]), *(name for name in programs if shutil.which(name) is None)]


def make_base(folder: Path) -> str:
    """Make an image of Debian 12 with its Python 3.11; return its name. Uses a base that is in the folder already."""
    if not (folder / "usr" / "bin" / "python3.11").exists():
        mirror = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Release: bookworm").split()[0]
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(folder), mirror)
    for name in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return commit(folder, "/", "localhost/pststream-base")


def make_java(folder: Path) -> str:
    """Make an image with the Java of this machine, with its links followed; return its name."""
    home = Path(shutil.which("java") or "").resolve().parents[1]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(home, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), ignore_dangling_symlinks=True)
    return commit(folder, "/opt/java/openjdk", "localhost/pststream-java")


def commit(folder: Path, target: str, name: str) -> str:
    """Make an image with the content of a folder; return its name."""
    container = buildah("from", "scratch")
    buildah("copy", "--quiet", container, str(folder), target)
    buildah("commit", "--quiet", "--rm", container, name)
    return name


def build(base: str, java: str, scratch: Path) -> None:
    """Build the image from these bases."""
    lines = run(sys.executable, "-m", "pip", "config", "list").splitlines()
    settings = [line.split(".", 1)[1].replace("='", " = ", 1).removesuffix("'") for line in lines]
    (scratch / "pip.conf").write_text("\n".join(["[global]", *dict.fromkeys(settings)]) + "\n", "utf-8")
    mounts = [f"--volume={scratch}/pip.conf:/etc/pip.conf:ro", f"--volume={CERTIFICATES}:{CERTIFICATES}:ro"]
    arguments = [f"--build-arg=BASE={base}", f"--build-arg=JAVA={java}"]
    command = ["buildah", "build", "--isolation=chroot", "--format=docker", "--pull-never", *arguments, *mounts]
    subprocess.run([*command, f"--tag={IMAGE}", str(ROOT)], check=True)


def run_programs(root: Path) -> list[str]:
    """Run the programs of the image as its user, with a read-only root; return a text for each that fails."""
    inspected = json.loads(buildah("inspect", "--type", "image", IMAGE))
    variables = inspected["Docker"]["config"]["Env"]
    (root / "var" / "cache" / "pststream" / "work").mkdir(exist_ok=True)
    faults = []
    for command in COMMANDS:
        program = ["unshare", "--mount", "sh", "-c", DEMO, "sh", str(root), *variables, *command]
        began = time.monotonic()
        done = subprocess.run(program, capture_output=True, text=True, timeout=900, check=False)
        print(f"{' '.join(command)}: exit code {done.returncode} after {time.monotonic() - began:.1f} s")
        if done.returncode:
            faults.append(f"{' '.join(command)}: {(done.stdout + done.stderr)[-3000:]}")
    return faults


def check_size(root: Path) -> list[str]:
    """Print the size and the ten largest items; return a text if the image is too large."""
    packages = next(root.glob("opt/pststream/.venv/lib/python3*/site-packages"))
    folders = [packages, *packages.parents[: len(packages.relative_to(root).parts)]]
    within = {folder.relative_to(root) for folder in folders} | {Path("opt"), Path("usr"), Path("usr/lib"), Path("var")}
    sizes = {
        place: size_of(root / place) for parent in within for place in children(root, parent) if place not in within
    }
    size = sum(sizes.values())
    print(f"{size / 1e9:.2f} GB, of which")
    for place, part in sorted(sizes.items(), key=lambda one: -one[1])[:10]:
        print(f"  {part / 1e6:4.0f} MB  {str(place).replace(str(packages.relative_to(root)), '…')}")
    return [f"{size / 1e9:.2f} GB are more than {MOST_BYTES / 1e9:.2f}"] if size > MOST_BYTES else []


def children(root: Path, folder: Path) -> list[Path]:
    """Return what is in a folder of the image."""
    return [path.relative_to(root) for path in (root / folder).iterdir() if not path.is_symlink()]


def size_of(path: Path) -> int:
    """Return the bytes of the files below a path."""
    return path.lstat().st_size + sum(file.lstat().st_size for file in path.rglob("*"))


def buildah(*words: str) -> str:
    """Run buildah; return what it prints."""
    return run("buildah", *words)


def run(*words: str) -> str:
    """Run a command; return what it prints. Its errors go to this process's standard error."""
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
