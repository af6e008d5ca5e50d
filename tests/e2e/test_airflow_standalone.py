"""The real thing: `make airflow` on a free port, DAGs triggered through the REST API with values of their forms."""

import urllib.error
from collections.abc import Iterator

import pytest

from pststream import names
from tests.commands import Home
from tests.dags.landing import ACCEPTED, PAIRS, REJECTED, fill
from tests.e2e.airflow_api import Airflow, standalone

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.e2e]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("standalone")
    fill(folder / "landing")
    with standalone(folder, {"PSTSTREAM_WORKERS": "2"}) as here:
        yield here


@pytest.mark.timeout(400)
def test_a_bad_value_of_a_form_is_refused_before_any_task_runs(airflow: Airflow) -> None:
    airflow.turn_on("repartition")
    for form in ({"planner": "voronoi"}, {"workers": 0}, {"dry_run": "yes"}):
        with pytest.raises(urllib.error.HTTPError) as refused:
            airflow.trigger("repartition", form)
        assert 400 <= refused.value.code < 500
        assert next(iter(form)) in refused.value.read().decode()
    assert airflow.runs("repartition") == []


@pytest.mark.timeout(400)
def test_the_scheduler_runs_a_micro_batch_with_a_form_value(airflow: Airflow) -> None:
    airflow.turn_on("micro_batch")
    run = airflow.trigger("micro_batch", {"max_objects": 3})
    assert airflow.end_of("micro_batch", run) == "success", airflow.log("micro_batch", run, "match")
    states = airflow.states("micro_batch", run)
    assert (states["match"], states["publish"], states["check_rejects"]) == ("success", "success", "success")
    summary = airflow.xcom("micro_batch", run, "match")
    assert (summary["accepted"], summary["rejected"]) == (ACCEPTED, REJECTED)
    assert (summary["batches"], summary["matches"]) == (2, len(PAIRS))
    [event] = [event for event in airflow.events("micro_batch") if "matches" in event["uri"]]
    assert event["extra"]["table_version"] == summary["table_version"]
    assert event["uri"].rstrip("/") == names.MATCHES_ASSET
    assert "batch 2" in airflow.log("micro_batch", run, "match")
    found = [(object_id, subscription_id) for object_id, _, subscription_id in Home(airflow.folder / "home").exported()]
    assert found == PAIRS


@pytest.mark.timeout(400)
def test_the_scheduler_makes_a_plan_with_form_values(airflow: Airflow) -> None:
    airflow.turn_on("repartition")
    run = airflow.trigger("repartition", {"planner": "grid", "workers": 3, "dry_run": True})
    assert airflow.end_of("repartition", run) == "success", airflow.log("repartition", run, "plan")
    assert airflow.states("repartition", run) == {
        "check": "success", "plan": "success", "show": "success",
        "approve": "skipped", "apply": "skipped", "publish": "skipped",
    }  # fmt: skip
    shown = airflow.xcom("repartition", run, "plan")
    assert (shown["kind"], shown["plan_version_before"], len(shown["load_after"])) == ("plan", 1, 3)
    assert "grid over 3 workers" in airflow.log("repartition", run, "show")
    assert Home(airflow.folder / "home").run("plans", "show")["plan_version"] == 1
