"""Render the results page from the JSON documents of benchmarks: `python -m benchmarks.results_page DIR`.

Each document was printed by `pststream bench run NAME --scale SCALE --seed SEED --json --out DIR/NAME.json` and has all
figures. The page lists the documents with their machines, and each target, met or missed. Documents of one benchmark
with several seeds (`DIR/NAME-seed-2.json`, for example) are shown together.
"""

import json
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

PAGE = "README.md"
INTRO = """\
# Results

Each JSON document has every figure of a run, its baseline job (`floor`), its targets, the command's options and the
machine. `make results` runs all benchmarks again and renders this page. Where a benchmark ran with several seeds, a
value is the median of them with the least and the greatest, and a target is met if every seed meets it.
[The papers](../papers.md) describes the benchmarks and answers each figure of the five papers from these documents.
"""


def render(documents: dict[str, dict[str, Any]]) -> str:
    """Render the page of these documents, given by the names of their files."""
    runs: list[tuple[str, ...]] = [("benchmark", "documents", "seconds", "targets met", "missed")]
    targets: list[tuple[str, ...]] = [("benchmark", "target", "wanted", "measured", "")]
    in_order = sorted(documents, key=lambda file: (_title(documents[file]), documents[file]["seed"]))
    for title, files in groupby(in_order, key=lambda file: _title(documents[file])):
        group = {file: documents[file] for file in files}
        of_group = [_target_row(title, name, list(group.values())) for name in _targets(group)]
        links = ", ".join(f"[{document['seed']}]({file})" for file, document in group.items())
        seconds = _range([round(document["seconds"]) for document in group.values()])
        met = sum(row[-1] == "met" for row in of_group)
        runs.append((f"`{title}`", f"seed {links}", seconds, str(met or ""), str(len(of_group) - met or "")))
        targets += of_group
    return "\n".join([INTRO, _table(runs), "## Targets\n", _table(targets)])


def _title(document: dict[str, Any]) -> str:
    """Return the name of a benchmark, with the file of its objects if they are not synthetic."""
    objects = document.get("options", {}).get("objects")
    return str(document["name"]) + (f", objects of {objects}" if objects else "")


def _targets(group: dict[str, dict[str, Any]]) -> list[str]:
    """Return the names of the targets of a benchmark, in the order of its documents."""
    return list(dict.fromkeys(name for document in group.values() for name in document["targets"]))


def _target_row(title: str, name: str, documents: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Return the row of a target: what is wanted, what was measured, and whether every seed meets it."""
    targets = [document["targets"][name] for document in documents if name in document["targets"]]
    measured = [document["figures"][name] for document in documents if name in document["figures"]]
    met = all(target["met"] for target in targets)
    wanted = _format_value(targets[-1]["target"])
    return f"`{title}`", f"`{name}`", wanted, _spread(measured), "met" if met else "**missed**"


def _spread(values: Sequence[Any]) -> str:
    """Format the median of measured values, with the least and the greatest if they differ."""
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(set(numbers)) < 2:
        return _format_value(values[0]) if values else ""
    return f"{_format_value(round(median(numbers), 6))} ({_range(numbers)})"


def _range(values: Sequence[float]) -> str:
    """Format the least and the greatest value; one if they are equal."""
    least, greatest = map(_format_value, (min(values), max(values)))
    return least if least == greatest else f"{least} to {greatest}"


def _format_value(value: Any) -> str:
    if isinstance(value, float) and 0 < abs(value) < 0.001:
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    return "".join(
        f"|{'|'.join(cell or ' ' for cell in row)}|\n" for row in (rows[0], ("---",) * len(rows[0]), *rows[1:])
    )


def render_folder(folder: Path) -> str:
    """Render the page of all documents of a folder."""
    return render({path.name: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))})


if __name__ == "__main__":
    (Path(sys.argv[1]) / PAGE).write_text(render_folder(Path(sys.argv[1])), "utf-8")
