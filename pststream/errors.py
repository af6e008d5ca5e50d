"""Errors with fields, an exit code, and a word on what to do next."""

from pststream.escape_text import escape_controls


class PstError(Exception):
    """Base of all errors that a user should read; `exit_code` is that of the command."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  {self.hint}" if self.hint else message


class RetryableError(PstError):
    """Failed, and may be run again as it is."""


class HomeBusy(RetryableError):
    """Another process holds the home; nothing was changed."""

    def __init__(self, home: str, holder: str) -> None:
        super().__init__(f"home {home}: is in use by {holder}", "wait until it ends, then run this again")
        self.home = home
        self.holder = holder


class RunnerBusy(HomeBusy):
    """Another runner takes in what lands for this home; nothing was changed."""

    def __init__(self, home: str, holder: str) -> None:
        super().__init__(home, holder)
        self.hint = "one runner at a time takes in what lands: leave it to that one, or end it first"


class UsageError(PstError):
    """Arguments that make no sense; nothing was changed."""

    exit_code = 2


class SettingError(PstError):
    """A setting that cannot be used; nothing was changed."""

    exit_code = 2

    def __init__(self, name: str, reason: str, hint: str = "") -> None:
        super().__init__(f"setting {name}: {reason}", hint)
        self.name = name
        self.reason = reason


class HomeError(PstError):
    """A home that is missing, half-written, in use, or made by another version; nothing was changed."""

    exit_code = 2

    def __init__(self, home: str, reason: str, hint: str = "") -> None:
        super().__init__(f"home {home}: {reason}", hint)
        self.home = home
        self.reason = reason


class InputFileError(PstError):
    """A file that cannot be read as what it was offered as; nothing was changed."""

    exit_code = 2

    def __init__(self, path: str, reason: str, hint: str = "") -> None:
        super().__init__(f"{escape_controls(path)}: {reason}", hint)
        self.path = path
        self.reason = reason
