"""Build the DAG `questions`: answer the question of its form, or the files of questions of the landing folder."""

from airflow.sdk import Param

from pststream.airflow.dag_kind import DagKind, add_job
from pststream.airflow.dag_options import MICRO_BATCH, DagOptions
from pststream.airflow.tasks import forms
from pststream.airflow.tasks.micro_batch_tasks import SINCE_FIRST_TRY, AnswerFilesJob, add_publish_answers
from pststream.airflow.tasks.question_form import AskOperator, question_fields
from pststream.base import names

DOC = """
Answers questions about stored objects: one that a person types into the form, or the new files in `questions/` of the
landing folder. A run starts every five minutes, and with each event of the asset `pststream://question_files`.

- **ask** answers the question of the form (`jobs/ask.py`), without a slot of the pool. Its button *Answer* opens a page
  with the answer on a map and as a table; the log has the first rows, and the XCom the counts and the address of the
  page. A question that is not valid fails at once, with its field and reason. Without a question it is skipped, with
  one the other tasks are.
- **answer_files** answers each new file once (`jobs/answer_questions.py`). The answers are in the table
  `question_answers`, and in `answers/` of the landing folder. Its XCom has the counts and the address of the table.
- **publish_answers** writes the asset event with the same figures, if a file was answered.
"""


def _fields(options: DagOptions) -> dict[str, Param]:
    return {**question_fields(), "home": forms.home_field(options), "landing": forms.landing_field(options)}


def _add_tasks(options: DagOptions) -> None:
    ask = AskOperator(task_id="ask", options=options, retries=0)
    words = [*options.landing_arguments, SINCE_FIRST_TRY]
    answer_files = add_job(options, "answer_files", words, hours=1, operator=AnswerFilesJob, trigger_rule="none_failed")
    ask >> answer_files
    add_publish_answers(options.asset(names.QUESTION_ANSWERS), answer_files.output)


KIND = DagKind(
    name="questions",
    cron="*/5 * * * *",
    after="question_files",
    priority=MICRO_BATCH,
    description="Answer questions about stored objects",
    doc=DOC,
    fields=_fields,
    add_tasks=_add_tasks,
)
