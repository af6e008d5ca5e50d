"""Build the DAG `questions`: answer the question of its form."""

from airflow.sdk import DAG

from pststream.airflow.dag_options import MAINTENANCE, DagOptions
from pststream.airflow.tasks import forms
from pststream.airflow.tasks.question_form import AskOperator, question_fields

DOC = """
Answers questions about stored objects.

- **ask** answers the question of the form (`jobs/ask.py`), without a slot of the pool. Its button *Answer* opens a page
  with the answer on a map and as a table; the log has the first rows, and the XCom the counts and the address of the
  page. A question that is not valid fails at once, with its field and reason.
"""


def build(options: DagOptions) -> DAG:
    """Build the DAG."""
    with DAG(
        **options.dag_arguments("questions", "none", priority=MAINTENANCE),
        description="Answer questions about stored objects",
        doc_md=DOC,
        params={**question_fields(), "home": forms.home_field(options)},
    ) as dag:
        AskOperator(task_id="ask", options=options, retries=0)
    return dag
