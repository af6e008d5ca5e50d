"""The jobs call functions with their arguments, write a result file, and end with their submitter."""

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jobs import balance as balance_job
from jobs import check_tables, deliver, ingest, micro_batch, plan, quarantine, repartition, replay
from pststream.airflow.tasks.summaries import moves_table, summarize_balance
from pststream.base.errors import RetryableError
from pststream.pipeline.jobs import job as submitter_watch
from pststream.pipeline.jobs.job import Job, argument, drop_empty, setting
from pststream.pipeline.replan import make_plan
from pststream.settings import Settings
from pststream.state.home import RUNNER, Home

JOBS = Path(__file__).parents[2] / "jobs"
LONGEST = 30
"""Lines of a job, with its docstring."""


class Work:
    """Stands in for the function of a job: records what it is called with, and returns a document."""

    def __init__(self, document: Any = None) -> None:
        self.document: Any = document or {}
        self.calls: list[dict[str, Any]] = []
        self.positions: list[tuple[Any, ...]] = []
        self.settings: list[Settings] = []

    def __call__(self, home: Home, settings: Settings, *positions: Any, **given: Any) -> Any:
        given.pop("progress")
        self.calls.append(given)
        self.positions.append(positions)
        self.settings.append(settings)
        return self.document


def outcome_of(job: Job, folder: Path, *words: str) -> dict[str, Any]:
    """Run a job; return its outcome, whose exit code is that of the job."""
    result = folder / "result.json"
    code = job([f"--result={result}", *words])
    outcome: dict[str, Any] = json.loads(result.read_text("utf-8"))
    assert list(folder.iterdir()) == [result] and outcome["exit_code"] == code
    return outcome


def calls_of(job: Job, monkeypatch: pytest.MonkeyPatch, *words: str, document: Any = None) -> dict[str, Any]:
    """Run a job with a stand-in for its function; return what the function gets by name."""
    work = Work(document)
    monkeypatch.setattr(job, "_work", work)
    assert job(words) == 0
    return work.calls[0]


def test_no_job_calls_the_command_line_and_each_is_short() -> None:
    for file in JOBS.glob("*.py"):
        text = file.read_text("utf-8")
        imported = [node.module or "" for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
        assert not [name for name in imported if name.startswith(("pststream.cli", "jobs"))], file
        assert len(text.splitlines()) <= LONGEST, file


def test_fields_left_empty_are_not_passed_on(tmp_path: Path) -> None:
    work = Work({"batches": []})
    job = Job("match", None, work, argument("--one", action="store_true"), setting("--max-objects", "max_objects"))
    outcome = outcome_of(job, tmp_path, "--home=h", "--max-objects=", "", "--one")
    assert outcome == {"command": "match", "exit_code": 0, "error": None, "result": {"batches": []}}
    assert work.calls == [{"one": True}]
    assert work.settings == [Settings()]


def test_an_argument_may_override_a_setting(tmp_path: Path) -> None:
    work = Work()
    job = Job("match", None, work, setting("--max-objects", "max_objects"))
    outcome_of(job, tmp_path, "--home=h", "--max-objects=7")
    assert (work.settings[0].max_objects, work.calls) == (7, [{}])
    refused = outcome_of(job, tmp_path, "--home=h", "--max-objects=0")
    assert (refused["exit_code"], refused["kind"]) == (2, "SettingError")
    assert "max_objects: 0 is less than 1" in refused["error"]


def test_a_value_may_look_like_an_option() -> None:
    assert drop_empty(["--home=--odd=", "--column=text=a", "--x", "--planner=", ""]) == [
        "--home=--odd=", "--column=text=a", "--x",
    ]  # fmt: skip


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--strict"], 3)])
def test_rejects_have_no_error_and_under_strict_a_code(tmp_path: Path, words: list[str], code: int) -> None:
    job = Job("ingest", None, Work({"rejected": 1}), unclean=lambda document: bool(document["rejected"]))
    outcome = outcome_of(job, tmp_path, *words)
    assert outcome == {"command": "ingest", "exit_code": code, "error": None, "result": {"rejected": 1}}


def test_what_is_wrong_in_a_document_is_a_failure_with_the_last_lines_of_the_log(tmp_path: Path, capsys: Any) -> None:
    def work(home: Home, settings: Settings, progress: Any) -> dict[str, Any]:
        for number in range(100):
            progress(f"line {number}")
        return {"sinks": {}}

    outcome = outcome_of(Job("deliver", None, work, failed=lambda document: True), tmp_path)
    assert (outcome["exit_code"], outcome["kind"], outcome["result"]) == (1, None, {"sinks": {}})
    assert outcome["error"].splitlines() == [f"line {number}" for number in range(80, 100)]
    assert len(capsys.readouterr().err.splitlines()) == 100
    outcome = outcome_of(Job("deliver", None, Work(), failed=lambda document: True), tmp_path)
    assert outcome["error"] == "pststream deliver ended with 1"


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RetryableError("the table is locked", "run it again"), 1, "the table is locked\n  run it again"),
        (RuntimeError("disk full at https://me:word@host/x"), 1, "RuntimeError: disk full at https://***@host/x"),
    ],
)
def test_an_error_is_one_of_the_outcome(tmp_path: Path, capsys: Any, error: Exception, code: int, text: str) -> None:
    def breaks(home: Home, settings: Settings, progress: Any) -> None:
        raise error

    outcome = outcome_of(Job("match", None, breaks), tmp_path)
    kind = type(error).__name__
    assert outcome == {"command": "match", "exit_code": code, "error": text, "kind": kind, "result": None}
    said = capsys.readouterr().err
    assert ("Traceback" in said) == (kind == "RuntimeError") and "word" not in said


def test_the_kind_of_error_is_kept(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.init()
    (tmp_path / "landing").mkdir()
    (tmp_path / "out").mkdir()
    with home.locked(RUNNER):
        words = (f"--home={home.path}", f"--landing={tmp_path}/landing")
        outcome = outcome_of(micro_batch.main, tmp_path / "out", *words)
    assert (outcome["exit_code"], outcome["kind"]) == (1, "RunnerBusy")
    assert f"process {os.getpid()}" in outcome["error"]


@pytest.mark.parametrize("words", [["--from-version=many"], ["--unknown=1"], ["--kinds=none"]])
def test_a_bad_argument_is_refused_with_an_outcome(tmp_path: Path, words: list[str]) -> None:
    outcome = outcome_of(repartition.main, tmp_path, *words)
    assert (outcome["exit_code"], outcome["kind"]) == (2, "UsageError")
    assert words[0].partition("=")[0] in outcome["error"]


def test_micro_batch_runs_the_landing_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"ingest": {}, "questions": {"rejected": 0}}
    words = ("--home=h", "--landing=l", "--max-objects=5", "--strict", "--no-deliver")
    given = calls_of(micro_batch.main, monkeypatch, *words, document=document)
    assert given == {"landing": "l", "since": None, "only_if_idle": False, "no_deliver": True}


def test_micro_batch_finds_the_landing_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PSTSTREAM_LANDING", raising=False)
    words = (f"--home={tmp_path}/h", "--landing=")
    assert f"{tmp_path}/h/landing is not a folder" in outcome_of(micro_batch.main, tmp_path, *words)["error"]
    monkeypatch.setenv("PSTSTREAM_LANDING", "elsewhere")
    assert "elsewhere is not a folder" in outcome_of(micro_batch.main, tmp_path, *words)["error"]


def test_balance_proposes_unless_it_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"kind": "local", "dry_run": True, "method": "dp", "proposal": "p", "page": None}
    assert calls_of(balance_job.main, monkeypatch, "local", "--method=dp", "--sigma=2", "--proposal=p") == given
    applied = given | {"method": "gr", "dry_run": False}
    assert calls_of(balance_job.main, monkeypatch, "local", "--method=", "--apply", "--proposal=p") == applied


class Changes:
    """Replaces what `repartition` calls: records the calls of `balance`, of `make_plan` and of `plans show`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, made: dict[str, Any]) -> None:
        self.balance, self.plan, self.shown = Work(), Work(made), list[str]()
        monkeypatch.setattr(make_plan, "balance", self.balance)
        monkeypatch.setattr(make_plan, "make_plan", self.plan)
        monkeypatch.setattr(make_plan, "_plan_in_force", self._show)

    def _show(self, home: Home, kinds: str) -> dict[str, Any]:
        self.shown.append(kinds)
        return {"plan_version": 2, "worker_loads": [3.0], "workers": 8}


def test_repartition_is_a_balance_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = Changes(monkeypatch, {})
    words = ["--home=h", "--planner=grid", "--gain=0.2", "--workers=", "--proposal=p", "--page=q"]
    assert repartition.main(words) == 0
    assert repartition.main(["--home=", "--proposal=p", "--apply"]) == 0
    assert changes.balance.positions == [("global",), ("global",)] and not changes.plan.calls
    assert changes.balance.calls == [
        {"dry_run": True, "proposal": "p", "page": "q"},
        {"dry_run": False, "proposal": "p", "page": None},
    ]
    first, second = changes.balance.settings
    assert (first.planner, first.repartition_gain) == ("grid", 0.2)
    assert second == Settings()


def test_repartition_over_other_workers_is_a_proposal(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = Changes(monkeypatch, {})
    assert repartition.main(["--home=h", "--planner=grid", "--workers=4", "--proposal=p", "--apply"]) == 0
    assert changes.balance.positions == [("plan",)] and changes.balance.settings[0].workers == 4
    assert not changes.plan.calls


def test_repartition_by_a_sample_of_versions_is_a_plan_in_the_form_of_a_balance(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    figures = {"plan_version": 3, "planner": "grid", "workers": 4, "units": 9, "worker_loads": [1.0, 2.0], "seconds": 1}
    changes = Changes(monkeypatch, figures)
    words = ["--home=h", "--planner=grid", "--workers=4", "--from-version=1", "--gain=0.2", "--proposal=p", "--page=q"]
    result = outcome_of(repartition.main, tmp_path, *words)["result"]
    assert (result["kind"], result["dry_run"], result["plan_version_before"]) == ("plan", True, 2)
    assert (result["plan_version_after"], result["load_before"], result["load_after"]) == (3, [3.0], [1.0, 2.0])
    assert (result["moves"], result["moved_bytes"]) == ([], None)
    assert repartition.main([*words, "--apply"]) == 0
    assert changes.plan.positions == [("grid", "range,knn")] * 2 and changes.shown == ["range,knn"] * 2
    versions = {"from_version": 1, "to_version": None}
    assert changes.plan.calls == [{"dry_run": dry_run, **versions} for dry_run in (True, False)]
    assert [settings.workers for settings in changes.plan.settings] == [4, 4]


def test_repartition_with_a_planner_of_topk_is_a_plan_of_topk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of `hash` the plan has no loads."""
    changes = Changes(monkeypatch, {"plan_version": 3, "planner": "hash", "units": 16, "seconds": 1})
    result = outcome_of(repartition.main, tmp_path, "--home=h", "--planner=hash", "--proposal=p")["result"]
    assert changes.plan.positions == [("hash", "topk")] and changes.shown == ["topk"]
    assert (result["reason"], result["load_before"]) == ("requested: hash over topk, 16 units", [])
    made = {"plan_version": 3, "planner": "prefix", "units": 2, "unit_loads": [1.0, 2.0], "seconds": 1}
    changes = Changes(monkeypatch, made)
    result = outcome_of(repartition.main, tmp_path, "--planner=prefix", "--workers=2", "--apply")["result"]
    assert changes.plan.positions == [("prefix", "topk")] and changes.plan.settings[0].workers == 2
    assert result["load_after"] == [1.0, 2.0] and moves_table(summarize_balance({"result": result}))


def test_repartition_makes_the_plan_of_the_kinds_of_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = Changes(monkeypatch, {"plan_version": 3, "planner": "hash", "workers": 2, "units": 2, "seconds": 1})
    assert repartition.main(["--home=h", "--planner=hash", "--kinds=range,knn", "--gain=0.2"]) == 0
    assert [settings.planner for settings in changes.balance.settings] == ["hash"] and not changes.plan.calls
    assert repartition.main(["--planner=hash", "--kinds=range,knn", "--workers=2", "--apply"]) == 0, (
        "it builds a new index"
    )
    assert repartition.main(["--home=h", "--planner=", "--kinds=topk", "--gain=0.2"]) == 0
    assert changes.plan.positions == [("hash", "range,knn"), (None, "topk")]
    assert len(changes.balance.calls) == 1


def test_a_planner_that_does_not_serve_the_kinds_is_refused(tmp_path: Path) -> None:
    for job, words in ((repartition, ["--planner=voronoi"]), (plan, ["--planner=voronoi"])):
        outcome = outcome_of(job.main, tmp_path, *words)
        assert outcome["exit_code"] == 2 and "'voronoi' does not serve range,knn" in outcome["error"]


def test_quarantine_passes_the_numbers_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given = calls_of(quarantine.main, monkeypatch, "--home=h", "--action=discard", "--holds= 3, 14 5 ")
    assert given == {"action": "discard", "holds": [3, 14, 5]}


def test_ingest_passes_the_paths_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given = calls_of(ingest.main, monkeypatch, "requests", "a.csv", "b.csv", "--owner=x", "--home=h")
    assert given == {"kind": "requests", "paths": ["a.csv", "b.csv"], "owner": "x"}


def test_a_check_that_fails_is_a_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(check_tables.main, "_work", work := Work({"success": False, "checks": []}))
    outcome = outcome_of(check_tables.main, tmp_path, "--home=h", "--all")
    assert (outcome["exit_code"], outcome["result"]) == (0, work.document) and work.calls == [{"everything": True}]


@pytest.mark.parametrize(
    ("job", "words", "document"),
    [
        (deliver, [], {"sinks": {"a": {"state": "down", "refused": 0, "batches_left": 1}}}),
        (replay, ["--last=1", "--proposal=p", "--page=q"], {"matches_equal": False}),
    ],
)
def test_a_delivery_or_a_replay_that_finds_something_wrong_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, job: Any, words: list[str], document: Any
) -> None:
    monkeypatch.setattr(job.main, "_work", Work(document))
    outcome = outcome_of(job.main, tmp_path, "--home=h", *words)
    assert (outcome["exit_code"], outcome["result"]) == (1, document)


def test_an_ended_process_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    assert submitter_watch.is_alive(os.getpid())
    deadline = time.monotonic() + 30
    while submitter_watch.is_alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not submitter_watch.is_alive(process.pid), "ended, not collected"
    process.wait()
    assert not submitter_watch.is_alive(process.pid)


def test_a_job_ends_with_its_submitter() -> None:
    submitter = subprocess.Popen(["sleep", "600"])
    watch = "from pststream.pipeline.jobs.job import end_with_submitter; end_with_submitter()"
    code = f"{watch}; import time; time.sleep(600)"
    job = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {submitter_watch.SUBMITTERS: f"{os.getpid()},{submitter.pid}"},
        cwd=Path(__file__).parents[2],
    )
    try:
        time.sleep(2)
        assert job.poll() is None
        submitter.kill()
        submitter.wait()
        assert job.wait(300) == submitter_watch.EXIT_CODE
    finally:
        for process in (submitter, job):
            process.kill()
            process.wait()


def test_a_question_of_a_page_ends_beyond_its_memory(tmp_path: Path) -> None:
    program = (
        "import time\n"
        "from pststream.pipeline.jobs import landing\n"
        "from pststream.pipeline.jobs.job import Job\n"
        "def work(home, settings, progress, abort):\n"
        "    landing.abort_beyond(500_000_000, abort)\n"
        "    use_memory()\n"
        "def use_memory():\n"
        "    kept = [bytes(b'1' * 50_000_000) for _ in range(6)]\n"
        "    time.sleep(1)\n"
        "    print('within', flush=True)\n"
        "    kept += [bytes(b'1' * 50_000_000) for _ in range(6)]\n"
        "    time.sleep(60)\n"
        f"Job('ask', None, work, can_abort=True)([{f'--result={tmp_path}/result.json'!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300
    )
    outcome = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert done.returncode == outcome["exit_code"] == 1 and done.stdout.startswith("within")
    assert "more memory than read_memory_bytes" in outcome["error"]
