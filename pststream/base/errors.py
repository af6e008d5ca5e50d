"""Define the errors that users read: a message with fields, a hint on what to do next, an exit code."""

import errno
import os
import re

from pststream.base.texts import escape_controls, mask_urls

_JAVA_FRAME = re.compile(r"\s+(at \S+\(|\.\.\. \d+ more)|Driver stacktrace:")


def shorten_error(error: BaseException, count: int = 12) -> str:
    """Return the type of an unexpected error, and its first and last lines, without the JVM's stack, with masked URLs.

    Spark puts a task's own error last.
    """
    lines = [line for line in mask_urls(str(error)).splitlines() if line.strip() and not _JAVA_FRAME.match(line)]
    if len(lines) > count:
        lines = [*lines[: count // 2], "…", *lines[-(count // 2) :]]
    return f"{type(error).__name__}: " + "\n  ".join(lines)


class PstError(Exception):
    """Base of all errors that a user should read; the command exits with `exit_code`."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  {self.hint}" if self.hint else message


class RetryableError(PstError):
    """A failure after which the same command can be run again unchanged."""


PASSING = frozenset(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "ESTALE", "EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "ETIMEDOUT")
)
"""Numbers of system errors that say nothing about the content of a file, and may pass."""


NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Those of PASSING that say that a disk has no room for what is written."""


class PassingError(RetryableError):
    """A system error of PASSING, such as a full disk: the file that was to be read or written may be sound."""

    def __init__(self, path: str, number: int) -> None:
        hint = "run this again when there is room, or when the disk answers"
        super().__init__(f"{escape_controls(path)}: {os.strerror(number)}", hint)
        self.path = path
        self.number = number

    def __reduce__(self) -> tuple[type["PassingError"], tuple[str, int]]:
        return PassingError, (self.path, self.number)


def passing_number(error: BaseException) -> int:
    """Return the number of a system error that may pass; 0 for any other error."""
    number = error.errno if isinstance(error, OSError) else None
    return number if number in PASSING and number is not None else 0


class HomeBusy(RetryableError):
    """Another process has locked the home; nothing was changed."""

    advice = "wait until it ends, then run this again"

    def __init__(self, home: str, holder: str) -> None:
        super().__init__(f"home {home}: is in use by {holder}", self.advice)
        self.home = home
        self.holder = holder


class RunnerBusy(HomeBusy):
    """Another process runs the landing folder of this home; nothing was changed."""

    advice = "one `pststream run` at a time per home: wait for it, or stop it first"


class SinkBusy(HomeBusy):
    """A delivery does not end that has to, before messages are removed; nothing was changed."""

    advice = (
        "a delivery to a sink did not end within a minute: wait for it, or stop that process (a watcher ends in"
        " order on SIGTERM), then run this again; `pststream status` shows which sink is slow or stuck"
    )


class QuestionsBusy(HomeBusy):
    """Another process answers files of questions of this home; nothing was changed."""

    advice = "files of questions are being answered: wait until they are, then run this again"


class PairsBusy(HomeBusy):
    """Another process writes to the table of pairs of this home; nothing was changed."""

    advice = "`pststream pairs` or upkeep writes to the table of pairs: wait until it ends, then run this again"


class WorkWaits(RetryableError):
    """There is work for a job that was to run only without; nothing was changed."""


class UsageError(PstError):
    """Invalid arguments; nothing was changed."""

    exit_code = 2


class SettingError(PstError):
    """An invalid setting; nothing was changed."""

    exit_code = 2

    def __init__(self, name: str, reason: str, hint: str = "") -> None:
        super().__init__(f"setting {name}: {reason}", hint)
        self.name = name
        self.reason = reason


class HomeError(PstError):
    """A home that is missing, damaged, incomplete or of another version; nothing was changed. HomeBusy: one in use."""

    exit_code = 2

    def __init__(self, home: str, reason: str, hint: str = "") -> None:
        super().__init__(f"home {home}: {reason}", hint)
        self.home = home
        self.reason = reason


class InputFileError(PstError):
    """A file that cannot be read in the given format; nothing was changed."""

    exit_code = 2

    def __init__(self, path: str, reason: str, hint: str = "") -> None:
        super().__init__(f"{escape_controls(path)}: {reason}", hint)
        self.path = path
        self.reason = reason


class SuiteError(PstError):
    """A suite of expectations that cannot be used; nothing was changed.

    path         address of the file
    expectation  the expectation at fault, empty if it is the file
    """

    exit_code = 2

    def __init__(self, path: str, expectation: str, reason: str, hint: str = "") -> None:
        of = f"{expectation}: " if expectation else ""
        super().__init__(escape_controls(f"{path}: {of}{reason}"), hint)
        self.path = path
        self.expectation = expectation
        self.reason = reason
