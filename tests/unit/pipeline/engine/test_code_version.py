"""The error for a node that runs other code than the driver names the node."""

import pytest

from pststream.base.errors import RetryableError
from pststream.engine import code_version


def test_the_same_code_passes() -> None:
    code_version.check_code_in_task(code_version.code_digest())
    code_version.check_code_in_task("")


def test_the_error_names_the_node_with_other_code() -> None:
    with pytest.raises(RuntimeError) as failed:
        code_version.check_code_in_task("the digest of the driver")
    with pytest.raises(RetryableError, match=r"node \S+ runs other code than the driver\n.*the same image"):
        code_version.explain_if_other_code(
            Exception(f"Job aborted:\nTraceback\nRuntimeError: {failed.value}\n\n\tat org.apache")
        )


def test_other_errors_pass_through() -> None:
    code_version.explain_if_other_code(ValueError("no such file"))
