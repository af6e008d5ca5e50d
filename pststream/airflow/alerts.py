"""Log one alert when a task has failed its last try: what failed, why, and what to do. Teams call their pager here."""

import logging

from airflow.sdk import Context

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
    "FilesQuarantined": "See the reasons in `pststream quarantine list`; release or discard the files with the DAG "
    "`quarantine`.",
    "SinkDead": "Repair the sink: nothing is lost, and delivery continues where it stopped. Dead letters: "
    "`pststream dead-letters list`, then `replay`.",
}
DEFAULT_REMEDY = "Read the task's log above, then clear the task: the job is idempotent."


def report_failure(context: Context) -> None:
    """Log the message of a failed task; the callback of all tasks."""
    log.error(failure_message(context))


def failure_message(context: Context) -> str:
    """Return what failed, why, what to do and where the log is, in four lines."""
    task = context["ti"]
    error = context.get("exception")
    kind = type(error).__name__ if error is not None else "unknown error"
    return "\n".join(
        [
            f"FAILED: {task.dag_id}.{task.task_id}, run {task.run_id}, try {task.try_number}",
            f"why:    {kind}: {error}",
            f"remedy: {REMEDIES.get(kind, DEFAULT_REMEDY)}",
            f"log:    {getattr(task, 'log_url', '')}",
        ]
    )
