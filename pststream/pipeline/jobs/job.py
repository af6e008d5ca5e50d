"""Run a function as a job: parse the arguments, load the settings, write the outcome for the DAG that submitted it.

spark-submit returns only an exit code to its caller, and Airflow's operator not even that. The result file contains
the name of the command that does the same, the exit code, the error, and what the function returned:

    {"command": "match", "exit_code": 0, "error": null, "result": {"batches": [...]}}

If the job failed, `kind` is the class name of the error. It is null if the function found something wrong and returned
its document all the same; the error then is what it logged last.
"""

import argparse
import json
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from pststream.base.errors import PstError, UsageError, shorten_error
from pststream.base.progress import CountMessage
from pststream.base.stderr_log import StderrLog
from pststream.base.texts import mask_urls
from pststream.engine.spark_session import under_spark_submit
from pststream.state.home import Home
from pststream.storage.registry import file_at

SUBMITTERS = "PSTSTREAM_SUBMITTERS"
SECONDS = 1.0
EXIT_CODE = 1


def end_with_submitter() -> None:
    """End this job when the process that submitted it is gone, so that none still writes during a retry.

    If Airflow's task is killed with SIGKILL, spark-submit does not notice: the JVM and its Python process would
    continue while the scheduler starts the next try. `SparkJob` puts the ids of its process and of the parent process
    into SUBMITTERS; a thread watches them, and the JVM if spark-submit started this process. Without the variable
    nothing is watched.
    """
    submitters = [int(word) for word in os.environ.get(SUBMITTERS, "").split(",") if word.isdigit()]
    if submitters:
        jvm = os.getppid() if under_spark_submit() else None
        threading.Thread(target=_watch, args=(submitters, jvm), daemon=True, name="submitter-watch").start()


def is_alive(process: int) -> bool:
    """Whether a process with this id runs; a zombie does not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return sys.platform != "linux"
    return state not in "ZX"


def _watch(submitters: list[int], jvm: int | None) -> None:
    while all(map(is_alive, submitters)) and (jvm is None or os.getppid() == jvm):
        time.sleep(SECONDS)
    sys.stderr.write("the process that submitted this job is gone; the job ends\n")
    if jvm is not None and os.getppid() == jvm:
        os.kill(jvm, signal.SIGKILL)
    os._exit(EXIT_CODE)


DONE, FAILED, DONE_WITH_REJECTS = 0, 1, 3
EMPTY_ARGUMENT = re.compile(r"(--[a-z][a-z-]*=)?")
ERROR_LINES = 20
"""Lines of the log in the error of a job that failed without raising one."""

Outcome = dict[str, Any]


class Argument(NamedTuple):
    """An argument as `ArgumentParser.add_argument` takes it; `is_setting`: it overrides the setting of its name."""

    words: Sequence[str]
    options: dict[str, Any]
    is_setting: bool = False


def argument(*words: str, **options: Any) -> Argument:
    """Return an argument that the function of the job gets by its name."""
    return Argument(words, options)


def setting(option: str, name: str) -> Argument:
    """Return an option that overrides a setting."""
    return Argument([option], {"dest": name}, is_setting=True)


class Job:
    """The program of a job. Calling it parses the arguments, runs the job and returns the exit code.

    command    the command that does the same; the lines of the log name it
    usage      the docstring of the program
    work       called with the home, the settings, `progress` and the arguments by name; returns a JSON document
    arguments  besides `--home` and `--result`
    unclean    whether a document has rejects; the job then has `--strict`, with which they make the exit code 3
    failed     whether a document says that something is wrong; the exit code is 1 then
    can_abort  `work` also gets `abort`, which ends the process at once, with an error as its outcome
    """

    def __init__(
        self,
        command: str,
        usage: str | None,
        work: Callable[..., Any],
        *arguments: Argument,
        unclean: Callable[[Any], bool] | None = None,
        failed: Callable[[Any], bool] | None = None,
        can_abort: bool = False,
    ) -> None:
        self._command, self._work, self._unclean, self._failed = command, work, unclean, failed
        self._can_abort = can_abort
        self._parser = _Parser(
            parents=[_RESULT],
            description=usage,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._parser.add_argument("--home", default=os.environ.get("PSTSTREAM_HOME") or "pststream-home")
        if unclean:
            self._parser.add_argument("--strict", action="store_true", help="end with 3 if rows are rejected")
        added = [(self._parser.add_argument(*one.words, **one.options).dest, one.is_setting) for one in arguments]
        self._settings = {name for name, is_setting in added if is_setting}

    def __call__(self, words: Sequence[str] | None = None) -> int:
        """Run the job with these arguments, or those of the process; return the exit code."""
        end_with_submitter()
        words = drop_empty(sys.argv[1:] if words is None else words)
        result = _RESULT.parse_known_args(words)[0].result
        return report(result, self._run(words, result))

    def _run(self, words: Sequence[str], result: str | None) -> Outcome:
        """Run the job; return the outcome."""
        log, last = StderrLog(self._command, quiet=False), deque[str](maxlen=ERROR_LINES)

        def progress(message: str) -> None:
            if not isinstance(message, CountMessage):
                last.append(message)
            log.log_progress(message)

        def abort(error: Exception) -> NoReturn:
            os._exit(report(result, self._error(error)))

        try:
            given = vars(self._parser.parse_args(words))
            home, strict = Home(given.pop("home")), given.pop("strict", False)
            settings = home.load_settings(**{name: given.pop(name) for name in self._settings})
            given |= {"abort": abort} if self._can_abort else {}
            del given["result"]
            document = self._work(home, settings, progress=progress, **given)
        except (Exception, KeyboardInterrupt) as error:
            return self._error(error)
        finally:
            log.end_count()
        if self._failed and self._failed(document):
            text = "\n".join(last) or f"pststream {self._command} ended with {FAILED}"
            return self._outcome(FAILED, error=text, kind=None, result=document)
        unclean = strict and self._unclean is not None and self._unclean(document)
        return self._outcome(DONE_WITH_REJECTS if unclean else DONE, error=None, result=document)

    def _error(self, error: BaseException) -> Outcome:
        """Return the outcome of an error, and print the traceback of one that is not for users."""
        if isinstance(error, PstError):
            code, text = error.exit_code, str(error)
        else:
            sys.stderr.write(mask_urls("".join(traceback.format_exception(error))))
            code, text = FAILED, shorten_error(error)
        return self._outcome(code, error=text, kind=type(error).__name__, result=None)

    def _outcome(self, code: int, **fields: Any) -> Outcome:
        return {"command": self._command, "exit_code": code, **fields}


class _Parser(argparse.ArgumentParser):
    """A parser that raises UsageError where argparse would exit."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with `message`, which says what is wrong with the arguments."""
        raise UsageError(message, self.format_usage().strip())


_RESULT = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
_RESULT.add_argument("--result", help="file for the outcome, JSON, also s3://…")


def drop_empty(words: Sequence[str]) -> list[str]:
    """Drop `--option=` and empty words, which a DAG's template yields for empty fields of its form."""
    return [word for word in words if not EMPTY_ARGUMENT.fullmatch(word)]


def report(address: str | None, outcome: Outcome) -> int:
    """Print the outcome, write it to a file atomically, and return its exit code.

    address: a local path, or `s3://bucket/name`
    """
    text = json.dumps(outcome, indent=1, default=str)
    sys.stdout.write(text + "\n")
    if address is not None:
        files, name = file_at(address)
        files.write(name, text.encode())
    return int(outcome["exit_code"])
