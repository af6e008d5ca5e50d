"""Report a failed task, and a check that passes again: in the log, and to the URL of a connection if there is one.

The message says what failed, why, and what to do. Notifiers of `DagOptions` find it in the context as `alert`.
"""

import json
import logging
from dataclasses import dataclass
from urllib.request import Request, urlopen

from airflow.sdk import BaseHook, Context
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from pststream.base.mask_urls import mask_urls

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
