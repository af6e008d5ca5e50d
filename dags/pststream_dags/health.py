"""What is wrong with a home, as its ledgers tell: each kind of trouble is an error of its own, with a remedy."""

from typing import Any

from airflow.sdk.exceptions import AirflowFailException


class Unhealthy(AirflowFailException):
    """Something of a home needs attention."""


class WatcherDown(Unhealthy):
    """The watcher has ended by an error, is gone without a word, or should run and does not."""


class Lagging(Unhealthy):
    """What came in is not matched in time."""


class OutOfBalance(Unhealthy):
    """The loads of the workers are uneven, and adjustments have not mended it."""


class TooManyRejects(Unhealthy):
    """Too great a part of the rows was rejected."""


class FilesHeld(Unhealthy):
    """The landing gate holds files."""


class SinkDead(Unhealthy):
    """A sink does not take its messages, or has refused some for good."""


ENDED = "stopped"


def check_watcher(found: dict[str, Any] | None, expected: bool) -> str:
    """One that was asked to end is well, unless one is expected."""
    if found is None:
        if expected:
            raise WatcherDown("no watcher has ever run on this home")
        return "no watcher"
    who = f"{found['state']} (process {found['process']}, last heard of at {found['at']})"
    if not found["alive"] and (expected or found["state"] != ENDED):
        raise WatcherDown(f"the watcher is not alive: {who}{': ' + found['error'] if found['error'] else ''}")
    return f"watcher {who}"


def check_lag(waiting_seconds: float, watcher: dict[str, Any] | None, most: float) -> str:
    """The lag of a watcher that is alive counts what has landed, else what was ingested."""
    if waiting_seconds > most:
        raise Lagging(
            f"the oldest file that is not matched was taken in {waiting_seconds:.0f} s ago; {most:g} may pass"
        )
    if watcher and watcher["alive"] and watcher["lag_seconds"] > most:
        error = f": {watcher['error']}" if watcher["error"] else ""
        raise Lagging(
            f"the watcher, {watcher['state']} since {watcher['since']}, is {watcher['lag_seconds']:.0f} s behind what"
            f" landed, {watcher['waiting_files']} files; {most:g} s may pass{error}"
        )
    return f"lag {waiting_seconds:.0f} s"


def check_imbalance(found: dict[str, Any], most: float) -> str:
    """Within `sigma` it is well, beyond it `adjust_load` is at it: only what is far beyond needs a person."""
    told = f"measured imbalance {found['measured_imbalance']} over {found['batches']} batches"
    if found["violated"] and found["measured_imbalance"] > most:
        raise OutOfBalance(f"plan {found['plan_version']}: {told}, greatest load over least; {most:g} is the most")
    return told


def check_reject_share(accepted: int, rejected: int, most: float, least_rows: int) -> str:
    """Of the rows of the last hour; a few rows tell nothing."""
    rows = accepted + rejected
    told = f"{rejected} of {rows} rows of the last hour were rejected"
    if rows >= least_rows and rejected > most * rows:
        raise TooManyRejects(f"{told}; {most:.0%} may be")
    return told


def check_gate(held: int) -> str:
    """No file is held."""
    if held:
        raise FilesHeld(f"{held} files wait in quarantine for a decision")
    return "no file is held"


def check_sinks(sinks: list[dict[str, Any]], most_dead: int) -> str:
    """All of them are told in one message."""
    wrong = []
    configured = [sink for sink in sinks if sink["state"] != "removed"]
    for sink in configured:
        if sink["state"] not in ("ok", "behind"):
            wrong.append(f"{sink['sink']}: {sink['state']} ({sink['reason']}), {sink['batches_left']} batches wait")
        if sink["dead"] > most_dead:
            wrong.append(f"{sink['sink']}: {sink['dead']} dead letters; {most_dead} may be")
    if wrong:
        raise SinkDead("; ".join(wrong))
    return f"{len(configured)} sinks are well"
