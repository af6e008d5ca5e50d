"""Generate demo data, ingest and match it in a new home, ask about it, write a report page (`pststream demo`)."""

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pststream.base.errors import UsageError
from pststream.base.progress import Progress
from pststream.input.suite_files import default_suites
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest
from pststream.reports.pages.report_page import write_report
from pststream.reports.reading.standing_answers import StandingAnswers
from pststream.search.ask import answer_for_page
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.storage.registry import local_path, normalize
from pststream.tables.delta_tables import TableReader
from pststream.workloads.demo_files import demo_questions, standing_subscriptions, write_demo

SEED = 2017
MARKER = ".pststream-demo"
"""Name of the file that marks a folder as a demo's, which the next demo replaces."""


def demo(out: str, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Generate data below `out`, run the main job on it, write `out`/report.html.

    Replaces a folder that an earlier demo made (it has the file MARKER); refuses any other folder that is not empty.
    """
    began, settings = time.perf_counter(), replace(settings, max_ahead_seconds=0)  # the data has times of its own
    if local_path(normalize(out)) is None:
        raise UsageError(f"{out}: the demo makes a folder", "give one; a home in a bucket: pststream init, run")
    folder = Path(out)
    landing, home = folder / "landing", Home(folder / "home")
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).exists():
        raise UsageError(f"{out} is a folder with other things in it", "give another folder: pststream demo --out DIR")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()
    for part in (landing, Path(home.path)):
        shutil.rmtree(part, ignore_errors=True)
    progress("generating objects and subscriptions")
    files = write_demo(landing, SEED)
    home.init(settings.answer_buckets, default_suites(), settings.home_group)
    first, later = files.requests[:1] + files.answer_requests, files.requests[1:]
    half = len(files.objects) // 2
    ingest(home, settings, "requests", first, ReaderOptions(), progress)
    ingest(home, settings, "objects", files.objects[:half], ReaderOptions(), progress)
    first_match = match(home, settings, progress=progress)
    ingest(home, settings, "requests", later, ReaderOptions(), progress)
    ingest(home, settings, "objects", files.objects[half:], ReaderOptions(), progress)
    second_match = match(home, settings, progress=progress)
    report = folder / "report.html"
    progress("answering questions")
    answers = [replace(answer_for_page(home, settings, record), title=title) for title, record in demo_questions()]
    progress("writing the report")
    write_report(home.path, str(report), answers)
    return {
        "objects": first_match["objects"] + second_match["objects"],
        "subscriptions": files.request_rows + len(standing_subscriptions()),
        "matches": first_match["matches"] + second_match["matches"],
        "batches": first_match["batches"] + second_match["batches"],
        "questions": len(answers),
        "answers": _summarize_answers(home),
        "home": home.path,
        "report": str(report.absolute()),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _summarize_answers(home: Home) -> list[dict[str, Any]]:
    """Return {"subscription_id", "kind", "rows", "first"} of each answer; first: the object or the word at rank 1."""
    answers: dict[str, dict[str, Any]] = {}
    for table in StandingAnswers(TableReader(home)).answers():
        for row in table.to_pylist():
            summary = {name: row[name] for name in ("subscription_id", "kind")}
            answer = answers.setdefault(row["subscription_id"], {**summary, "rows": 0, "first": None})
            answer["rows"] += 1
            if row["rank"] == 1:
                answer["first"] = row["term"] or row["object_id"]
    return sorted(answers.values(), key=lambda answer: str(answer["subscription_id"]))
