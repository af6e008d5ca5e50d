"""Check Java, jars, packages, settings, sinks and disk for `pststream doctor`, with a remedy for each fault.

Starts no Spark and delivers no message; the only Java process is `java -version`.
"""

import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pststream.base import names
from pststream.base.errors import PstError, SettingError
from pststream.base.texts import mask_url
from pststream.cli.fetch_jars import TARGET, find_invalid, read_checksums

JAVA = 17
PYSPARK, CLIENT = "pyspark", "pyspark-client"
"""The client is required by Airflow's Spark provider only."""

SERIES = (["4", "1"], ["4", "2"])
"""Versions of PySpark that the engine works with."""

ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL_SNS")
MIN_FREE_BYTES = 2 * 1024**3
SET_UP = "run `make setup` again, or install pststream again"
FETCH_JARS = "run `python -m pststream.cli.fetch_jars` (`make setup` does it too)"


@dataclass(frozen=True)
class Check:
    """The result of one check; `remedy` is empty where `ok`."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def diagnose(home: str) -> list[Check]:
    """Run all checks, in the order in which a run would meet the faults.

    home: a local folder (it need not exist yet), or an object store's prefix.
    """
    checks = [check_python(), *check_spark(), check_kernels(), check_settings(home), *check_sinks(home)]
    checks += [check_endpoint(name) for name in ENDPOINTS if os.environ.get(name)]
    landing = os.environ.get("PSTSTREAM_LANDING", "")
    if names.storage_prefix(landing):
        checks.append(check_landing(landing))
    if names.storage_prefix(home):
        checks.append(check_bucket(home))
    return [*checks, check_disk(home)]


def check_python() -> Check:
    """Check that the version of Python is one that the project supports."""
    version = ".".join(map(str, sys.version_info[:3]))
    ok = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Check("python", ok, version, "" if ok else "install pststream with Python 3.11, 3.12 or 3.13")


def check_spark() -> list[Check]:
    """Check what Spark needs: Java, PySpark, the jars of Delta; one check without fault if it is not installed."""
    if not _is_installed(PYSPARK):
        detail = "not installed, all work runs in this process; pip install 'pststream[spark]' adds it"
        return [Check("spark", True, detail)]
    return [check_java(), check_pyspark(), check_jars()]


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def check_java() -> Check:
    """Check that Java runs and is the release that Spark needs."""
    remedy = f"install Java {JAVA} (a JRE is enough) and put it on PATH, or set JAVA_HOME"
    java_home = os.environ.get("JAVA_HOME")
    program = str(Path(java_home) / "bin" / "java") if java_home else shutil.which("java")
    if program is None:
        return Check("java", False, "not found on PATH, and JAVA_HOME is not set", remedy)
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("java", False, f"{program}: {error}", remedy)
    version_match = re.search(r'version "((\d+)[^"]*)"', done.stderr + done.stdout)
    if version_match is None:
        return Check("java", False, f"{program} does not print its version", remedy)
    ok = int(version_match[2]) == JAVA
    return Check("java", ok, f"{version_match[1]} ({program})", "" if ok else remedy)


def check_pyspark() -> Check:
    """Check that PySpark is a version that the engine works with, and its separate client, if installed, the same."""
    versions = {name: importlib.metadata.version(name) for name in (PYSPARK, CLIENT) if _is_installed(name)}
    detail = ", ".join(f"{name} {version}" for name, version in versions.items())
    if versions[PYSPARK].split(".")[:2] not in SERIES:
        wanted = " or ".join(".".join(one) for one in SERIES)
        return Check(PYSPARK, False, f"{detail}, but {wanted} is required", SET_UP)
    if len(set(versions.values())) > 1:
        same = f"pip install {CLIENT}=={versions[PYSPARK]}: they share files, so they must be of one version"
        return Check(PYSPARK, False, detail, same)
    return Check(PYSPARK, True, detail)


def check_jars() -> Check:
    """Check that each jar exists and has the checksum of the jar that the project was tested with."""
    checksums = TARGET / "jars.sha256"
    if not checksums.is_file():
        return Check("jars", False, f"none in {TARGET}", FETCH_JARS)
    wanted = read_checksums(checksums)
    missing = [name for name in wanted if not (TARGET / name).is_file()]
    if missing:
        return Check("jars", False, f"missing in {TARGET}: {', '.join(missing)}", FETCH_JARS)
    if changed := find_invalid(TARGET, wanted):
        return Check("jars", False, f"wrong checksum: {', '.join(changed)}", FETCH_JARS)
    return Check("jars", True, f"{len(wanted)} in {TARGET}, checksums correct")


def check_kernels() -> Check:
    """Check that compiled kernels can be cached; without a cache every process compiles them."""
    try:
        from pststream.kernels.compile import cache_folder
    except ImportError as error:
        return Check("kernels", False, f"cannot be loaded: {error}", SET_UP)
    folder = cache_folder()
    try:
        with tempfile.TemporaryFile(dir=_existing(folder)):
            pass
    except OSError as error:
        remedy = "set PSTSTREAM_CACHE_DIR to a folder that you may write to"
        return Check("kernels", False, f"{folder} cannot be written: {error.strerror or error}", remedy)
    compiled = len(list(folder.glob("**/*.nbc")))
    return Check("kernels", True, f"{compiled} compiled in {folder}")


def _existing(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    return next(path for path in [folder, *folder.parents] if path.exists())


def check_settings(home: str) -> Check:
    """Check that the settings of the home and the environment are valid, and that Spark has the jars they need."""
    from pststream.engine.spark_session import check_jars
    from pststream.state.home import Home

    try:
        settings = Home(home).load_settings()
        if settings.pairs_table != names.NEVER:
            check_jars(settings, Home(home))
    except SettingError as error:
        remedy = error.hint or "correct the key, or delete it to use its default (docs/settings.md)"
        return Check("settings", False, error.args[0], remedy)
    except PstError as error:
        return Check("settings", False, error.args[0], error.hint or "use another home")
    except OSError as error:
        return Check("settings", False, str(error), f"make {home} readable for this user")
    return Check("settings", True, f"{settings.planner}, {settings.workers} workers ({home})")


def check_sinks(home: str) -> list[Check]:
    """Check that each sink has what it needs; sends nothing."""
    from pststream.delivery.sinks.registry import find_delivery_obstacle
    from pststream.state.home import Home

    try:
        sinks = Home(home).load_settings().sinks
    except (PstError, OSError):
        return []
    checks = []
    for sink in sinks:
        obstacle = find_delivery_obstacle(sink)
        detail, remedy = (obstacle, "see docs/delivery.md") if obstacle else (f"{sink.kind}, ready", "")
        checks.append(Check(f"sink {sink.name}", not obstacle, detail, remedy))
    return checks


def check_endpoint(variable: str) -> Check:
    """Check that a server listens at the address in an environment variable, whose secrets are not shown."""
    url, shown = os.environ[variable], mask_url(os.environ[variable])
    remedy = f"start the server that {variable} points to, or correct or unset the variable"
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        socket.create_connection((parts.hostname or "", port), timeout=3).close()
    except KeyError:
        return Check(variable, False, "does not begin with http:// or https://", remedy)
    except ValueError:  # what seems to be the port or the host may be a part of a password
        return Check(variable, False, "is not a URL", remedy)
    except OSError as error:
        return Check(variable, False, f"{shown}: {error}", remedy)
    return Check(variable, True, f"{shown} answers")


def check_landing(landing: str) -> Check:
    """Check that the bucket of the landing folder can be listed."""
    from pststream.storage.registry import storage_of

    try:
        store = storage_of(landing).objects(landing)
        store.find_object(store.prefix)
    except PstError as error:
        return Check("landing", False, error.args[0], error.hint)
    return Check("landing", True, f"{landing} can be listed")


def check_bucket(home: str) -> Check:
    """Check that the bucket of the home honours conditional writes; say whether it keeps older versions."""
    from pststream.storage.registry import normalize, storage_of

    try:
        home = normalize(home)
        storage = storage_of(home)
        storage.prepare_home(home)
        keeps = storage.keeps_versions(home)
    except PstError as error:
        return Check("bucket", False, error.args[0], error.hint)
    kept = "may keep (s3:GetBucketVersioning is not granted)" if keeps is None else "keeps" if keeps else "keeps no"
    return Check("bucket", True, f"conditional writes hold; it {kept} older versions, which erase does not reach")


def check_disk(home: str) -> Check:
    """Check that there is free space for tables, shuffles and compiled kernels."""
    local = [] if "://" in home else [Path(home).absolute()]
    folders = [_existing(folder) for folder in [*local, Path(tempfile.gettempdir())]]
    free, folder = min((shutil.disk_usage(folder).free, str(folder)) for folder in folders)
    ok = free >= MIN_FREE_BYTES
    remedy = "" if ok else "free some space, or set PSTSTREAM_HOME and TMPDIR to folders on a larger disk"
    return Check("disk", ok, f"{free / 1024**3:.1f} GiB free in {folder}", remedy)
