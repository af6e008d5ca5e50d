"""Build the DAG `questions`: answer the question of its form, or the files of questions of the landing folder."""

import json
from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context, Param
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped

from pststream.airflow.dag_kind import DagKind, add_job
from pststream.airflow.dag_options import MICRO_BATCH, DagOptions
from pststream.airflow.runners.job_process import run_job
from pststream.airflow.tasks import forms
from pststream.airflow.tasks.forms import field
from pststream.airflow.tasks.micro_batch_tasks import RETURN_VALUE, SINCE_FIRST_TRY, AnswerFilesJob, add_publish_answers
from pststream.airflow.tasks.plan_change import PageLink, page_url, run_file
from pststream.base import names

WINDOW = r"^([0-9]{1,18}[smhd]|objects=[0-9]{1,18})$"
MOST_ROWS = 10_000
"""Greatest k of the form: the default of the setting max_k."""

PLACE, BOX = ("lon", "lat"), ("west", "south", "east", "north")
TEXTS = (
    *("kind", "keywords", "k", "limit", "alpha", "distance_scale_m", "max_distance_m", "where", "window", "as_of"),
    *("version", "stop_words"),
)
"""Fields of the form that are fields of a question."""


def question_fields() -> dict[str, Param]:
    """Return the fields of the form, by name."""
    return {
        "kind": Param(
            None,
            type=["null", "string"],
            enum=[None, *names.QUESTION_KINDS],
            values_display={"None": "no question: answer the files of the landing folder"},
            title="Kind",
            description="Of the question; the other fields belong to it.",
            section="Question",
        ),
        "keywords": field("string", "Keywords", "Words with AND, OR and parentheses; of topk words alone.", _ASKED),
        "k": field("integer", "Rows (k)", "How many objects or terms: knn, topk, frequent_terms.", _ASKED, **_COUNT),
        "limit": field("integer", "Limit", "Only the newest objects, that many: range.", _ASKED, **_COUNT),
        "alpha": field("number", "Alpha", "Weight of the place in the score: topk.", _ASKED, minimum=0, maximum=1),
        "distance_scale_m": field(
            "number",
            "Distance scale",
            "Metres from which on the place scores 0: topk. Empty: 25,000.",
            _ASKED,
            minimum=1,
            maximum=1e9,
        ),
        "stop_words": field(
            "string", "Stop words", "A language, such as en, or a JSON list of words: frequent_terms.", _ASKED
        ),
        "where": field("string", "Where", 'Conditions on attributes: {"magnitude": {"gte": 5}}. Empty: none.', _ASKED),
        "max_distance_m": field(
            "number",
            "Greatest distance",
            "Metres beyond which objects do not count: knn. Empty: any.",
            _ASKED,
            minimum=0,
            maximum=1e9,
        ),
        "lon": field("number", "Longitude", "Of the point (knn, topk) or the centre of the circle.", _WHERE, **_LON),
        "lat": field("number", "Latitude", "Of the point (knn, topk) or the centre of the circle.", _WHERE, **_LAT),
        "radius_m": field("number", "Radius", "Of the circle, in metres: range, frequent_terms.", _WHERE, minimum=0),
        "west": field("number", "West", "Of the box: range, frequent_terms.", _WHERE, **_LON),
        "south": field("number", "South", "Of the box.", _WHERE, **_LAT),
        "east": field("number", "East", "Of the box; less than west across the antimeridian.", _WHERE, **_LON),
        "north": field("number", "North", "Of the box.", _WHERE, **_LAT),
        "geometry": field("object", "Polygon", "GeoJSON Polygon or MultiPolygon: range, frequent_terms.", _WHERE),
        "window": field(
            "string", "Window", "How far back, such as 72h; of knn and topk also objects=1000.", _WHEN, pattern=WINDOW
        ),
        "as_of": field(
            "string", "As of", "Objects after it do not count. Empty: the newest.", _WHEN, format="date-time"
        ),
        "version": field("integer", "Version", "Of the table `objects`. Empty: the newest.", _WHEN, minimum=0),
    }


_ASKED, _WHERE, _WHEN = "Question", "Region or point", "Time"
_COUNT = {"minimum": 1, "maximum": MOST_ROWS}
_LON, _LAT = {"minimum": -180, "maximum": 180}, {"minimum": -90, "maximum": 90}


def typed_question(params: dict[str, Any]) -> dict[str, str]:
    """Return the question of a form as texts by field, as `jobs/ask.py` takes them; empty if the form has no kind.

    What is filled in half, such as a box without its north, stays a fault for the job.
    """
    if params["kind"] is None:
        return {}
    texts = {name: str(params[name]) for name in TEXTS if params[name] is not None}
    if params["geometry"] is not None:
        texts["geometry"] = json.dumps(params["geometry"])
    if any(params[side] is not None for side in BOX):
        texts["bbox"] = _listed(params, BOX)
    if params["radius_m"] is not None:
        texts["circle"] = _listed(params, (*PLACE, "radius_m"))
    elif any(params[name] is not None for name in PLACE):
        texts["point"] = _listed(params, PLACE)
    return texts


def _listed(params: dict[str, Any], fields: Sequence[str]) -> str:
    return ",".join("" if params[field] is None else repr(params[field]) for field in fields)


class AnswerLink(PageLink):
    """The button *Answer* of the task."""

    name = "Answer"


class AskOperator(BaseOperator):
    """Answers the question of the form in a process of the task, without a slot of the pool; skips without a question.

    Its XCom has the counts and the URL of a page with the answer, which is stored with the pages of adjustments. The
    tasks after it answer files, and are skipped if the form has a question.
    """

    template_fields = ("application_args", "page")
    operator_extra_links = (AnswerLink(),)

    def __init__(self, *, options: DagOptions, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.application_args = options.home_arguments
        self.page = run_file(options, ".html")
        self.aws_conn_id = options.aws_conn_id

    def execute(self, context: Context) -> None:
        """Answer the question; store the counts and the URL of the page, and skip the other tasks."""
        question = typed_question(dict(context["params"]))
        if not question:
            raise AirflowSkipException("the form has no question")
        words = [*self.application_args, f"--question={json.dumps(question)}", f"--page={self.page}"]
        answer = {**run_job("ask", words, aws_conn_id=self.aws_conn_id), "page": page_url(self)}
        context["ti"].xcom_push(key=RETURN_VALUE, value=answer)
        raise DownstreamTasksSkipped(tasks=sorted(self.downstream_task_ids))


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
    fields=_fields,
    add_tasks=_add_tasks,
)
