"""Check figures of `pststream status` for the DAG `health`: one function and one error class for each problem.

`alerts` has the remedy for each error class.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from pststream.base import names
from pststream.base.texts import duration
from pststream.plans.imbalance import imbalance_text, read_imbalance


class Unhealthy(AirflowFailException):
    """A home needs attention.

    problems  what is wrong, by the name of what fails, such as a sink; empty if the check has no parts
    """

    def __init__(self, message: str, problems: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.problems = dict(problems)


class WatcherDown(Unhealthy):
    """The watcher has failed, was killed, or should run and does not."""


class Lagging(Unhealthy):
    """Landed or ingested files are not matched in time."""


class OutOfBalance(Unhealthy):
    """The loads of the workers are out of balance, and adjustments have not corrected it."""


class TooManyRejects(Unhealthy):
    """Too large a share of the rows was rejected."""


class WatermarkAhead(Unhealthy):
    """The watermark is ahead of the clock, so that objects of the present are late."""


class FilesQuarantined(Unhealthy):
    """Files are in quarantine."""


class SinkDead(Unhealthy):
    """A sink is down, or has too many dead letters."""


def check_watcher(watcher: dict[str, Any] | None, expected: bool) -> str:
    """Raise unless the watcher is alive; a stopped or missing watcher is a problem only if one is expected."""
    if watcher is None:
        if expected:
            raise WatcherDown("no watcher has ever run on this home")
        return "no watcher"
    state = f"{watcher['state']} (process {watcher['process']}, last heartbeat {watcher['at']})"
    if not watcher["alive"] and (expected or watcher["state"] != "stopped"):
        raise WatcherDown(f"the watcher is not alive: {state}{': ' + watcher['error'] if watcher['error'] else ''}")
    return f"watcher {state}"


def check_lag(waiting_seconds: float, watcher: dict[str, Any] | None, max_seconds: float) -> str:
    """Raise if an ingested file, or for a live watcher a landed file, waits longer than `max_seconds`."""
    if waiting_seconds > max_seconds:
        raise Lagging(
            f"the oldest file that is not matched was ingested {duration(waiting_seconds)} ago;"
            f" limit {duration(max_seconds)}"
        )
    if watcher and watcher["alive"] and watcher["lag_seconds"] > max_seconds:
        error = f": {watcher['error']}" if watcher["error"] else ""
        raise Lagging(
            f"the watcher, {watcher['state']} since {watcher['since']}, is {duration(watcher['lag_seconds'])} behind;"
            f" files waiting: {watcher['waiting_files']}; limit {duration(max_seconds)}{error}"
        )
    return f"lag {duration(waiting_seconds)}"


def check_imbalance(measured: dict[str, Any], max_imbalance: float) -> str:
    """Raise if the imbalance is over `max_imbalance`; `adjust_load` corrects an imbalance from `sigma` up to it."""
    imbalance, batches = measured["measured_imbalance"], measured["batches"]
    text = f"measured imbalance {imbalance_text(imbalance)} (greatest load over least), batches: {batches}"
    if measured["violated"] and read_imbalance(imbalance) > max_imbalance:
        raise OutOfBalance(f"plan {measured['plan_version']}: {text}; limit {max_imbalance:g}")
    return text


def check_reject_share(accepted: int, rejected: int, max_share: float, min_rows: int) -> str:
    """Raise if more than `max_share` of the rows of the last hour were rejected; fewer than `min_rows` do not count."""
    rows = accepted + rejected
    text = f"{rejected} of {rows} rows of the last hour were rejected"
    if rows >= min_rows and rejected > max_share * rows:
        raise TooManyRejects(f"{text}; limit {max_share:.0%}")
    return text


def check_watermark(watermark: str | None, ahead_seconds: int) -> str:
    """Raise if the watermark is further ahead of the clock than `max_ahead_seconds` allows, by `ahead_seconds`."""
    if ahead_seconds:
        raise WatermarkAhead(
            f"the watermark {watermark} is {duration(ahead_seconds)} further ahead of the clock than max_ahead_seconds"
            " allows: objects of the present are rejected as late"
        )
    return f"watermark {watermark or 'of no object'}"


def check_quarantine(hold_ids: Sequence[int]) -> str:
    """Raise if files are in quarantine. `hold_ids` are their numbers."""
    if hold_ids:
        problems = {f"quarantined file {number}": f"file {number} is in quarantine" for number in hold_ids}
        raise FilesQuarantined(f"files in quarantine that wait for a decision: {len(hold_ids)}", problems)
    return "no file is in quarantine"


def check_sinks(sinks: list[dict[str, Any]], max_dead: int) -> str:
    """Raise if a sink is down or has more than `max_dead` dead letters; the message names all such sinks."""
    problems = {}
    configured = [sink for sink in sinks if sink["state"] != "removed"]
    for sink in configured:
        if sink["state"] not in names.UP_STATES:
            waiting = f"batches waiting: {sink['batches_left']}"
            problems[f"sink {sink['sink']}"] = f"{sink['sink']}: {sink['state']} ({sink['reason']}), {waiting}"
        if sink["dead"] > max_dead:
            text = f"{sink['sink']}: dead letters: {sink['dead']}, limit {max_dead}"
            problems[f"dead letters of sink {sink['sink']}"] = text
    if problems:
        raise SinkDead("; ".join(problems.values()), problems)
    return f"sinks without problems: {len(configured)}"
