"""Parse the command line, run the command, print its result as text or JSON, and return its exit code.

0 done; 1 failed, can be run again unchanged; 2 bad usage, setting or input file (nothing was changed); 3 done, with
rejected rows or quarantined files, under --strict only.
"""

import gc
import json
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from pststream.base.errors import PstError, UsageError, shorten_error
from pststream.base.stderr_log import StderrLog
from pststream.cli.arguments import build_parser
from pststream.cli.command import BAD_USAGE, DONE, FAILED, CommandContext, CommandResult
from pststream.engine.spark_server import log_folder, log_to_folder
from pststream.engine.spark_session import stop_spark
from pststream.settings import Settings
from pststream.state.home import Home


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    given = sys.argv[1:] if argv is None else argv
    try:
        arguments = build_parser().parse_args(given)
    except SystemExit:  # after --help or --version
        return DONE
    except UsageError as error:
        asked = Namespace(json="--json" in given, command_name="", quiet=False)
        return _fail(asked, str(error), BAD_USAGE, type(error).__name__)
    try:
        result = _run(arguments)
        print(json.dumps(result.document, default=str) if arguments.json else result.text, flush=True)
    except PstError as error:
        return _fail(arguments, str(error), error.exit_code, type(error).__name__)
    except KeyboardInterrupt:
        return _fail(arguments, "interrupted; run the same command again to continue", FAILED, "Interrupted")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        if os.environ.get("PSTSTREAM_TRACEBACK"):
            raise
        hint = "run it again; with PSTSTREAM_TRACEBACK=1 it prints the traceback"
        return _fail(arguments, f"{shorten_error(error)}\n  {hint}", FAILED, type(error).__name__)
    return result.code


def entry() -> None:
    """Run the console script: run the command, stop Spark, exit.

    The garbage collector runs seldom and skips the loaded modules: with Python's defaults it takes a tenth of the time
    of a small `match`, almost all of it in modules.

    Exits without the interpreter's shutdown, in which Arrow's idle threads sometimes abort the process after the work
    is done and committed.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    code = main()
    stop_spark()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(arguments: Any) -> CommandResult:
    home = Home(arguments.home or os.environ.get("PSTSTREAM_HOME") or "pststream-home")
    if not arguments.verbose:
        log_to_folder(home)
    options = ("planner", "planner_options", "workers", "timezone", "sigma", "repartition_gain", "keep")
    changes = {name: getattr(arguments, name, None) for name in options}
    settings = home.load_settings(**changes) if arguments.needs_settings else Settings()
    log = _log(arguments)
    try:
        result: CommandResult = arguments.run_command(CommandContext(home, settings, log.log_progress), arguments)
    finally:
        log.end_count()
    return result


def _fail(arguments: Any, message: str, code: int, kind: str) -> int:
    if code == FAILED and (folder := log_folder()) is not None:
        message += f"\n  the log of Spark is in {folder}"
    if arguments.json:
        print(json.dumps({"error": message, "kind": kind, "exit_code": code}))
    _log(arguments).log_error(message)
    return code


def _log(arguments: Any) -> StderrLog:
    return StderrLog(arguments.command_name, arguments.quiet)


if __name__ == "__main__":
    entry()
