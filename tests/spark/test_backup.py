"""Backups made while batches run: each is a home that goes on to the same matches."""

import os
import shutil
from pathlib import Path

import pytest

from tests import worlds
from tests.command_process import CommandProcess
from tests.commands import KILLED, Home, new_home
from tests.kill_and_rerun import assert_as_the_twin, home_for, written


@pytest.mark.promise
@pytest.mark.slow
def test_a_home_copied_while_batches_run(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 51, 3)
    home = home_for(tmp_path / "home", world)
    home.ingest("requests", world.requests[:2])
    home.ingest("objects", world.objects[:2])
    running = CommandProcess(["match", "--max-objects", "3", "--home", home.path, "--quiet"], os.environ)
    states: dict[str, Path] = {}
    try:
        while running.poll() is None:
            out = tmp_path / f"backup-{len(list(tmp_path.iterdir()))}"
            versions = home.run("backup", "--out", out)["tables"]
            if str(versions) in states:
                shutil.rmtree(out)
            states.setdefault(str(versions), out)
    finally:
        running.kill()
    assert running.poll() == 0
    print(f"{len(states)} states of the home were copied")
    assert len(states) > 5
    copies = sorted(states.values())
    for out in {copies[0], copies[len(copies) // 3], copies[len(copies) // 2], copies[-1]}:
        restored = Home(tmp_path / "restored" / out.name)
        shutil.move(out, restored.path)
        restored.match()
        restored.ingest("requests", world.requests)
        restored.ingest("objects", world.objects)
        restored.match()
        assert_as_the_twin(restored, world.log, world.lateness_seconds)
        assert restored.run("check", "--all")["success"]


def test_a_backup_during_a_release_from_quarantine_goes_on(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", planner="grid", workers=1, gate_min_rows=1, gate_bad_share=0.01)
    good = {"object_id": "o", "ts": worlds.moment(1), "lon": 1.0, "lat": 2.0, "text": "tea"}
    bad = worlds.write_rows(tmp_path / "bad.jsonl", [good, {"object_id": "p"}])
    (hold,) = home.ingest("objects", [bad])["quarantined"]
    bad.unlink()
    assert home.crash("ingest.started", "quarantine", "release", str(hold["hold_id"])).code == KILLED
    home.run("backup", "--out", tmp_path / "backup")
    shutil.rmtree(home.path)
    shutil.move(tmp_path / "backup", home.path)
    home.run("match")
    home.ingest("objects", [worlds.write_rows(tmp_path / "next.jsonl", [good | {"object_id": "q"}])])
    assert home.run("status")["totals"]["objects"] == 2
