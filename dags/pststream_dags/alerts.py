"""What happens when a task has failed for good: one clear message. Teams put their pager here."""

import logging

from airflow.sdk import Context

log = logging.getLogger("pststream.alerts")

REMEDIES = {
    "JobRefused": "Mend what the message names, then clear the task or trigger the DAG anew. Nothing was changed.",
    "JobFailed": "Clear the task to run it again: the job is idempotent. If it fails again, run `pststream doctor`.",
    "JobLost": "Look for the kernel's out-of-memory killer and a full disk; raise PSTSTREAM_SPARK_DRIVER_MEMORY or add "
    "memory, then clear the task. `pststream doctor` checks the installation.",
    "RowsRejected": "See `pststream rejects`. Accepted rows were matched and stay; a corrected file can be landed.",
    "WatcherDown": "Start it, or mend what its error names: `pststream run LANDING --watch`. It goes on where it was "
    "left. Meanwhile the DAG `micro_batch` can take in what lands.",
    "Lagging": "Look at the watcher's log, or at the runs of `micro_batch`. If each batch takes long, see the seconds "
    "of its steps in `pststream status`; add cores, or balance the load (`adjust_load`, `repartition`).",
    "OutOfBalance": "Look at the runs of `adjust_load`: do they fail, or wait for approval? If they find nothing to "
    "move, trigger `repartition`, with more workers if one cell has most of the load.",
    "TooManyRejects": "See `pststream rejects`: file, row, field, reason. Accepted rows were matched and stay; a "
    "corrected file can be landed.",
    "FilesHeld": "See `pststream quarantine list` for the reasons; release or discard them with the DAG `quarantine`.",
    "SinkDead": "Mend the sink: nothing is lost, and it is told from where it was left. Dead letters: "
    "`pststream dead-letters list`, then `replay`.",
}
OTHERWISE = "Read the task's log above, then clear the task: the job is idempotent."


def report_failure(context: Context) -> None:
    """Callback of a failed task: what failed, why, what to do, where to look."""
    log.error(failure_message(context))


def failure_message(context: Context) -> str:
    """The message, in four lines."""
    task = context["ti"]
    error = context.get("exception")
    kind = type(error).__name__ if error is not None else "unknown error"
    return "\n".join(
        [
            f"FAILED: {task.dag_id}.{task.task_id}, run {task.run_id}, try {task.try_number}",
            f"why:    {kind}: {error}",
            f"remedy: {REMEDIES.get(kind, OTHERWISE)}",
            f"log:    {getattr(task, 'log_url', '')}",
        ]
    )
