"""Packages are hidden within the block only, and small commands load none of the heavy ones."""

import subprocess
import sys

import pytest

from pststream.base.optional_packages import hidden_packages

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
