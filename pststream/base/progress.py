"""Log the progress of steps: messages with fields for JSON logs, counts with a rate, and the steps of benchmarks."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pststream.base.texts import byte_size, counted, duration

Progress = Callable[[str], None]
"""Logs one message of a running step: a text, a LogMessage or a CountMessage."""


def no_progress(message: str) -> None:
    """Log nothing."""


class LogMessage(str):
    """A text with further fields for a JSON log: batch_id, step, level (default info)."""

    fields: dict[str, Any]

    def __new__(cls, text: str, **fields: Any) -> "LogMessage":
        """Make a message of a text and its fields."""
        message = super().__new__(cls, text)
        message.fields = fields
        return message


class CountMessage(LogMessage):
    """How far a step is, with the field `seconds`: since the step began. The next one replaces it.

    On a terminal it is replaced in the same line, elsewhere after some time; without long steps nothing is shown.
    """


def with_fields(progress: Progress, **fields: Any) -> Progress:
    """Return a function that logs each message with further fields."""

    def log(text: str) -> None:
        kind = CountMessage if isinstance(text, CountMessage) else LogMessage
        progress(kind(text, **(getattr(text, "fields", {}) | fields)))

    return log


class StepCounter:
    """Counts what a long step has done, and logs it with the rate and, if the total is known, the time left."""

    def __init__(self, progress: Progress, step: str, noun: str, total: int | None, /, **fields: Any) -> None:
        """Count up to `total`; step: what is done; noun: in the singular; fields: of each message in a JSON log."""
        self._progress, self._step, self._noun, self._total, self._fields = progress, step, noun, total, fields
        self._done, self._began = 0, time.monotonic()
        self._log("")

    def add(self, number: int, note: str = "") -> None:
        """Count `number` more, and log the state of the step, with a note, while something is left."""
        self.reach(self._done + number, note)

    def reach(self, done: int, note: str = "") -> None:
        """Count up to `done`, and log the state of the step, with a note, while something is left."""
        self._done = done
        self._log(note)

    def _log(self, note: str) -> None:
        if self._total is None or self._done < self._total:
            seconds = time.monotonic() - self._began if self._done else 0.0
            text = self._text(seconds) + (f" ({note})" if note else "")
            self._progress(CountMessage(text, **self._fields, seconds=round(seconds, 1)))

    def _text(self, seconds: float) -> str:
        text = f"{self._step}: {_amount(self._done, self._noun, self._total)}"
        if seconds <= 0:
            return text
        rate = self._done / seconds
        text += f", {_rate(rate, self._noun)}/s"
        return text if self._total is None else f"{text}, {duration((self._total - self._done) / rate)} left"


def _amount(done: int, noun: str, total: int | None) -> str:
    if total is None:
        return byte_size(done) if noun == "byte" else counted(done, noun)
    return f"{byte_size(done)} of {byte_size(total)}" if noun == "byte" else f"{done:,} of {counted(total, noun)}"


def _rate(rate: float, noun: str) -> str:
    if noun == "byte":
        return byte_size(rate)
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


class Counted(NamedTuple):
    """A stage of tasks to count: what they do, what they count (in the singular), and how much of it there is."""

    step: str
    noun: str
    total: int


class TaskCounter:
    """Counts what the tasks of a step have done, stage by stage; an engine calls it as tasks end."""

    def __init__(self, progress: Progress, *stages: Counted, **fields: Any) -> None:
        """Count the first stages, at least one; fields: of each message in a JSON log."""
        self._progress, self._stages, self._fields = progress, stages, fields
        self._begin(0)

    def __call__(self, stage: int, share: float) -> None:
        """Count a stage, from 0 on, up to the share of its tasks that have ended."""
        if stage >= len(self._stages) or stage < self._stage:
            return
        if stage > self._stage:
            self._begin(stage)
        self._counter.reach(int(share * self._stages[stage].total))
        if share >= 1 and stage + 1 < len(self._stages):
            self._begin(stage + 1)

    def _begin(self, stage: int) -> None:
        self._stage, one = stage, self._stages[stage]
        self._counter = StepCounter(self._progress, one.step, one.noun, one.total, **self._fields)


class Steps:
    """Logs each step of a benchmark when it has ended."""

    def __init__(self, progress: Progress, total: int, alike: bool = False) -> None:
        """Begin the first of `total` steps; alike: each takes about as long as the others."""
        self._progress, self._total, self._alike = progress, total, alike
        self._done, self._began = 0, time.monotonic()

    def end(self, text: str) -> None:
        """Log that a step has ended, and what it did or measured."""
        self._done += 1
        line, left = f"step {self._done} of {self._total}: {text}", self._total - self._done
        if self._alike and left:
            line += f"; {duration((time.monotonic() - self._began) / self._done * left)} left"
        self._progress(line)
