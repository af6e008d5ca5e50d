"""`make setup` runs each kernel that batches with answers and questions call, so that no later process compiles it."""

import json
import subprocess
import sys

import pytest

from tests.command_process import ROOT

pytestmark = pytest.mark.deep

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
    "answers.buffers.copy_entries", "answers.buffers.mark_used", "questions.build_segment.greatest_time",
    "questions.build_segment.keys_at", "questions.count_terms.count_objects", "questions.count_terms.count_unlisted",
    "questions.count_terms.find_ids", "questions.rows_in_regions.mark_rows",
}  # fmt: skip
"""Kernels that only large homes, files of questions or another setting need."""


def test_kernels_of_answers_and_questions_are_run() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr[-3000:]
    called, missing = json.loads(done.stdout.splitlines()[-1])
    assert {name for name in missing if name.startswith(PACKAGES)} <= RARE
    assert len([name for name in called if name.startswith(PACKAGES)]) > 40
