"""A form names no home and no landing folder that the deployment does not allow, and other homes get no secrets."""

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pststream.state.home import Home
from tests.commands import Home as Commands
from tests.commands import new_home
from tests.dags.dag_runs import FinishedRun, bag_of
from tests.dags.landing_folder import fill_landing
from tests.dags.test_dag_files import NAMES
from tests.matched_homes import add_matched_batch, add_subscriptions
from tests.oracles.delivery import expected_messages
from tests.receiver import SECRET, Receiver, receiving

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]

CAFE = "caf\u00e9"
HOMES, LANDINGS = "AIRFLOW__PSTSTREAM__ALLOWED_HOMES", "AIRFLOW__PSTSTREAM__ALLOWED_LANDINGS"
ALLOWED = {HOMES: ["{}/homes/*", "s3://bucket/homes/*", f"{{}}/{CAFE}"], LANDINGS: ["{}/landings/a", "s3://landing"]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the home of the deployment, its landing folder, one allowed home, and a home of others."""
    for name in ("own", "homes/a/inner", "landings/a", "landings/b", "secret", CAFE):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "homes" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "link").symlink_to(tmp_path / "homes" / "a")
    monkeypatch.setenv("PSTSTREAM_HOME", str(tmp_path / "own"))
    monkeypatch.delenv("PSTSTREAM_LANDING", raising=False)
    for variable, entries in ALLOWED.items():
        monkeypatch.setenv(variable, json.dumps([entry.format(tmp_path) for entry in entries]))
    return tmp_path


def admitted(place: Path, home: str = "", landing: str = "") -> list[str]:
    """Return home and landing folder that a job gets for these fields of a form; `~` is the folder of the test."""
    from pststream.airflow.runners.allowed_places import admit

    form = {"home": home, "landing": landing}
    fields = [f"--form-{name}={value.replace('~', str(place))}" for name, value in form.items()]
    return [word.replace(str(place), "~") for word in admit(["--home=", *fields, "--landing="]).arguments]


@pytest.mark.parametrize(
    ("home", "given"),
    [
        ("", ""),
        ("~/own", "~/own"),
        ("~/own/", "~/own"),
        ("~/homes/../own", "~/own"),
        ("~/homes/a", "~/homes/a"),
        ("~//homes/./a//", "~/homes/a"),
        ("~/homes/new", "~/homes/new"),
        ("~/link", "~/homes/a"),
        ("~/homes/link/../own", "~/own"),
        ("/proc/self/root~/homes/a", "~/homes/a"),
        (f"~/{CAFE}", f"~/{CAFE}"),
        ("s3://bucket/homes/a", "s3://bucket/homes/a"),
        ("s3a://bucket/homes/a/", "s3://bucket/homes/a"),
    ],
)
def test_an_allowed_home_is_given_to_the_job_as_it_was_compared(place: Path, home: str, given: str) -> None:
    assert admitted(place, home) == [f"--home={given}", "--landing="]


@pytest.mark.parametrize(
    "home",
    [
        "~/secret",
        "~/own/landing",
        "~/own-2",
        "~/OWN",
        "~/homes",
        "~/homes/",
        "~/homes/a/inner",
        "~/homes/link",
        "~/homes/a/../../secret",
        "~/link/../../secret",
        "/proc/self/root~/secret",
        "~/homes/a\0",
        "~/homes\u2215a",
        "~/homes/\uff0e\uff0e/secret",
        "~/" + unicodedata.normalize("NFD", CAFE),
        "file://~/homes/a",
        "S3://bucket/homes/a",
        "http://bucket/homes/a",
        "s3://bucket/homes",
        "s3://bucket/homes/a/b",
        "s3://bucket/homes/../secret",
        "s3a://bucket/homes/a/../../secret",
        "s3://bucket/homes/%2e%2e",
        "s3://bucket/homes/a%2fb",
        "s3://bucket/homes//a",
        "s3://bucket/homes/a?x",
        "s3://bucket/homes/a#x",
        "s3://bucket/homes/..\\a",
        "s3://bucket/homes/\ta",
        "s3://bucket-2/homes/a",
        "s3://",
        "homes/a",
        " ",
    ],
)
def test_any_other_home_is_refused_and_the_error_says_what_to_set(place: Path, home: str) -> None:
    from pststream.airflow.runners.job_outcome import JobRefused

    with pytest.raises(
        JobRefused, match=r"allowed_homes.*AIRFLOW__PSTSTREAM__ALLOWED_HOMES|no plain address|null byte"
    ):
        admitted(place, home)


@pytest.mark.parametrize(
    ("home", "landing", "given"),
    [
        ("", "~/own/landing", "~/own/landing"),
        ("~/homes/a", "~/homes/a/landing", "~/homes/a/landing"),
        ("~/homes/a", "~/own/landing", "~/own/landing"),
        ("", "~/landings/./a/", "~/landings/a"),
        ("", "s3a://landing/", "s3://landing"),
        ("", "~/homes/a/landing", None),
        ("", "~/landings/b", None),
        ("", "~/landings/a/b", None),
        ("", "~/landings/a/../b", None),
        ("", "~/secret", None),
        ("", "s3://landing/objects", None),
        ("~/secret", "~/landings/a", None),
    ],
)
def test_a_landing_folder_is_that_of_the_home_or_listed(
    place: Path, home: str, landing: str, given: str | None
) -> None:
    from pststream.airflow.runners.job_outcome import JobRefused

    if given is None:
        with pytest.raises(JobRefused, match="is not allowed"):
            admitted(place, home, landing)
    else:
        assert admitted(place, home, landing) == [f"--home={home}", f"--landing={given}"]


def test_a_link_that_changes_afterwards_leads_nowhere_else(place: Path) -> None:
    given = admitted(place, "~/link")
    (place / "link").unlink()
    (place / "link").symlink_to(place / "secret")
    assert given[0] == "--home=~/homes/a"
    (place / "own").rmdir()
    (place / "own").symlink_to(place / "homes" / "a")
    assert admitted(place, "~/homes/a")[0] == "--home=~/own", "the deployment spells its own home, links and all"


@pytest.mark.parametrize("text", ["/data", '{"a": 1}', "[1]", '[""]'])
def test_a_list_that_is_no_list_allows_nothing_else(place: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    from pststream.airflow.runners.job_outcome import JobRefused

    monkeypatch.setenv(HOMES, text)
    assert admitted(place, "~/own") == ["--home=~/own", "--landing="]
    with pytest.raises(JobRefused, match=r"\[pststream\] allowed_homes: is not a list"):
        admitted(place, "~/homes/a")


def test_home_landing_and_words_of_a_question_are_the_only_texts_of_forms_that_are_free(dagbag: Any) -> None:
    """A field of another name that takes a path would need a check of its own; those of questions name no place."""
    for dag in dagbag.dags.values():
        schemas = {name: dag.params.get_param(name).schema for name in dag.params}
        texts = {name for name, schema in schemas.items() if "string" in schema["type"]}
        free = {name for name in texts if not {"enum", "pattern", "format"} & schemas[name].keys()}
        assert free == {"home", "landing", "keywords", "stop_words", "where"} & schemas.keys(), dag.dag_id


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def runs(dagbag: Any) -> Callable[[str, dict[str, Any]], FinishedRun]:
    """Runs a DAG by its name."""
    return lambda name, form: FinishedRun(dagbag.dags[f"pststream_{name}"], form)


QUESTION = {"kind": "knn", "lon": 0.0, "lat": 0.0, "k": 1}


def deep_param(*values: Any) -> Any:
    """A case of the second tier."""
    return pytest.param(*values, marks=pytest.mark.deep)


FILLED = {"quarantine": {"holds": "1"}, "questions": QUESTION}
"""Fields of forms without which a DAG does nothing, or something else."""


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("micro_batch", {}),
        *(deep_param(name, FILLED.get(name, {})) for name in NAMES if name != "micro_batch"),
        deep_param("questions", {}),
    ],
)
def test_each_dag_refuses_the_home_before_anything_is_read_or_written(
    runs: Any, place: Path, name: str, fields: dict[str, Any]
) -> None:
    new_home(place / "secret")
    before = contents(place / "secret")
    ran = runs(name, {"home": str(place / "secret")} | fields)
    assert ran.state == "failed"
    passed_by = {"skipped"} if name == "questions" and not fields else set()
    assert set(ran.states.values()) <= {"failed", "upstream_failed"} | passed_by
    assert {ran.tries[task] for task, state in ran.states.items() if state == "failed"} == {1}
    assert contents(place / "secret") == before
    assert contents(place / "own") == {}, "nor is the home of the DAG taken instead"


@pytest.mark.deep
def test_a_landing_folder_of_others_is_not_read(runs: Any, place: Path) -> None:
    fill_landing(place / "landings" / "b")
    ran = runs("micro_batch", {"landing": str(place / "landings" / "b")})
    assert ran.states["match"] == "failed" and contents(place / "own") == {}


@pytest.mark.deep
def test_tasks_without_a_form_refuse_what_a_run_names(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may have fields that no form of the DAG has."""
    text = """
from airflow.sdk import DAG
from pststream.airflow import BalanceOperator, PSTStreamTaskGroup

with DAG("nightly", schedule=None):
    PSTStreamTaskGroup()
with DAG("by_hand", schedule=None):
    BalanceOperator(task_id="balance")
"""
    (place / "dags").mkdir()
    (place / "dags" / "own.py").write_text(text, "utf-8")
    dags = bag_of(place / "dags", monkeypatch).dags
    for name, task in (("nightly", "pststream.match"), ("by_hand", "balance")):
        ran = FinishedRun(dags[name], {"home": str(place / "secret")})
        assert (ran.states[task], ran.tries[task]) == ("failed", 1)
    assert contents(place / "secret") == {}


def sending_home(folder: Path, receiver: Receiver) -> Home:
    """A home with a batch, whose settings name a webhook that its owner has chosen."""
    home = Home(folder)
    home.init()
    add_matched_batch(home, add_subscriptions(home, 4), 6, seed=1)
    with open(folder / "pststream.toml", "a") as file:
        file.write('[sinks.hook]\nkind = "webhook"\nnetworks = "127.0.0.0/8"\ntries = 1\n')
        file.write(f'target = "{receiver.url}"\n')
    return home


@pytest.mark.deep
@pytest.mark.parametrize("where", ["connection of the sink", "connection of all sinks", "environment"])
def test_secrets_sign_nothing_of_another_home(
    dagbag: Any, place: Path, monkeypatch: pytest.MonkeyPatch, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Unless their connection names it: then they belong to that home alone."""

    def connect(homes: Any = None) -> None:
        named = {} if homes is None else {"homes": homes}
        if where == "connection of the sink":
            connection = {"conn_type": "pststream_sink", "password": SECRET, "extra": named}
            monkeypatch.setenv("AIRFLOW_CONN_PSTSTREAM_SINK_HOOK", json.dumps(connection))
        elif where == "connection of all sinks":
            connection = {"conn_type": "generic", "extra": {"hook": {"secret": SECRET}} | named}
            monkeypatch.setenv("AIRFLOW_CONN_PSTSTREAM_SINKS", json.dumps(connection))
        else:
            monkeypatch.setenv("PSTSTREAM_SINK_HOOK_SECRET", SECRET)

    from pststream.airflow.runners.job_outcome import JobFailed

    deliver = dagbag.dags["pststream_micro_batch"].get_task("deliver").python_callable
    with receiving() as receiver:
        (place / "own").rmdir()
        own, other = (sending_home(place / name, receiver) for name in ("own", "homes/b"))
        of_own, of_other = ["--home=", "--form-home="], ["--home=", f"--form-home={other.path}"]

        def delivers(home: list[str]) -> bool:
            before = receiver.requests
            try:
                deliver(home, "pststream_sinks", None)
            except JobFailed as error:
                assert "PSTSTREAM_SINK_HOOK_SECRET" in str(error) and receiver.requests == before
                return False
            return True

        connect()
        assert not delivers(of_other)
        if where != "environment":
            assert "does not name the home" in caplog.text
            connect([other.path])
            assert not delivers(of_own)
            assert delivers(of_other) and receiver.taken == expected_messages(other)
            connect(f"{place}/homes/link")
            assert not delivers(of_own)
            connect()
        receiver.taken.clear()
        assert delivers(of_own) and receiver.taken == expected_messages(own)
    assert Commands(own.path).run("status")["deliveries"][0]["state"] == "ok"
