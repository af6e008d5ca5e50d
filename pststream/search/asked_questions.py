"""Find what each question asks about: the objects of its version of the table, without those withdrawn by then."""

from typing import Any, NamedTuple

from pststream.base.errors import UsageError
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.open_snapshot import greatest_key
from pststream.search.question_batch import TimedQuestion
from pststream.search.read_questions import Question, ReadQuestions, reject_question
from pststream.state.home import Home
from pststream.tables.log_events import WithdrawnObjects, withdrawn_objects


class AskedQuestion(NamedTuple):
    """A question with the greatest key that counts, and the objects withdrawn by then; travels pickled.

    bounds: of its window, see TimedQuestion; None: not resolved yet
    """

    question: Question
    up_to_key: int
    withdrawn: WithdrawnObjects
    bounds: tuple[int, int, int, int] | None = None

    @property
    def timed(self) -> TimedQuestion:
        """The question as answerers take it."""
        return TimedQuestion(self.question.parsed, self.question.as_of, self.up_to_key, self.bounds)


class CountedObjects:
    """Gives the snapshot without the withdrawn objects of a question; questions with the same ones share it.

    snapshot  of all stored objects
    """

    def __init__(self, snapshot: ObjectSnapshot) -> None:
        self._snapshot = snapshot
        self._without: dict[tuple[int, ...], ObjectSnapshot] = {(): snapshot}

    def of(self, withdrawn: WithdrawnObjects) -> ObjectSnapshot:
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
    versions: dict[int | None, tuple[int, WithdrawnObjects] | UsageError] = {}
    asked, rejects = [], list(read.rejects)
    for question in read.questions:
        if question.version not in versions:
            versions[question.version] = open_version(home, question.version, up_to_key)
        version = versions[question.version]
        if isinstance(version, UsageError):
            rejects.append(reject_question(question, "version", "unknown_version", question.version, version.args[0]))
        else:
            asked.append(AskedQuestion(question, *version))
    return asked, sorted(rejects, key=lambda reject: (reject["file"], reject["row"]))


def open_version(
    home: Home, version: int | None, up_to_key: int = LAST_KEY
) -> tuple[int, WithdrawnObjects] | UsageError:
    """Return the greatest key of a version (None: `up_to_key`), and the objects withdrawn by then."""
    if version is not None:
        try:
            up_to_key = greatest_key(home, version)
        except UsageError as error:
            return error
    return up_to_key, withdrawn_objects(home, up_to=up_to_key)
