"""The main job on data that it makes: a landing folder, a home, a page."""

import shutil
import time
from pathlib import Path
from typing import Any

from pststream.demo_data.demo_files import write_demo
from pststream.errors import UsageError
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest
from pststream.pipeline.planning.plan import plan
from pststream.progress import Progress
from pststream.reports.pages.report_page import write_report
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.storage.addresses import in_bucket, normal

SEED = 2017
OURS = ".pststream-demo"
"""Name of the file that marks a folder as a demo's, to be made anew by the next."""


def demo(out: str, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Make data below `out`, run the main job on it, write `out`/report.html.

    A folder that an earlier demo made (OURS is in it) is made anew; any other that is not empty is refused.
    """
    began = time.perf_counter()
    if in_bucket(normal(out)):
        raise UsageError(f"{out}: the demo makes a folder", "give one; a home in a bucket: pststream init, run")
    folder = Path(out)
    landing, home = folder / "landing", Home(folder / "home")
    if folder.exists() and any(folder.iterdir()) and not (folder / OURS).exists():
        raise UsageError(f"{out} is a folder with other things in it", "give another folder: pststream demo --out DIR")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / OURS).touch()
    for part in (landing, Path(home.path)):
        shutil.rmtree(part, ignore_errors=True)
    progress("making cities' texts and subscriptions")
    files = write_demo(landing, SEED)
    home.init()
    first, later = files.requests[:1], files.requests[1:]
    half = len(files.objects) // 2
    ingest(home, settings, "requests", first, ReaderOptions(), progress)
    ingest(home, settings, "objects", files.objects[:half], ReaderOptions(), progress)
    plan(home, settings, progress=progress)
    done = match(home, settings, progress=progress)
    ingest(home, settings, "requests", later, ReaderOptions(), progress)
    ingest(home, settings, "objects", files.objects[half:], ReaderOptions(), progress)
    rest = match(home, settings, progress=progress)
    report = folder / "report.html"
    progress("writing the page")
    write_report(home.path, str(report))
    return {
        "objects": done["objects"] + rest["objects"],
        "subscriptions": files.request_rows,
        "matches": done["matches"] + rest["matches"],
        "batches": done["batches"] + rest["batches"],
        "home": home.path,
        "report": str(report.absolute()),
        "seconds": round(time.perf_counter() - began, 1),
    }
