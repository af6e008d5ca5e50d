"""Define the operator that replays the last batches under the plan that a dry run proposes, and links a page on it."""

from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from pststream.airflow.dag_options import DagOptions
from pststream.airflow.tasks.adjustment_pages import PagedJob, PageLink, run_file
from pststream.airflow.tasks.summaries import summarize_replay

BATCHES = 8
"""Number of the last batches that a dry run replays."""


class ReplayLink(PageLink):
    """The button *Replayed batches* of the task."""

    name = "Replayed batches"


class ReplayJob(PagedJob):
    """Replays the last batches of the home under the plan of the run's proposal; its XCom has both sides' figures.

    summary   the XCom of the task that made the proposal
    proposal  the template of the file of the proposal
    """

    template_fields = ("summary", *PagedJob.template_fields)
    operator_extra_links = (ReplayLink(),)

    def __init__(self, *, options: DagOptions, summary: Any, proposal: str, **kwargs: Any) -> None:
        super().__init__(
            job="replay",
            arguments=[*options.home_arguments, f"--last={BATCHES}", f"--proposal={proposal}"],
            summarize=summarize_replay,
            page=run_file(options, "-replay.html"),
            **options.job,
            **kwargs,
        )
        self.summary = summary

    def execute(self, context: Context) -> Any:
        """Replay in a dry run that has a proposal, else skip."""
        if not context["params"]["dry_run"]:
            raise AirflowSkipException("only a dry run replays batches")
        if self.summary["plan_version"] == self.summary["plan_version_before"]:
            raise AirflowSkipException(f"nothing to replay: {self.summary['reason']}")
        if self.summary["kind"] == "plan":
            raise AirflowSkipException(
                "a plan with an index of its own, or of topk, has no proposal: see `pststream replay --planner`"
            )
        return super().execute(context)
