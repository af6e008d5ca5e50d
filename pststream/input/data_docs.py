"""Write the Data Docs of a run into the home, without scripts and links to other sites, and delete those of old runs.

The pages of Great Expectations load scripts and styles from other sites, and their index is empty without. Here a page
loads nothing: scripts, images and external links are removed, a policy in the page forbids them, a small style sheet
stands for the external ones, and the index is a page of this module.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from pststream.base.utc_times import utc_now
from pststream.storage.contract import Files

FOLDER = "data_docs"
INDEX = "index.html"
PASSED, FAILED = "passed", "failed"
KEPT = {PASSED: 20, FAILED: 200}
"""Number of runs whose Data Docs `maintain` keeps, by their outcome."""

RUN = re.compile(r"[0-9]{8}T[0-9]{12}-[a-z_]+-(?:passed|failed)")
PAGE = re.compile(r"(?:[\w.:+-]+/)*[\w.:+-]+\.html")

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""Content security policy: a page runs no script and loads nothing, not even what a text of the data asks for."""

_HEAD = f"""<head>
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 1.5em; max-width: 75em; }}
table {{ border-collapse: collapse; margin: .5em 0; }}
th, td {{ border: 1px solid #999; padding: .25em .6em; text-align: left; vertical-align: top; }}
.badge {{ border: 1px solid #999; border-radius: .3em; padding: 0 .3em; }}
.fa-times::before {{ content: "not met"; }}
.fa-check-circle::before {{ content: "met"; }}
nav.navbar {{ height: auto !important; }}
.col-lg-2 {{ display: none; }}
</style>"""
_REMOVED = re.compile(
    r"<script\b.*?</script\s*>|<footer\b.*?</footer>|<(?:link|img)\b[^>]*>", re.DOTALL | re.IGNORECASE
)
_SUITE_LINK = re.compile(r'<a href="[^"]*/expectations/[^"]*"[^>]*>(.*?)</a>')


@dataclass(frozen=True)
class JudgedPage:
    """A page of Great Expectations: title and label of the frame, the suite, a sentence for each unmet expectation."""

    title: str
    label: str
    suite: str
    reasons: tuple[str, ...]


def write_site(files: Files, site: Path, subject: str, pages: Sequence[JudgedPage]) -> str:
    """Write the pages of a local folder into the home; return the name of the index page, which is written last."""
    outcome = FAILED if any(page.reasons for page in pages) else PASSED
    run = f"{FOLDER}/{utc_now():%Y%m%dT%H%M%S%f}-{subject}-{outcome}"
    names = sorted(page.relative_to(site).as_posix() for page in site.rglob("*.html"))
    for name in names:
        files.write(f"{run}/{name}", make_inert((site / name).read_text("utf-8")).encode())
    files.write(f"{run}/{INDEX}", make_inert(_write_index(subject, pages, names)).encode())
    return f"{run}/{INDEX}"


def make_inert(page: str) -> str:
    """Return a page without scripts, external links and dead links, with the policy and the style sheet."""
    return _SUITE_LINK.sub(r"\1", _REMOVED.sub("", page)).replace("<head>", _HEAD, 1)


def _write_index(subject: str, pages: Sequence[JudgedPage], names: Sequence[str]) -> str:
    """Return a page with a line for each frame and suite, which links the page of Great Expectations."""
    rows = []
    for page in pages:
        folder = "/".join(filter(None, page.suite.split(".")))  # the library makes folders of a name with dots
        start = f"validations/{folder}/{page.label}/"
        target = next((name for name in names if name.startswith(start)), None)
        title = escape(page.title) if target is None else f'<a href="{escape(target)}">{escape(page.title)}</a>'
        result = "<br>".join(map(escape, page.reasons)) or "met"
        rows.append(f"<tr><td>{title}</td><td>{escape(page.suite)}</td><td>{result}</td></tr>")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Data Docs: {subject}</title>
</head>
<body>
<h1>Data Docs: {subject}</h1>
<p>Judged by suites of Great Expectations, {utc_now():%Y-%m-%d %H:%M:%S} UTC.</p>
<table>
<thead><tr><th>Rows of</th><th>Suite</th><th>Result</th></tr></thead>
<tbody>
{"".join(rows)}
</tbody>
</table>
</body>
</html>
"""


def delete_old_docs(files: Files) -> int:
    """Delete the Data Docs of all but the newest runs; return the number of runs deleted."""
    names = files.names(FOLDER)
    runs = sorted({name.split("/")[1] for name in names if name.count("/") > 1}, reverse=True)
    old: set[str] = set()
    for outcome, kept in KEPT.items():
        old.update([run for run in runs if run.endswith(f"-{outcome}")][kept:])
    files.delete(name for name in names if name.split("/")[1] in old)
    return len(old)


def read_page(files: Files, run: str, page: str) -> str | None:
    """Return a page of a run; None if there is none, or if the names are not those of a run and of a page."""
    if not RUN.fullmatch(run) or not PAGE.fullmatch(page) or ".." in page.split("/"):
        return None
    try:
        return files.read(f"{FOLDER}/{run}/{page}").decode("utf-8")
    except FileNotFoundError:
        return None
