"""Build the DAG `micro_batch`: every minute, ingest landed files, match them, and deliver the matches to the sinks."""

from airflow.sdk import Param

from pststream.airflow.dag_kind import DagKind
from pststream.airflow.dag_options import MICRO_BATCH, DagOptions
from pststream.airflow.tasks import forms
from pststream.airflow.tasks.micro_batch_tasks import add_micro_batch_tasks

DOC = """
Ingests every new file in `objects/` and `requests/` of the landing folder, makes a plan if there is none, runs
micro-batches until nothing is pending, and answers the new files in `questions/`. One run at a time. A small run starts
no JVM; a run without anything new only asks the ledgers, skips all later tasks and ends.

- **match** is the job (`jobs/micro_batch.py`), a process of the task or a Spark job, as the setting `engine` and the
  connection say. Its XCom has the counts, the plan version and the version of the table `matches`. Usage, setting and
  input errors are not retried; failures are retried up to three times, and the last try reports what all tries have
  done. Each task below that would have nothing to do is skipped. The button *Data Docs* opens the results of the suites
  that judged the files, if the home has any.
- **publish** writes the asset event that triggers consumers, with the same figures as its extra, if there was a batch.
  The event is a trigger only: read the matches from the version of the table.
- **publish_answers** writes the asset event of the answers, if files of questions were answered.
- **deliver** sends the messages to the sinks (`jobs/deliver.py`), outside the pool, if a sink waits for some. It also
  runs if the match failed, for the batches before. It fails if a sink needs attention; the next run sends the rest.
- **check_balance** writes the event that starts `adjust_load` if the batches measured an imbalance, once for each plan
  version. An imbalance that an adjustment could not correct waits for the hourly run.
- **check_rejects** fails the run under *Strict* if a row was rejected. The accepted rows are matched all the same.
"""


def _fields(options: DagOptions) -> dict[str, Param]:
    return {
        "home": forms.home_field(options),
        "landing": forms.landing_field(options),
        "max_objects": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Objects per micro-batch",
            description="Maximum; further objects go into further micro-batches. Empty: the home's setting.",
            section="How",
        ),
        "strict": Param(
            False,
            type="boolean",
            title="Strict",
            description="Fail the run if a row is rejected. The accepted rows are matched all the same.",
            section="How",
        ),
    }


KIND = DagKind(
    name="micro_batch",
    cron="* * * * *",
    priority=MICRO_BATCH,
    description="Ingest and match landed files, each object exactly once",
    doc=DOC,
    fields=_fields,
    add_tasks=add_micro_batch_tasks,
)
