"""Judge pandas frames by the suites of a home with Great Expectations, and write the Data Docs of the run.

Only this module loads the library, which takes 3 s of CPU time and 255 MB, and only for a home that has suites. Its
context is ephemeral: it has no files but the Data Docs, uses no network and sends no usage statistics.
"""

import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pststream.base.errors import SuiteError
from pststream.base.optional_packages import needs_extra
from pststream.base.texts import counted
from pststream.input.data_docs import JudgedPage, write_site
from pststream.input.expectations import CheckResult, CheckResults
from pststream.input.suite_files import ExpectationText, Suite, make_example, read_suites
from pststream.storage.contract import Files

if TYPE_CHECKING:
    import pandas as pd

SHOWN_VALUES = 3
LONGEST_VALUE = 60
LONGEST_PROBLEM = 300
PAGE_VALUES, PAGE_CHARACTERS = 20, 1_000
"""Bounds of a page: values of an expectation, characters of a value."""

NUMBER = "number"
"""Key of an expectation's meta: its number in the suite."""


@dataclass(frozen=True)
class SuiteResult(CheckResults):
    """The results of one suite on one frame, in the order of its expectations."""

    suite: Suite

    @property
    def reasons(self) -> list[str]:
        """A sentence for each expectation that was not met."""
        return [f"suite {self.suite.name}: {one.sentence}" for one in self.results if not one.success]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Name, value and success of each expectation, as the table `quality_results` has them."""
        return [{"name": one.name, "value": one.value, "success": one.success} for one in self.results]


def load_suites(files: Files, home: str, subject: str) -> list[Suite]:
    """Read the suites of a subject and check them completely, before any work; without suites nothing is loaded.

    Raises SuiteError for a suite that cannot be used, MissingExtra if Great Expectations is not installed.
    """
    suites = read_suites(files, home, subject)
    for suite in suites:
        check_suite(suite)
    return suites


@lru_cache(maxsize=256)
def check_suite(suite: Suite) -> None:
    """Raise SuiteError if the library refuses an expectation of a suite, or cannot compute it on the example rows."""
    (judged,) = judge_frame([suite], make_example(suite.subject), "example")
    for ordinal, (one, result) in enumerate(zip(suite.expectations, judged.results, strict=True), start=1):
        if result.problem is not None:
            raise SuiteError(suite.path, f"expectation {ordinal}, {one}", result.problem, "correct or remove the file")


def judge_frame(
    suites: Sequence[Suite], frame: "pd.DataFrame", label: str, site: Path | None = None
) -> list[SuiteResult]:
    """Judge a frame by suites of one subject; return the results in the order of the suites.

    label  letters, digits, - _ and .: the name of the frame in the Data Docs
    site   a folder, to which pages with the results are added; None: no pages

    Raises SuiteError for arguments that the library refuses. Each call has a context of its own, because a context
    keeps the frames that it has seen.
    """
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with needs_extra("quality"):
        import great_expectations as library
    context = _make_context(library, site)
    rows = context.data_sources.add_pandas("home").add_dataframe_asset(label)
    batch = rows.add_batch_definition_whole_dataframe("rows")
    definitions = []
    for suite in suites:
        built = context.suites.add(_build(library, suite))
        definition = library.ValidationDefinition(name=suite.name, data=batch, suite=built)
        definitions.append(context.validation_definitions.add(definition))
    shown = {"result_format": "SUMMARY", "partial_unexpected_count": PAGE_VALUES}
    checkpoint = context.checkpoints.add(
        library.Checkpoint(name=label, validation_definitions=definitions, result_format=shown, actions=[])
    )
    try:
        run_id = library.RunIdentifier(run_name=label)
        outcome = checkpoint.run(batch_parameters={"dataframe": frame}, run_id=run_id)
    except MemoryError:
        raise
    except Exception as error:  # the library catches errors of its expectations, but not all of its own
        problem = _show(f"{type(error).__name__}: {error}", LONGEST_PROBLEM)
        return [
            SuiteResult(tuple(_not_computed(one, problem) for one in suite.expectations), suite) for suite in suites
        ]
    by_name = {one.suite_name: one for one in outcome.run_results.values()}
    results = []
    for suite in suites:  # the library may change the order of the expectations
        by_ordinal = {result.expectation_config.meta[NUMBER]: result for result in by_name[suite.name].results}
        listed = enumerate(suite.expectations, start=1)
        results.append(SuiteResult(tuple(_read_expectation(one, by_ordinal[n]) for n, one in listed), suite))
    if site is not None:
        _build_pages(context, outcome)
    return results


def _build_pages(context: Any, outcome: Any) -> None:
    """Write the pages with the results. The library puts values of the data into them as they are, so escape them."""
    for key, judged in outcome.run_results.items():
        for one in judged.results:
            one.result, one.exception_info = _escape(one.result), _escape(one.exception_info)
            if "element_count" not in one.result:  # of distinct values; the library's page takes them for rows
                one.result.pop("unexpected_count", None)
        context.validation_results_store.set(key, judged)
    context.build_data_docs(build_index=False)


def _escape(value: Any) -> Any:
    """Return a value with each text in it as HTML writes it; long lists and texts are cut."""
    if isinstance(value, dict):
        return {key: _escape(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_escape(one) for one in value[:PAGE_VALUES]]
    return escape(_show(value, PAGE_CHARACTERS)) if isinstance(value, str) else value


def _make_context(library: Any, site: Path | None) -> Any:
    """Make a context that keeps everything in memory, but the pages in the site."""
    from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults

    backend = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(site)}
    docs = {
        "class_name": "SiteBuilder",
        "store_backend": backend,
        "site_section_builders": {"expectations": "none", "profiling": "none"},
        "show_how_to_buttons": False,
    }
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        data_docs_sites={} if site is None else {"home": docs},
        analytics_enabled=False,
        progress_bars={"globally": False},
    )
    return library.get_context(mode="ephemeral", project_config=config)


def _build(library: Any, suite: Suite) -> Any:
    """Return the suite as the library has it; raises SuiteError for arguments that it refuses."""
    built = library.ExpectationSuite(suite.name)
    for ordinal, one in enumerate(suite.expectations, start=1):
        name = "".join(word.capitalize() for word in one.type.split("_"))
        described = {} if one.description is None else {"description": escape(one.description)}
        try:
            expectation = getattr(library.expectations, name)(**one.arguments, **described, meta={NUMBER: ordinal})
        except (ValueError, TypeError) as error:  # pydantic's error is a ValueError
            lines = [line.strip() for line in str(error).splitlines()]  # the argument and the fault, after a head
            problem = "; ".join(lines[1:] or lines)[:LONGEST_PROBLEM]
            raise SuiteError(suite.path, f"expectation {ordinal}, {one.type}", problem) from None
        built.expectations.append(expectation)
    return built


def _not_computed(one: ExpectationText, problem: str) -> CheckResult:
    return CheckResult(str(one), None, False, f"{one} cannot be computed: {problem}", problem)


def _read_expectation(one: ExpectationText, judged: Any) -> CheckResult:
    problem = _read_problem(judged.exception_info)
    figures = judged.result or {}
    if problem is not None:
        return _not_computed(one, problem)
    if "element_count" in figures:
        value, count = figures["unexpected_count"], figures["element_count"]
        examples = _show_examples(figures.get("partial_unexpected_list") or [])
        sentence = f"{one} is not met: {value:,} of {counted(count, 'row')} do not meet it{examples}"
    else:
        value = figures.get("observed_value")
        sentence = f"{one} is not met: {_describe_sets(figures) or f'the value is {_show(value)}'}"
    return CheckResult(str(one), _number(value), bool(judged.success), sentence)


def _describe_sets(figures: dict[str, Any]) -> str:
    """Return which distinct values are not in the set of an expectation, and which are missing; empty without any."""
    counts = {"not in the set": "unexpected", "missing": "missing"}
    return "; ".join(
        f"{counted(count, 'value')} {text}{_show_examples(figures.get(f'partial_{key}_list') or [])}"
        for text, key in counts.items()
        if (count := figures.get(f"{key}_count"))
    )


def _read_problem(info: Any) -> str | None:
    """Return the message of the exception that an expectation raised; the library nests it by figure."""
    if not info:
        return None
    if "raised_exception" in info:
        return _show(info["exception_message"], LONGEST_PROBLEM) if info["raised_exception"] else None
    return next((problem for problem in map(_read_problem, info.values()) if problem), None)


def _number(value: Any) -> float | None:
    """Return a finite number as Python's own; None for anything else."""
    plain = value.item() if hasattr(value, "item") else value
    return float(plain) if isinstance(plain, int | float) and isfinite(plain) else None


def _show_examples(values: list[Any]) -> str:
    given = list(dict.fromkeys(_show(value) for value in values if value is not None))
    return f", such as {', '.join(given[:SHOWN_VALUES])}" if given else ""


def _show(value: Any, longest: int = LONGEST_VALUE) -> str:
    text = str(value)
    return text if len(text) <= longest else f"{text[:longest]}…"


def judge_frames(
    files: Files, home: str, suites: Sequence[Suite], frames: Iterable[tuple[str, "pd.DataFrame"]]
) -> tuple[list[list[SuiteResult]], str]:
    """Judge frames of one subject, one after the other; return their results and the address of the index page.

    home    its address, which the address of the page begins with
    frames  each with its title, a text of any characters
    """
    results, pages = [], []
    with tempfile.TemporaryDirectory(prefix="pststream-") as folder:
        for ordinal, (title, frame) in enumerate(frames, start=1):
            label = f"{ordinal}-{re.sub(r'[^A-Za-z0-9_.-]', '_', title)[-80:]}"
            of_frame = judge_frame(suites, frame, label, Path(folder))
            results.append(of_frame)
            pages += [JudgedPage(title, label, one.suite.name, tuple(one.reasons)) for one in of_frame]
        index = write_site(files, Path(folder), suites[0].subject, pages)
    return results, f"{home}/{index}"
