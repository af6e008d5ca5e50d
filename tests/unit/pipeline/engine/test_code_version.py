"""Nodes that run other code than the driver are found out, and named."""

import pytest

from pststream.errors import RetryableError
from pststream.pipeline.engine import code_version


def test_the_same_code_passes() -> None:
    code_version.check(code_version.code())
    code_version.check("")


def test_another_code_is_told_with_its_node() -> None:
    with pytest.raises(RuntimeError) as failed:
        code_version.check("that of the driver")
    with pytest.raises(RetryableError, match=r"node \S+ runs other code than the driver\n.*the same image"):
        code_version.explain(Exception(f"Job aborted:\nTraceback\nRuntimeError: {failed.value}\n\n\tat org.apache"))


def test_other_errors_are_left_alone() -> None:
    code_version.explain(ValueError("no such file"))
