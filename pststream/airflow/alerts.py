"""Report a failed task, and a check that passes again: in the log, and to the URL of a connection if there is one.

The message says what failed, why, and what to do. Notifiers of `DagOptions` find it in the context as `alert`.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from airflow.sdk import BaseHook, Context
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from pststream.airflow.runners.allowed_places import admit
from pststream.airflow.runners.engine_choice import file_name, read_file
from pststream.airflow.runners.run_environment import run_environment
from pststream.base import names
from pststream.base.texts import mask_urls
from pststream.base.utc_times import iso, utc_now

if TYPE_CHECKING:
    from pststream.airflow.dag_options import DagOptions

log = logging.getLogger("pststream.alerts")

REMEDIES = {
    "JobRefused": "Correct what the message names, then clear the task or trigger the DAG again. Nothing was changed.",
    "JobFailed": "Clear the task to run it again: the job is idempotent. If it fails again, run `pststream doctor`.",
    "JobLost": "Check for the kernel's out-of-memory killer and a full disk; raise PSTSTREAM_SPARK_DRIVER_MEMORY or "
    "add memory, then clear the task. `pststream doctor` checks the installation.",
    "RowsRejected": "See `pststream rejects`. Accepted rows were matched and stay; a corrected file can be landed.",
    "WatcherDown": "Correct what its error names, and start it: `pststream run LANDING --watch`. It continues where it "
    "stopped. Meanwhile the DAG `micro_batch` can ingest and match.",
    "Lagging": "Read the watcher's log, or the runs of `micro_batch`. If each batch takes long, `pststream status` "
    "shows the seconds of its steps; add cores, or balance the load (`adjust_load`, `repartition`).",
    "OutOfBalance": "See whether the runs of `adjust_load` fail or wait for approval. If they find nothing to move, "
    "trigger `repartition`, with more workers if one raster cell has most of the load.",
    "TooManyRejects": "See `pststream rejects`: file, row, field, reason. Accepted rows were matched and stay; a "
    "corrected file can be landed.",
    "WatermarkAhead": "Correct the clock of the producer. `pststream withdraw --from TIME --dry-run` shows the objects "
    "that are ahead and what they have caused; without --dry-run it withdraws them.",
    "FilesQuarantined": "See the reasons in `pststream quarantine list`; release or discard the files with the DAG "
    "`quarantine`.",
    "SinkDead": "Repair the sink: nothing is lost, and delivery continues where it stopped. Dead letters: "
    "`pststream dead-letters list`, then `replay`.",
}
DEFAULT_REMEDY = "Read the task's log above, then clear the task: the job is idempotent."

POST_SECONDS = 10.0
"""Limit of the time that a receiver of alerts may take."""


@dataclass(frozen=True)
class Alerts:
    """Logs alerts and recoveries, and posts them as JSON to a URL: {"text", "state", "dag_id", "task_id", "run_id"}.

    conn_id  a connection whose extra is {"url": "https://..."}; without the connection they are only logged
    """

    conn_id: str

    def report_failure(self, context: Context) -> None:
        """Report a task that has failed its last try; the callback of all tasks."""
        self._report(logging.ERROR, "failed", failure_message(context), context)

    def report_recovery(self, context: Context) -> None:
        """Report what passes again; `failed_since` and `failed_why` in the context say what was wrong."""
        self._report(logging.INFO, "recovered", recovery_message(context), context)

    def _report(self, level: int, state: str, message: str, context: Context) -> None:
        context["alert"] = message
        log.log(level, message)
        if (url := self._url()) is not None:
            task = context["ti"]
            where = {"dag_id": task.dag_id, "task_id": task.task_id, "run_id": task.run_id}
            content = json.dumps({"text": message, "state": state, **where}).encode()
            with urlopen(Request(url, content, {"Content-Type": "application/json"}), timeout=POST_SECONDS):
                pass

    def _url(self) -> str | None:
        """Return the URL of the connection, masked in logs; None without the connection."""
        try:
            url = BaseHook.get_connection(self.conn_id).extra_dejson.get("url", "")
        except AirflowNotFoundException:
            return None
        mask_secret(url)
        if not url.startswith(("http://", "https://")):
            raise ValueError(f'connection {self.conn_id}: the extra is not {{"url": "https://..."}}')
        return str(url)


def recovery_message(context: Context) -> str:
    """Return what passes again, since when it had failed, and why, in a line each."""
    task = context["ti"]
    return "\n".join(
        [
            f"RECOVERED: {task.dag_id}.{task.task_id}, run {task.run_id}",
            *([f"what:      {context['alert_subjects']}"] if context.get("alert_subjects") else []),
            f"failed:    since {context.get('failed_since')}",
            f"why:       {context.get('failed_why')}",
        ]
    )


def failure_message(context: Context) -> str:
    """Return what failed, what of it is new if the check has parts, why, what to do and where the log is."""
    task = context["ti"]
    error = context.get("exception")
    kind = type(error).__name__ if error is not None else "unknown error"
    return "\n".join(
        [
            f"FAILED: {task.dag_id}.{task.task_id}, run {task.run_id}, try {task.try_number}",
            *([f"new:    {context['alert_subjects']}"] if context.get("alert_subjects") else []),
            f"why:    {kind}: {mask_urls(str(error))}",
            f"remedy: {REMEDIES.get(kind, DEFAULT_REMEDY)}",
            f"log:    {getattr(task, 'log_url', '')}",
        ]
    )


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

change_log = logging.getLogger(__name__)


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
            change_log.info("failed in the last run too, and the alert was sent then: %s", whys)
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
            change_log.warning("the stored state cannot be read: %s: %s", type(error).__name__, mask_urls(str(error)))
            return {}

    def _write_failing(self, context: Context, failing: Faults) -> None:
        from pststream.storage.registry import files_at, normalize  # slow to import, and few runs come here

        content: dict[str, Any] = {"state": "passing", "since": iso(utc_now(), "seconds"), "why": None}
        content |= {"failing": failing}
        if failing:
            content |= {"state": "failing", **min(failing.values(), key=lambda fault: fault["since"])}
        try:
            with self._home(context) as home:
                files = files_at(normalize(home))
                # Without a home nothing can be stored, and a check that fails alerts at every run.
                if files.exists(names.HOME_MARK):
                    files.write(_state_file(context), (json.dumps(content, indent=1) + "\n").encode())
        except Exception as error:
            change_log.warning("the state cannot be stored: %s: %s", type(error).__name__, mask_urls(str(error)))

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
            change_log.exception("the alert was not sent; the next run tries again")
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
