"""Define the tasks that answer the files of questions of a landing folder, and write the event of their answers."""

from typing import Any

from airflow.sdk import Asset, Context, task
from airflow.sdk.exceptions import AirflowSkipException

from pststream.airflow.runners.allowed_places import admit
from pststream.airflow.runners.engine_choice import landing_of
from pststream.airflow.runners.lineage import home_uri
from pststream.airflow.runners.spark_job import SparkJob
from pststream.airflow.tasks.summaries import summarize_answers
from pststream.base import names


class AnswerFilesJob(SparkJob):
    """Answers the new files of questions; its XCom has the counts and the address of the table of answers.

    Files of questions in a bucket are not read: the task is skipped if the landing folder is in one.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="answer_questions", summarize=_summarize, asks_for_work=True, **kwargs)

    def execute(self, context: Context) -> Any:
        """Run the job; return its summary."""
        place = admit(self.application_args or [])
        landing = landing_of(place.arguments)
        if names.storage_prefix(landing):
            raise AirflowSkipException(f"{landing}: questions in a bucket are not read")
        return {**super().execute(context), "table": f"{home_uri(place.home)}/tables/{names.QUESTION_ANSWERS}"}


def add_publish_answers(answers: Asset, summary: Any) -> None:
    """Add the task `publish_answers`; `summary` has the counts of answered files as `answered`, or is these counts."""

    @task(outlets=[answers])
    def publish_answers(summary: dict, outlet_events: Any = None) -> None:
        """Write the asset event if files of questions were answered."""
        counts = summary.get("answered", summary)
        if not counts["files"]:
            raise AirflowSkipException("no file of questions is new")
        outlet_events[answers].extra = counts

    publish_answers(summary)


def _summarize(outcome: dict[str, Any]) -> dict[str, Any]:
    document = outcome["result"]
    return summarize_answers(document) | {"table_version": document["table_version"]}
