"""Run every kind of work on a home, and write what came of it; the same files give the same results anywhere.

Arguments: `write FOLDER` makes the files; `generate FOLDER` makes larger ones; `upload FOLDER ADDRESS` copies a folder
into a bucket; `run HOME LANDING FOLDER` works on files, where home and landing are folders or addresses, and writes
`results.json` in the folder; `match HOME LANDING FOLDER` does less: it ingests, matches, replays, erases and checks.
"""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pststream.storage.registry import files_at
from pststream.workloads.generate_files import write_objects, write_requests
from tests import worlds
from tests.bucket_home import BucketHome
from tests.commands import Home
from tests.standing_worlds import requests_of_all_kinds
from tests.unit.search.worlds import some_objects, some_question

QUESTIONS = 20
KINDS = ("range", "knn", "topk", "frequent_terms")


def write(folder: Path) -> None:
    """Write two landing folders, each with objects in all formats and one file that is quarantined, and questions."""
    rnd = random.Random(11)
    things = worlds.object_log(rnd, 600)
    asked = requests_of_all_kinds(rnd, 200)
    for number, (objects, requests) in enumerate(zip(worlds.cut(things, 2), worlds.cut(asked, 2)), 1):
        landing = folder / str(number)
        for kind in ("objects", "requests"):
            (landing / kind).mkdir(parents=True)
        for place, (format, rows) in enumerate(
            zip(worlds.OBJECT_FORMATS, worlds.cut(objects, len(worlds.OBJECT_FORMATS)))
        ):
            worlds.write_rows(landing / "objects" / f"objects-{place}.{format}", rows)
        (landing / "objects" / "objects-9.parquet").write_text(f"no Parquet {number}")
        worlds.write_rows(landing / "requests" / "requests-0.jsonl", requests)
    # A file that is read in parts, which begin in quotes.
    large = [row | {"object_id": f"l{n}", "text": 'tea "for two"\n' * 900} for n, row in enumerate(things * 6)]
    worlds.write_rows(folder / "2" / "objects" / "objects-a.csv", large)
    rows = some_objects(rnd, 400)
    questions = [{**some_question(rnd, rnd.choice(KINDS), rows), "question_id": str(n)} for n in range(QUESTIONS)]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)))


def generate(folder: Path) -> None:
    """Write a landing folder of 400,000 objects in eight files, and 50,000 subscriptions."""
    for kind in ("objects", "requests"):
        (folder / kind).mkdir(parents=True)
    for seed in range(8):
        write_objects(str(folder / "objects" / f"{seed}.parquet"), 50_000, seed)
    write_requests(str(folder / "requests" / "0.parquet"), 50_000, 8)


def upload(folder: Path, address: str) -> None:
    """Copy all files of a folder to an address."""
    files = files_at(address)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files.write(str(path.relative_to(folder)), path.read_bytes())


def run(address: str, landing: str, folder: Path, whole: bool) -> dict[str, Any]:
    """Work on a home until nothing is left; return its results without times and paths.

    whole: do every kind of work, not only ingest, match, replay and check
    """
    home = BucketHome(address, folder) if "://" in address else Home(Path(address))
    home.run("init")
    home.set(planner="kd_tree", workers=3, lateness_seconds=worlds.LATENESS_STEPS * 600, max_objects=2_000)
    results: dict[str, Any] = {}

    def step(name: str, *arguments: str | Path, only: tuple[str, ...] = (), code: int = 0) -> Any:
        began = time.monotonic()
        document = home.run(*arguments, code=code)
        print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        if only:
            results[name] = {key: document[key] for key in only}
        return document

    for number in "12":
        done = step(f"run {number}", "run", f"{landing}/{number}")
        results[f"run {number}"] = {
            kind: {"held": len(one["quarantined"])} | {key: one[key] for key in ("files", "accepted", "rejected")}
            for kind, one in done["ingest"].items()
        }
    step("replay", "replay", "--last", "2", "--planner", "grid", only=("matches_equal", "answers_equal", "batches"))
    if whole:
        step("again", "run", f"{landing}/2")
        step("plan", "plan", "--planner", "hybrid")
        step("balance", "balance", "global", "--apply")
        compared = step("compare", "plans", "compare", "--planners", "grid,text", "--objects", "1000")
        results["compare"] = {key: compared[key] for key in ("objects", "requests", "matches", "workers")}
        answered = folder / "answers.parquet"
        step("ask", "ask", folder / "questions.jsonl", "--out", answered)
        results["answers of questions"] = pq.read_table(answered).to_pylist()
    step("erase", "erase", "--object-id", "l7", "--object-id", "l8")
    if whole:
        step("maintain", "maintain")
    results["check"] = step("check", "check", "--all")["success"]
    results["matches"] = home.exported()
    results["rejects"] = sorted(f"{key}: {count}" for key, count in home.rejects().items())
    results["answers"] = step("answers", "answers", "--limit", "100000")
    left = [name for name in files_at(address).names() if name.startswith(("staging/", "scratch/", "compare/"))]
    results["left"] = left
    return results


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
    elif sys.argv[1] == "generate":
        generate(Path(sys.argv[2]))
    elif sys.argv[1] == "upload":
        upload(Path(sys.argv[2]), sys.argv[3])
    else:
        folder = Path(sys.argv[4])
        document = run(sys.argv[2], sys.argv[3], folder, sys.argv[1] == "run")
        (folder / "results.json").write_text(json.dumps(document, default=str, indent=1))
