"""Read questions from JSON Lines and Parquet files or from records; questions that are not valid become rejects."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pststream.base.errors import UsageError
from pststream.input.input_files import find_files
from pststream.input.parse_requests import parse_identifier_field, parse_time_field, raw_text
from pststream.input.readers import read_requests
from pststream.input.row_chunks import Reject, rejects_table
from pststream.queries.conditions import FIELD, parse_where_field
from pststream.queries.kinds.contract import FieldError, ParsedQuestion, QuestionKind, QuestionLimits, RequestLimits
from pststream.queries.kinds.registry import DEFAULT_QUESTION_KIND, QUESTION_KINDS, check_fields
from pststream.queries.shapes.contract import RegionLimits
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.open_snapshot import greatest_key
from pststream.search.question_batch import TimedQuestion
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.log_events import WithdrawnRows, withdrawn_objects

LAST_VERSION = 2**53

COMMON_FIELDS = frozenset({"question_id", "kind", "as_of", "version", FIELD})
"""Fields of every question."""

PART_QUESTIONS = 50_000
"""Questions of a file that are in memory together, about."""


@dataclass(frozen=True)
class Question:
    """A question: its id, its kind, what it asks for, its time in microseconds, its version of `objects` and its
    condition on attributes in the canonical form, if any.

    file, row  where it was read; no file: a program gave it
    """

    file: str
    row: int
    question_id: str
    kind: QuestionKind
    parsed: ParsedQuestion
    as_of: int | None = None
    version: int | None = None
    where: str | None = None


@dataclass(frozen=True)
class ReadQuestions:
    """The questions of some files in their order, and the rejects: file, row, field, reason, detail, raw."""

    questions: list[Question]
    rejects: list[dict[str, Any]]


def question_limits(settings: Settings) -> QuestionLimits:
    """Return the bounds that the settings give."""
    request = RequestLimits(
        RegionLimits(settings.max_polygon_vertices),
        max_id_bytes=settings.max_id_bytes,
        max_payload_bytes=settings.max_payload_bytes,
        max_expression_words=settings.max_expression_words,
    )
    return QuestionLimits(request, settings.max_k)


def read_question_files(paths: Iterable[str], settings: Settings) -> ReadQuestions:
    """Read the questions of files, folders and globs; raises InputFileError for a file that cannot be read."""
    read = ReadQuestions([], [])
    for path in find_files(paths):
        for part in read_question_parts(path, settings, path):
            read.questions.extend(part.questions)
            read.rejects.extend(part.rejects)
    return read


def read_question_parts(path: str, settings: Settings, name: str) -> Iterator[ReadQuestions]:
    """Yield the questions of a file, about PART_QUESTIONS at a time; `name`: the path that they are reported with.

    Raises InputFileError for a file that cannot be read, at its beginning or later.
    """
    limits, names = question_limits(settings), COMMON_FIELDS.union(*(kind.fields for kind in QUESTION_KINDS.values()))
    part = ReadQuestions([], [])
    for chunk in read_requests(path, None, names, None, limits.request.longest_row, ("question_id",)):
        records = chunk.records(np.arange(len(chunk.rows)))
        rejected = [*chunk.rejected, *records.rejected]
        _parse_records(part, name, zip(records.rows, records.records), rejected, limits, settings.timezone)
        if len(part.questions) + len(part.rejects) >= PART_QUESTIONS:
            yield part
            part = ReadQuestions([], [])
    if part.questions or part.rejects:
        yield part


def read_question_records(records: Iterable[Mapping[str, Any]], settings: Settings) -> ReadQuestions:
    """Parse questions that a program gives; a question without an id gets its position, from 1."""
    read = ReadQuestions([], [])
    given = ({name: value for name, value in record.items() if value is not None} for record in records)
    numbered = ((row, {"question_id": str(row), **record}) for row, record in enumerate(given, start=1))
    _parse_records(read, "", numbered, [], question_limits(settings), settings.timezone)
    return read


def _parse_records(
    read: ReadQuestions,
    path: str,
    records: Iterable[tuple[int, Mapping[str, Any]]],
    rejected: list[Reject],
    limits: QuestionLimits,
    timezone: str,
) -> None:
    for row, record in records:
        try:
            read.questions.append(parse_question(record, limits, timezone, path, row))
        except FieldError as error:
            rejected.append(Reject(row, error.field, error.reason, raw_text(error.raw), error.detail))
    read.rejects.extend(describe_rejects(path, rejected))


def describe_rejects(path: str, rejected: Iterable[Reject]) -> list[dict[str, Any]]:
    """Return rejects of a file as dicts: file, row, field, reason, detail, raw."""
    return [{"file": path, **reject} for reject in rejects_table(rejected).to_pylist()]


def parse_question(
    record: Mapping[str, Any], limits: QuestionLimits, timezone: str, file: str = "", row: int = 1
) -> Question:
    """Parse a question; `timezone` is the zone of times without one. Raises FieldError."""
    kind = _parse_kind(record)
    question_id = parse_identifier_field(record, "question_id")
    if (size := len(question_id.encode())) > limits.request.max_id_bytes:
        detail = f"the id has {size} bytes, more than {limits.request.max_id_bytes}; the setting max_id_bytes bounds it"
        raise FieldError("question_id", "id_too_long", question_id, detail)
    as_of = parse_time_field(record, "as_of", timezone)
    version, where = _parse_version(record), parse_where_field(record)
    return Question(file, row, question_id, kind, kind.parse_question(record, limits), as_of, version, where)


def _parse_kind(record: Mapping[str, Any]) -> QuestionKind:
    """Return the kind of a question; raises FieldError if it is unknown or a field does not belong to it."""
    name = record.get("kind")
    name = DEFAULT_QUESTION_KIND if name is None or name == "" else name
    kind = QUESTION_KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        detail = f"the kind of question is unknown; known: {', '.join(QUESTION_KINDS)}"
        raise FieldError("kind", "unknown_kind", name, detail)
    check_fields(record, kind, COMMON_FIELDS)
    return kind


def _parse_version(record: Mapping[str, Any]) -> int | None:
    value = record.get("version")
    if value is None or value == "":
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldError("version", "not_a_number", value, "version is not a whole number")
    if not 0 <= value <= LAST_VERSION:
        raise FieldError("version", "out_of_range", value, f"version {value} is outside 0..{LAST_VERSION}")
    return value


class AskedQuestion(NamedTuple):
    """A question with the greatest key that counts, which its version decides, and the objects withdrawn by then.

    Travels pickled.

    bounds: of its window, see TimedQuestion; None: not resolved yet
    """

    question: Question
    up_to_key: int
    withdrawn: WithdrawnRows
    bounds: tuple[int, int, int, int] | None = None

    @property
    def timed(self) -> TimedQuestion:
        """The question as answerers take it."""
        question = self.question
        return TimedQuestion(question.parsed, question.as_of, self.up_to_key, self.bounds, question.where)


class CountedObjects:
    """Gives the snapshot without the withdrawn objects of a question; questions with the same ones share it.

    snapshot  of all stored objects
    """

    def __init__(self, snapshot: ObjectSnapshot) -> None:
        self._snapshot = snapshot
        self._without: dict[tuple[int, ...], ObjectSnapshot] = {(): snapshot}

    def of(self, withdrawn: WithdrawnRows) -> ObjectSnapshot:
        """Return the snapshot without these objects."""
        if withdrawn.numbers not in self._without:
            self._without[withdrawn.numbers] = self._snapshot.without(withdrawn.keys)
        return self._without[withdrawn.numbers]


def resolve_versions(
    home: Home, read: ReadQuestions, up_to_key: int = LAST_KEY
) -> tuple[list[AskedQuestion], list[dict[str, Any]]]:
    """Return the questions with their versions, and the rejects: those read, and unknown versions.

    up_to_key: position in the log up to which objects and withdrawals count for questions without a version
    """
    versions: dict[int | None, tuple[int, WithdrawnRows] | UsageError] = {}
    asked, rejects = [], list(read.rejects)
    for question in read.questions:
        if question.version not in versions:
            versions[question.version] = open_version(home, question.version, up_to_key)
        version = versions[question.version]
        if isinstance(version, UsageError):
            raw, detail = raw_text(question.version), version.args[0]
            rejects += describe_rejects(
                question.file, [Reject(question.row, "version", "unknown_version", raw, detail)]
            )
        else:
            asked.append(AskedQuestion(question, *version))
    return asked, sorted(rejects, key=lambda reject: (reject["file"], reject["row"]))


def open_version(home: Home, version: int | None, up_to_key: int = LAST_KEY) -> tuple[int, WithdrawnRows] | UsageError:
    """Return the greatest key of a version (None: `up_to_key`), and the objects withdrawn by then."""
    if version is not None:
        try:
            up_to_key = greatest_key(home, version)
        except UsageError as error:
            return error
    return up_to_key, withdrawn_objects(home, up_to=up_to_key)
