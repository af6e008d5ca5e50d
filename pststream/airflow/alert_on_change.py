"""Alert when a check of a home begins to fail and when it passes again, not at every run; the home stores the state."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from pststream.airflow.runners.aws_connection import aws_environment
from pststream.airflow.runners.engine_choice import home_of, read_file
from pststream.airflow.runners.file_names import file_name
from pststream.utc_times import iso, utc_now

if TYPE_CHECKING:
    from pststream.airflow.dag_options import DagOptions

FAILING, PASSING = "failing", "passing"
FOLDER = "health"
"""Folder of a home with a file for each check: {"state", "since", "why"}, written when the state changes."""

MARK = "home.json"
"""File of each home; without it nothing is stored, and a check that fails alerts at every run."""

log = logging.getLogger(__name__)


class AlertOnChange:
    """The callbacks of a task that runs in every run of its DAG, such as a check of `health`.

    The state is stored after the alert is sent. If a callback raises, or the state cannot be read or stored, the next
    run sends the alert again: an alert may come twice, and is never lost.
    """

    def __init__(self, options: "DagOptions") -> None:
        self._options = options

    @property
    def callbacks(self) -> dict[str, list[Callable[[Any], Any]]]:
        """The arguments of the tasks."""
        return {"on_failure_callback": [self.report_failure], "on_success_callback": [self.report_success]}

    def report_failure(self, context: Context) -> None:
        """Send an alert unless the last run failed too."""
        before = self._read_state(context)
        if before.get("state") == FAILING:
            log.info("failing since %s; the alert was sent then", before.get("since"))
        elif _send(context, [self._options.alerts.report_failure, *self._options.callbacks_on_failure]):
            error = context.get("exception")
            self._write_state(context, FAILING, f"{type(error).__name__}: {error}")

    def report_success(self, context: Context) -> None:
        """Send a message if the last run failed."""
        before = self._read_state(context)
        if before.get("state") != FAILING:
            return
        context.update({"failed_since": before.get("since"), "failed_why": before.get("why")})
        if _send(context, [self._options.alerts.report_recovery, *self._options.callbacks_on_recovery]):
            self._write_state(context, PASSING, None)

    def _read_state(self, context: Context) -> dict[str, Any]:
        """Return the stored state; empty if there is none, or none that can be read."""
        try:
            with self._home(context) as home:
                state = json.loads(read_file(home, _state_file(context)))
        except FileNotFoundError:
            return {}
        except Exception as error:
            log.warning("the stored state cannot be read: %s: %s", type(error).__name__, error)
            return {}
        return state if isinstance(state, dict) else {}

    def _write_state(self, context: Context, state: str, why: str | None) -> None:
        from pststream.storage.registry import files_at, normalize  # slow to import, and few runs come here

        content = {"state": state, "since": iso(utc_now(), "seconds"), "why": why}
        try:
            with self._home(context) as home:
                files = files_at(normalize(home))
                if files.exists(MARK):
                    files.write(_state_file(context), (json.dumps(content, indent=1) + "\n").encode())
        except Exception as error:
            log.warning("the state cannot be stored: %s: %s", type(error).__name__, error)

    @contextmanager
    def _home(self, context: Context) -> Iterator[str]:
        """Return the home of a run, whose files can be read and written during this block."""
        with aws_environment(self._options.aws_conn_id):
            yield home_of([context["task"].render_template(self._options.home_argument, context)])


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


def _state_file(context: Context) -> str:
    task = context["ti"]
    return f"{FOLDER}/{file_name(f'{task.dag_id}.{task.task_id}')}.json"
