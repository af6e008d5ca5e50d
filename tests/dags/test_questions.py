"""The DAG `questions` answers the question of its form on a page, or files of questions, each once."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs import answer_questions
from pststream.base import names
from pststream.queries.kinds.registry import QUESTION_KINDS
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from tests.dags.dag_runs import FinishedRun
from tests.unit.reports.commands.homes import add_file, thing

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with three objects."""
    home = Home(tmp_path_factory.mktemp("questions") / "home")
    home.init()
    texts = enumerate(("free coffee", "tea", "<b>coffee</b> and cake"), start=1)
    add_file(home, "objects", [thing(row, f"o{row}", row, lon=row / 100, text=text) for row, text in texts])
    return home


def form(**fields: Any) -> dict[str, Any]:
    from pststream.airflow.dags.questions import question_fields

    return dict.fromkeys(question_fields()) | fields


def test_the_form_lists_the_kinds() -> None:
    assert tuple(QUESTION_KINDS) == names.QUESTION_KINDS


def test_the_question_of_a_form_as_texts(airflow_home: Path) -> None:
    from pststream.airflow.dags.questions import typed_question

    assert typed_question(form(lon=1.0, lat=2.0)) == {}
    nearest = form(kind="knn", lon=-1.5, lat=2, k=3, window="72h", as_of="2026-03-01T00:00:00Z", version=0)
    assert typed_question(nearest) == {
        "kind": "knn", "point": "-1.5,2", "k": "3", "window": "72h", "as_of": "2026-03-01T00:00:00Z", "version": "0",
    }  # fmt: skip
    assert typed_question(form(kind="range", lon=1, lat=2, radius_m=30)) == {"kind": "range", "circle": "1,2,30"}
    assert typed_question(form(kind="range", west=1, south=2, east=3, north=4)) == {"kind": "range", "bbox": "1,2,3,4"}
    assert typed_question(form(kind="range", west=0)) == {"kind": "range", "bbox": "0,,,"}
    polygon = {"type": "Polygon", "coordinates": []}
    assert typed_question(form(kind="range", geometry=polygon)) == {"kind": "range", "geometry": json.dumps(polygon)}


@pytest.mark.deep
def test_a_run_answers_the_question_of_its_form(
    dagbag: Any, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = dagbag.dags["pststream_questions"]
    monkeypatch.setattr(dag.get_task("ask"), "page", str(tmp_path / "pages" / "{{ run_id | file_name }}.html"))
    question = {"kind": "knn", "lon": 0.03, "lat": 0.0, "k": 2, "keywords": "coffee"}
    ran = FinishedRun(dag, question | {"home": home.path})
    assert ran.states == {"ask": "success", "answer_files": "skipped", "publish_answers": "skipped"}
    answer = ran.xcom("ask")
    assert {name: answer[name] for name in ("kind", "rows", "more")} == {"kind": "knn", "rows": 2, "more": False}
    [page] = (tmp_path / "pages").iterdir()
    assert answer["page"].endswith(f"/pststream/pages/{page.name}")
    text = page.read_text("utf-8")
    assert "2 objects." in text and "&lt;b&gt;coffee" in text and "<b>" not in text


def test_questions_in_a_bucket_are_skipped(dagbag: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    job = dagbag.dags["pststream_questions"].get_task("answer_files")
    for arguments in (["--home=/h", "--landing=s3a://bucket/landing"], ["--home=s3://bucket/home", "--landing="]):
        monkeypatch.setattr(job, "application_args", arguments)
        with pytest.raises(AirflowSkipException, match="bucket are not read"):
            job.execute({})


def only_if_idle(home: Home, landing: Path) -> tuple[int, str | None, int | None]:
    """Run the job with `--only-if-idle`; return its exit code, the kind of its error, and the number of files."""
    result = landing / "result.json"
    code = answer_questions.main(
        [f"--home={home.path}", f"--landing={landing}", f"--result={result}", "--only-if-idle"]
    )
    outcome = json.loads(result.read_text("utf-8"))
    return code, outcome.get("kind"), outcome["result"] and outcome["result"]["files"]


@pytest.mark.deep
def test_a_run_without_a_question_answers_each_landed_file_once(dagbag: Any, home: Home, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    dag, place = dagbag.dags["pststream_questions"], {"home": home.path, "landing": str(landing)}
    (landing / "questions").mkdir(parents=True)
    questions = [
        {"question_id": "near", "kind": "knn", "point": {"lon": 0.03, "lat": 0.0}, "k": 2, "keywords": "coffee"},
        {"question_id": "bad", "kind": "knn", "point": {"lon": 0.03, "lat": 0.0}},
        {"question_id": "box", "bbox": [-1, -1, 1, 1]},
    ]
    (landing / "questions" / "some.jsonl").write_text("\n".join(map(json.dumps, questions)), "utf-8")
    assert only_if_idle(home, landing) == (1, "WorkWaits", None)
    ran = FinishedRun(dag, place)
    assert ran.states == {"ask": "skipped", "answer_files": "success", "publish_answers": "success"}
    summary = ran.xcom("answer_files")
    counts = {"files": 1, "questions": 3, "rejected": 1, "rows": 5}
    assert {name: summary[name] for name in counts} == counts
    assert set(summary) == {*counts, "seconds", "table", "table_version"} and summary["table"].endswith(
        "/tables/question_answers"
    )
    assert ran.events() == [summary]
    rows = read_table(home.table(names.QUESTION_ANSWERS)).to_pylist()
    assert [row["object_id"] for row in rows if row["question_id"] == "near"] == ["o3", "o1"]
    assert only_if_idle(home, landing) == (0, None, 0)
    again = FinishedRun(dag, place)
    assert again.states == {"ask": "skipped", "answer_files": "success", "publish_answers": "skipped"}
    assert again.events() == [] and len(read_table(home.table(names.QUESTION_ANSWERS))) == len(rows)


@pytest.mark.deep
def test_a_question_that_is_not_valid_fails_with_field_and_reason(
    dagbag: Any, home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    fields = {"kind": "knn", "lon": 0.0, "lat": 0.0}
    ran = FinishedRun(dagbag.dags["pststream_questions"], fields | {"home": home.path})
    assert ran.states["ask"] == "failed" and ran.tries["ask"] == 1
    assert "success" not in ran.states.values()
    assert "k: missing" in caplog.text
