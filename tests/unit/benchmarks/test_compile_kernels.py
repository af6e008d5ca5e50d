"""`make setup` runs each kernel that batches with answers and questions call, so that no later process compiles it."""

import json
import subprocess
import sys

import pytest

from tests.command_process import ROOT

SCRIPT = """
import json
import sys
from numba.core.dispatcher import Dispatcher
from pststream.cli.compile_kernels import run_answer_kernels

run_answer_kernels()
called, missing = set(), set()
for name, module in list(sys.modules.items()):
    if name.startswith("pststream.") and not name.startswith("pststream.kernels."):
        for value in vars(module).values():
            if isinstance(value, Dispatcher):
                kernel = f"{value.py_func.__module__}.{value.py_func.__name__}".removeprefix("pststream.kernels.")
                (called if value.signatures else missing).add(kernel)
print(json.dumps([sorted(called), sorted(missing)]))
"""
PACKAGES = ("answers.", "scored.", "questions.", "region_counts.")
RARE = {
    "answers.object_numbers.copy_entries", "answers.object_numbers.mark_used", "questions.count_terms.count_objects",
    "questions.frequent_terms.cells_with_rows", "questions.listed_counts.count_unlisted",
    "questions.merge_counts.find_ids", "questions.rows_in_regions.mark_rows", "questions.windows.greatest_time",
    "questions.windows.keys_at",
    "region_counts.group_tables.count_in_tables", "region_counts.group_tables.greatest_of_tables",
}  # fmt: skip
"""Kernels that only large homes, files of questions or another setting need."""


@pytest.mark.slow
def test_kernels_of_answers_and_questions_are_run() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr[-3000:]
    called, missing = json.loads(done.stdout.splitlines()[-1])
    assert {name for name in missing if name.startswith(PACKAGES)} <= RARE
    assert len([name for name in called if name.startswith(PACKAGES)]) > 40
