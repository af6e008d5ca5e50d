"""Alert when a check of a home, or a part of it, begins to fail and passes again, not at every run."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from pststream.airflow.runners.allowed_places import admit
from pststream.airflow.runners.engine_choice import read_file
from pststream.airflow.runners.file_names import file_name
from pststream.airflow.runners.run_environment import run_environment
from pststream.base import names
from pststream.base.mask_urls import mask_urls
from pststream.base.utc_times import iso, utc_now

if TYPE_CHECKING:
    from pststream.airflow.dag_options import DagOptions

FAILING, PASSING = "failing", "passing"
FOLDER = "health"
"""Folder of a home with a file for each check, written when its state changes: {"state", "since", "why", "failing"}.

`failing` has what fails, by name; `since` and `why` are those of the oldest of it.
"""

TASK = ""
"""Name of what fails if the error has no parts."""

SHOWN = 10
"""Parts that a message lists."""

Faults = dict[str, dict[str, Any]]
"""What fails: {"since", "why"} by name."""

log = logging.getLogger(__name__)


class AlertOnChange:
    """The callbacks of a task that runs in every run of its DAG, such as a check of `health`.

    An error with `problems` fails for each of its parts, such as sinks; any other error fails for the task. A run sends
    at most one alert, of all that begins to fail, and one message, of all that passes again. The state is stored after
    the message is sent. If a callback raises, or the state cannot be read or stored, the next run sends the message
    again: it may come twice, and is never lost.
    """

    def __init__(self, options: "DagOptions") -> None:
        self._options = options

    @property
    def callbacks(self) -> dict[str, list[Callable[[Any], Any]]]:
        """The arguments of the tasks."""
        return {"on_failure_callback": [self.report_failure], "on_success_callback": [self.report_success]}

    def report_failure(self, context: Context) -> None:
        """Send an alert of what did not fail in the last run, and a message of what fails no more."""
        error = context.get("exception")
        parts = getattr(error, "problems", None)
        problems = parts or {TASK: str(error)}
        before = self._read_failing(context)
        begun = {name: _fault(error, text) for name, text in problems.items() if name not in before}
        passed = {name: fault for name, fault in before.items() if parts and name not in parts}
        if not begun:
            whys = _listed(fault["why"] for fault in before.values())
            log.info("failed in the last run too, and the alert was sent then: %s", whys)
        self._report(context, before, begun, passed)

    def report_success(self, context: Context) -> None:
        """Send a message if the last run failed."""
        before = self._read_failing(context)
        self._report(context, before, {}, before)

    def _report(self, context: Context, before: Faults, begun: Faults, passed: Faults) -> None:
        """Send what changed, and store of it what was sent."""
        options, after = self._options, dict(before)
        if begun:
            context.update({"alert_subjects": _listed(begun)})
            if _send(context, [options.alerts.report_failure, *options.callbacks_on_failure]):
                after |= begun
        if passed:
            why = _listed(fault["why"] for fault in passed.values())
            since = min(fault["since"] for fault in passed.values())
            context.update({"alert_subjects": _listed(passed), "failed_since": since, "failed_why": why})
            if _send(context, [options.alerts.report_recovery, *options.callbacks_on_recovery]):
                after = {name: fault for name, fault in after.items() if name not in passed}
        if after != before:
            self._write_failing(context, after)

    def _read_failing(self, context: Context) -> Faults:
        """Return what failed in the last run; empty if that is not stored, or cannot be read."""
        try:
            with self._home(context) as home:
                failing = json.loads(read_file(home, _state_file(context)))["failing"]
                return {
                    name: {"since": str(fault["since"]), "why": str(fault["why"])} for name, fault in failing.items()
                }
        except FileNotFoundError:
            return {}
        except Exception as error:
            log.warning("the stored state cannot be read: %s: %s", type(error).__name__, mask_urls(str(error)))
            return {}

    def _write_failing(self, context: Context, failing: Faults) -> None:
        from pststream.storage.registry import files_at, normalize  # slow to import, and few runs come here

        content: dict[str, Any] = {
            "state": PASSING,
            "since": iso(utc_now(), "seconds"),
            "why": None,
            "failing": failing,
        }
        if failing:
            content |= {"state": FAILING, **min(failing.values(), key=lambda fault: fault["since"])}
        try:
            with self._home(context) as home:
                files = files_at(normalize(home))
                # Without a home nothing can be stored, and a check that fails alerts at every run.
                if files.exists(names.HOME_MARK):
                    files.write(_state_file(context), (json.dumps(content, indent=1) + "\n").encode())
        except Exception as error:
            log.warning("the state cannot be stored: %s: %s", type(error).__name__, mask_urls(str(error)))

    @contextmanager
    def _home(self, context: Context) -> Iterator[str]:
        """Return the home of a run, whose files can be read and written during this block."""
        place = admit(context["task"].render_template(self._options.home_arguments, context))
        with run_environment(place, self._options.aws_conn_id):
            yield place.home


def _send(context: Context, callbacks: Sequence[Callable[[Any], Any]]) -> bool:
    """Call all callbacks; return whether none has raised."""
    sent = True
    for callback in callbacks:
        try:
            callback(context)
        except Exception:
            log.exception("the alert was not sent; the next run tries again")
            sent = False
    return sent


def _fault(error: object, text: str) -> dict[str, Any]:
    return {"since": iso(utc_now(), "seconds"), "why": f"{type(error).__name__}: {mask_urls(text)}"}


def _listed(texts: Iterable[str]) -> str:
    """Return the first texts, without repetitions, and the number of others."""
    distinct = list(dict.fromkeys(filter(None, texts)))
    more = [f"{len(distinct) - SHOWN} more"] if len(distinct) > SHOWN else []
    return "; ".join(distinct[:SHOWN] + more)


def _state_file(context: Context) -> str:
    task = context["ti"]
    return f"{FOLDER}/{file_name(f'{task.dag_id}.{task.task_id}')}.json"
