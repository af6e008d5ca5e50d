"""Read a file of questions a part after the other, in this process, or in one of its own if reading may kill it."""

from collections.abc import Iterator
from dataclasses import dataclass

from pststream.pipeline.ingest.isolated_reader import ReadLimits, isolated_reader
from pststream.search.read_questions import ReadQuestions, read_question_parts
from pststream.settings import Settings


@dataclass
class PartReader:
    """Reads the questions of a file.

    path      of the copy
    name      path of the file that is reported
    isolated  whether a process of its own reads each part
    """

    path: str
    settings: Settings
    name: str
    isolated: bool = False
    _parts: Iterator[ReadQuestions] | None = None
    _rest: ReadQuestions | None = None

    def read(self, after: int, most: int) -> ReadQuestions | None:
        """Return the next `most` questions of the file, after this row, where the part before ended; None: there are
        none.

        Raises InputFileError if the file cannot be read, or if reading it exceeds the limits of the settings.
        """
        part, self._rest = self._rest or self._read(after), None
        if part is not None and len(part.questions) > most:
            part, self._rest = _split(part, most)
        return part

    def _read(self, after: int) -> ReadQuestions | None:
        arguments = (self.path, self.settings, self.name, after)
        if not self.isolated:
            self._parts = self._parts or read_parts(*arguments)
            try:
                return next(self._parts, None)
            except MemoryError:
                self.isolated = True
        with isolated_reader(read_part) as reader:
            return reader.read(arguments, self.name, ReadLimits.of(self.settings))


def _split(part: ReadQuestions, count: int) -> tuple[ReadQuestions, ReadQuestions]:
    """Return the first questions of a part, and the others; each with the rejects before its last row."""
    last = part.questions[count - 1].row
    early = [one for one in part.rejects if one["row"] < last]
    late = [one for one in part.rejects if one["row"] > last]
    return ReadQuestions(part.questions[:count], early), ReadQuestions(part.questions[count:], late)


def read_parts(path: str, settings: Settings, name: str, after: int) -> Iterator[ReadQuestions]:
    """Yield the questions and rejects after a row, some at a time."""
    for part in read_question_parts(path, settings, name):
        questions = [one for one in part.questions if one.row > after]
        rejects = [one for one in part.rejects if one["row"] > after]
        if questions or rejects:
            yield ReadQuestions(questions, rejects)


def read_part(path: str, settings: Settings, name: str, after: int) -> ReadQuestions | None:
    """Return the first questions and rejects after a row; None if there are none."""
    return next(read_parts(path, settings, name, after), None)
