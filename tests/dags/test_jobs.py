"""The entries of jobs/ pass arguments to commands, write a result file, and end with their submitter."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jobs import check_tables, entry, micro_batch, quarantine, repartition, submitter_watch
from pststream.airflow.tasks.summaries import moves_table, summarize_balance
from pststream.cli import main as cli
from pststream.state.home import RUNNER, Home

JSON = ("--json", "--verbose")


class Commands:
    """Replaces `pststream`: records the arguments, and prints a given answer."""

    def __init__(self, code: int = 0, document: Any = None, error: str = "") -> None:
        self.calls: list[list[str]] = []
        self.code, self.document, self.error = code, document or {}, error

    def __call__(self, arguments: list[str]) -> int:
        self.calls.append(arguments)
        print(json.dumps(self.document))
        sys.stderr.write(self.error)
        return self.code


def stand_in(monkeypatch: pytest.MonkeyPatch, **answer: Any) -> Commands:
    commands = Commands(**answer)
    monkeypatch.setattr(cli, "main", commands)
    return commands


def test_fields_left_empty_are_not_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands = stand_in(monkeypatch, document={"batches": []})
    result = tmp_path / "result.json"
    code = entry.main("match", None, [f"--result={result}", "--home=h", "--max-objects=", "", "--one"])
    assert code == 0
    assert commands.calls == [["match", "--json", "--verbose", "--home=h", "--one"]]
    assert json.loads(result.read_text()) == {
        "command": "match", "exit_code": 0, "error": None, "result": {"batches": []},
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == [result]


def test_a_value_may_look_like_an_option() -> None:
    assert entry.drop_empty(["--home=--odd=", "--column=text=a", "--x", "--planner=", ""]) == [
        "--home=--odd=", "--column=text=a", "--x",
    ]  # fmt: skip


@pytest.mark.parametrize("code", [0, 3])
def test_done_has_no_error(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    stand_in(monkeypatch, code=code, document={"rows": 1}, error="progress\n")
    assert entry.run("ingest", []) == {"command": "ingest", "exit_code": code, "error": None, "result": {"rows": 1}}


def test_the_error_is_that_of_the_command(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    stand_in(monkeypatch, code=2, document={"error": "setting workers: 0 is less than 1"}, error="pststream: …\n")
    outcome = entry.run("plan", [])
    assert outcome["error"] == "setting workers: 0 is less than 1"
    assert outcome["result"] is None
    assert capsys.readouterr().err == "pststream: …\n"


def test_without_a_document_the_last_lines_are_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, code=1, error="".join(f"line {n}\n" for n in range(100)))
    error = entry.run("plan", [])["error"]
    assert error.splitlines() == [f"line {n}" for n in range(80, 100)]


def test_an_exception_is_a_failure_that_may_be_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: list[str]) -> int:
        raise RuntimeError("disk full")

    monkeypatch.setattr(cli, "main", breaks)
    outcome = entry.run("match", [])
    assert outcome["exit_code"] == 1
    assert "RuntimeError: disk full" in outcome["error"]


def test_the_kind_of_error_is_kept(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.init()
    (tmp_path / "landing").mkdir()
    with home.locked(RUNNER):
        outcome = entry.run("run", ["--home", home.path, str(tmp_path / "landing")])
    assert (outcome["exit_code"], outcome["kind"]) == (1, "RunnerBusy")
    assert f"process {os.getpid()}" in outcome["error"]


def test_a_bad_argument_is_refused_by_the_command_itself() -> None:
    outcome = entry.run("plan", ["--workers=many"])
    assert outcome["exit_code"] == 2
    assert "--workers" in outcome["error"]


def test_micro_batch_runs_the_landing_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = {"questions": {"files": 0}}
    commands = stand_in(monkeypatch, document={"match": {"batches": [{"batch_id": 1}]}} | answered)
    monkeypatch.setattr(micro_batch, "version", lambda home, table: 7)
    assert micro_batch.main(["--home=h", "--landing=-l", "--max-objects=5", "--strict"]) == 0
    assert commands.calls == [
        ["run", "--json", "--verbose", "--home=h", "--max-objects=5", "--strict", "--", "-l"],
        ["balance", "--json", "--verbose", "check", "--home=h"],
    ]
    commands = stand_in(monkeypatch, document={"match": {"batches": []}} | answered)
    assert micro_batch.main(["--home=h", "--landing=-l"]) == 0
    assert [call[0] for call in commands.calls] == ["run"], "nothing new: nothing to look at"


def test_micro_batch_finds_the_landing_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = stand_in(monkeypatch, code=1)
    monkeypatch.delenv("PSTSTREAM_LANDING", raising=False)
    assert micro_batch.main(["--home=h", "--landing="]) == 1
    monkeypatch.setenv("PSTSTREAM_LANDING", "l")
    assert micro_batch.main(["--home="]) == 1
    assert [call[-1] for call in commands.calls] == [str(Path("h/landing").absolute()), "l"]


def test_repartition_is_a_balance_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = stand_in(monkeypatch)
    assert repartition.main(["--home=h", "--planner=grid", "--gain=0.2", "--workers=", "--proposal=p", "--page=q"]) == 0
    assert repartition.main(["--home=", "--proposal=p", "--apply"]) == 0
    assert commands.calls == [
        [
            "balance",
            "--json",
            "--verbose",
            "global",
            "--dry-run",
            "--home=h",
            "--gain=0.2",
            "--proposal=p",
            "--page=q",
            "--planner=grid",
        ],
        ["balance", "--json", "--verbose", "global", "--apply", "--proposal=p"],
    ]


def test_repartition_over_other_workers_is_a_plan_in_the_form_of_a_balance(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    figures = {"plan_version": 3, "planner": "grid", "workers": 4, "units": 9, "worker_loads": [1.0, 2.0], "seconds": 1}
    commands = stand_in(monkeypatch, document=figures)
    arguments = ["--home=h", "--planner=grid", "--workers=4", "--gain=0.2", "--proposal=p", "--page=q"]
    assert repartition.main([f"--result={tmp_path}/r", *arguments]) == 0
    assert commands.calls == [
        ["plans", "--json", "--verbose", "show", "--home=h"],
        ["plan", "--json", "--verbose", "--home=h", "--workers=4", "--planner=grid", "--dry-run"],
    ]
    result = json.loads((tmp_path / "r").read_text())["result"]
    assert (result["kind"], result["dry_run"], result["plan_version_after"]) == ("plan", True, 3)
    assert (result["load_after"], result["moves"], result["moved_bytes"]) == ([1.0, 2.0], [], None)
    assert repartition.main([*arguments, "--apply"]) == 0
    assert commands.calls[-1] == ["plan", "--json", "--verbose", "--home=h", "--workers=4", "--planner=grid"]


def test_repartition_with_a_planner_of_topk_is_a_plan_of_topk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of `hash` the command gives no loads."""
    commands = stand_in(monkeypatch, document={"plan_version": 3, "planner": "hash", "units": 16, "seconds": 1})
    assert repartition.main([f"--result={tmp_path}/r", "--home=h", "--planner=hash", "--proposal=p", "--gain=0.2"]) == 0
    assert commands.calls == [
        ["plans", "--json", "--verbose", "show", "--home=h", "--kinds=topk"],
        ["plan", "--json", "--verbose", "--home=h", "--planner=hash", "--dry-run"],
    ]
    result = json.loads((tmp_path / "r").read_text())["result"]
    assert (result["reason"], result["load_before"]) == ("requested: hash over topk, 16 units", [])
    made = {"plan_version": 3, "planner": "prefix", "units": 2, "unit_loads": [1.0, 2.0], "seconds": 1}
    commands = stand_in(monkeypatch, document=made)
    assert repartition.main([f"--result={tmp_path}/r", "--planner=prefix", "--workers=2", "--apply"]) == 0
    assert commands.calls[-1] == ["plan", "--json", "--verbose", "--workers=2", "--planner=prefix"]
    result = json.loads((tmp_path / "r").read_text())["result"]
    assert result["load_after"] == [1.0, 2.0] and moves_table(summarize_balance({"result": result}))


def test_repartition_makes_the_plan_of_the_kinds_of_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"plan_version": 3, "planner": "hash", "workers": 2, "units": 2, "seconds": 1}
    commands = stand_in(monkeypatch, document=made)
    assert repartition.main(["--home=h", "--planner=hash", "--kinds=range,knn", "--gain=0.2"]) == 0
    regions = ["--planner=hash", "--kinds=range,knn"]
    assert commands.calls == [["balance", *JSON, "global", "--dry-run", "--home=h", "--gain=0.2", *regions]]
    assert repartition.main(["--planner=hash", "--kinds=range,knn", "--workers=2", "--apply"]) == 0
    assert commands.calls[1:] == [["plans", *JSON, "show"], ["plan", *JSON, "--workers=2", *regions]]
    assert repartition.main(["--home=h", "--planner=", "--kinds=topk", "--gain=0.2"]) == 0
    assert commands.calls[3:] == [
        ["plans", *JSON, "show", "--home=h", "--kinds=topk"],
        ["plan", *JSON, "--home=h", "--kinds=topk", "--dry-run"],
    ]


def test_quarantine_passes_the_numbers_on(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = stand_in(monkeypatch)
    assert quarantine.main(["--home=h", "--action=discard", "--holds= 3, 14 5 "]) == 0
    assert commands.calls == [["quarantine", "--json", "--verbose", "discard", "3", "14", "5", "--home=h"]]


def test_a_check_that_fails_is_a_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, code=1, document={"success": False, "checks": []})
    assert check_tables.main([f"--result={tmp_path}/r", "--home=h"]) == 0
    assert json.loads((tmp_path / "r").read_text())["result"] == {"success": False, "checks": []}
    stand_in(monkeypatch, code=1, document={"error": "home h: is in use by another command"})
    assert check_tables.main([f"--result={tmp_path}/r", "--home=h"]) == 1
    assert "in use" in json.loads((tmp_path / "r").read_text())["error"]


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
    code = "import time; from jobs.submitter_watch import end_with_submitter; end_with_submitter(); time.sleep(600)"
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
        "from jobs import ask\n"
        f"ask.end_beyond(500_000_000, {str(tmp_path / 'result.json')!r})\n"
        "kept = [bytes(b'1' * 50_000_000) for _ in range(6)]\n"
        "time.sleep(1)\n"
        "print('within', flush=True)\n"
        "kept += [bytes(b'1' * 50_000_000) for _ in range(6)]\n"
        "time.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300
    )
    outcome = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert done.returncode == outcome["exit_code"] == 1 and done.stdout.startswith("within")
    assert "more memory than read_memory_bytes" in outcome["error"]
