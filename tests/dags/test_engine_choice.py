"""The setting `engine` and the Spark master decide where a job runs, before anything is submitted."""

from pathlib import Path

import pytest

from tests.bad_store import Uploader
from tests.bucket_home import use
from tests.moto_process import moto_server

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]

LOCAL = ("spark://local", "spark://local[2]", "spark://local[*]")
CLUSTERS = ("spark://spark://h:7077", "spark://yarn", "spark://k8s://https://h:6443", "spark://local-cluster[2,1,512]")


@pytest.mark.parametrize(
    ("engine", "masters", "here"),
    [
        ("auto", LOCAL, True),
        ("auto", CLUSTERS, False),
        ("local", LOCAL + CLUSTERS, True),
        ("spark", LOCAL + CLUSTERS, False),
        ("no such engine", LOCAL, True),  # the job refuses the setting
    ],
)
def test_engine_and_master_decide(engine: str, masters: tuple[str, ...], here: bool) -> None:
    from pststream.airflow.runners.engine_choice import runs_here

    assert {master: runs_here(engine, master) for master in masters} == dict.fromkeys(masters, here)


@pytest.mark.parametrize(
    ("text", "engine"),
    [('engine = "spark"\n', "spark"), ("workers = 2\n", "auto"), ("engine = [", "auto"), (None, "auto")],
)
def test_the_setting_is_that_of_the_home_or_the_environment(tmp_path: Path, text: str | None, engine: str) -> None:
    from pststream.airflow.runners.engine_choice import engine_of

    if text is not None:
        (tmp_path / "pststream.toml").write_text(text, "utf-8")
    assert engine_of(str(tmp_path), {}) == engine
    assert engine_of(str(tmp_path), {"PSTSTREAM_ENGINE": "local"}) == "local"


@pytest.mark.deep
def test_the_setting_of_a_home_in_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream.airflow.runners.engine_choice import engine_of
    from pststream.storage.registry import files_at

    with moto_server() as url:
        home = use(url, monkeypatch)
        assert engine_of(home, {}) == "auto"
        Uploader(url).new_bucket()
        assert engine_of(home, {}) == "auto"
        files_at(home).write("pststream.toml", b'engine = "spark"\n')
        assert engine_of(home, {}) == "spark"


def test_the_home_is_that_of_the_form_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream.airflow.runners.engine_choice import home_of

    monkeypatch.delenv("PSTSTREAM_HOME", raising=False)
    assert home_of(["--home="]) == "./pststream-home"
    monkeypatch.setenv("PSTSTREAM_HOME", "e")
    assert [home_of(words) for words in (["check"], ["--home="], ["check", "--home=h"])] == ["e", "e", "h"]
