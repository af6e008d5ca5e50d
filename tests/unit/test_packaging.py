"""The wheel has every data file; the dependencies are those of requirements.in; few packages are loaded."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from pststream.base.optional_packages import MissingExtra, hidden_packages, needs_extra

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TOOLS_OF_EXTRAS = "pyspark delta py4j airflow great_expectations boto3 botocore openlineage duckdb mtkahypar".split()

IMPORT_ALL = """
import importlib, pkgutil, sys
from importlib.abc import MetaPathFinder

class Refusing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Refusing())
import pststream
for module in pkgutil.walk_packages(pststream.__path__, "pststream."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        print(module.name, error.name.split(".")[0])
"""


def names_in_wheel(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as wheel:
        return {name for name in wheel.namelist() if ".dist-info/" not in name}


def test_the_wheel_has_every_file_of_the_packages(tmp_path: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "pststream", "jobs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    source = tmp_path / "source"  # a build writes into its source folder
    for name in (*wanted, "pyproject.toml", "README.md"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(tmp_path), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert names_in_wheel(wheel) == wanted


def test_base_and_extras_are_what_is_locked() -> None:
    lines = (ROOT / "requirements.in").read_text("utf-8").splitlines()
    locked = [line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()]
    extras = [package for packages in PROJECT["optional-dependencies"].values() for package in packages]
    assert sorted([*PROJECT["dependencies"], *extras]) == sorted(locked)


def test_only_these_modules_need_an_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, ",".join(TOOLS_OF_EXTRAS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = set(done.stdout.splitlines())
    of_airflow = {line for line in lines if line.startswith("pststream.airflow.")}
    assert {line.rpartition(" ")[2] for line in of_airflow} == {"airflow"}
    assert lines - of_airflow == {
        "pststream.base.lineage_events openlineage",
        "pststream.planning.planners.hypergraph mtkahypar",
        "pststream.engine.worker_daemon pyspark",
        "pststream.storage.aws boto3",
        "pststream.storage.s3 boto3",
    }


def test_a_missing_package_names_its_extra() -> None:
    message = r"(?s)nothing_of_this_name is not installed.*'pststream\[spark\]'"
    with pytest.raises(MissingExtra, match=message), needs_extra("spark"):
        import nothing_of_this_name  # type: ignore[import-not-found]  # noqa: F401


HEAVY = ("pandas", "scipy.linalg", "cffi", "pyspark", "great_expectations", "jinja2", "boto3", "airflow")

LOADED = """
import sys
import pststream.cli.main
from pststream.kernels.parsing.texts import hash_texts
import numpy as np
hash_texts(np.array([0, 1], np.int64), np.array([65], np.uint8))
import pststream.pipeline.ingest.ingest, pststream.pipeline.batch.micro_batch
print(*sys.modules)
"""


def test_hidden_packages_cannot_be_imported_within_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with pytest.raises(ImportError), hidden_packages("colorsys"):
        import colorsys  # noqa: F401
    import colorsys as shown

    assert shown.rgb_to_hsv(0, 0, 0) == (0, 0, 0)


def test_commands_of_a_small_stream_load_no_heavy_package() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert set(HEAVY) & set(done.stdout.split()) == set()


def test_pandas_is_still_there_for_those_who_convert_tables() -> None:
    code = "import pststream.cli, pyarrow as pa; print(pa.table({'a': [1]}).to_pandas()['a'].sum(), end='')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1"


def test_linear_algebra_in_other_kernels_still_works() -> None:
    code = (
        "import pststream.kernels.compile, numba, numpy as np\n"
        "f = numba.njit(lambda a: a @ a)\n"
        "print(f(np.eye(2)).sum(), end='')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "2.0"
