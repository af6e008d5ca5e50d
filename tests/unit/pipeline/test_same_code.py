"""Nodes that run other code than the driver are found out, and named."""

import pytest

from pststream.errors import RetryableError
from pststream.pipeline import same_code


def test_the_same_code_passes() -> None:
    same_code.check(same_code.code())
    same_code.check("")


def test_another_code_is_told_with_its_node() -> None:
    with pytest.raises(RuntimeError) as failed:
        same_code.check("that of the driver")
    with pytest.raises(RetryableError, match=r"node \S+ runs other code than the driver\n.*the same image"):
        same_code.explain(Exception(f"Job aborted:\nTraceback\nRuntimeError: {failed.value}\n\n\tat org.apache"))


def test_other_errors_are_left_alone() -> None:
    same_code.explain(ValueError("no such file"))
