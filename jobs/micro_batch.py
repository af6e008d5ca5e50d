"""Run `pststream run` as a job: ingest, match, deliver and answer what is new in a landing folder.

    python jobs/micro_batch.py [--result FILE] [--home DIR] [--landing DIR] [--max-objects N] [--strict]
                               [--since TIME] [--no-deliver] [--only-if-idle]

The job ends soon if nothing is new. The landing folder, or `s3://bucket/prefix`, contains `objects/`, `requests/` and,
in a folder, `questions/`. Default: `PSTSTREAM_LANDING`, or else
`landing` in the home. `--since` is for a retry: the result includes what earlier tries ingested, matched and answered
from this time on (ISO 8601). With `--only-if-idle` the job changes nothing if there is work, and fails with the kind
`WorkWaits`; a DAG then submits it to its cluster.
The result is the document of `pststream run` with four more keys: `table_version`, the version of the table `matches`
afterwards; `balance`, the result of `pststream balance check`, or null if there was no batch; `waiting_sinks`, the
sinks that `pststream deliver` has work for; and `home`.
"""

import datetime as dt
import sys
from collections.abc import Sequence
from typing import Any

from jobs import entry
from pststream import names
from pststream.cli.arguments import build_parser
from pststream.cli.stderr_log import StderrLog
from pststream.delta_tables import table_version
from pststream.pipeline.delivery.waiting_sinks import waiting_sinks
from pststream.pipeline.main_job.find_work import has_work
from pststream.pipeline.questions.question_ledger import NOTHING_ANSWERED, add_answered_since
from pststream.settings import load_settings
from pststream.state.home import Home


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; return the exit code."""
    words = entry.drop_empty(sys.argv[1:] if arguments is None else arguments)
    own, rest = entry.landing_parser(__doc__).parse_known_args(words)
    outcome = _run(own.home, entry.landing_of(own), rest, own.only_if_idle)
    if outcome["error"] is None:
        completed = entry.call("run", lambda: _complete(own.home, own.since, outcome["result"]))
        outcome = outcome | completed if completed["error"] is not None else outcome | {"result": completed["result"]}
    return entry.report(own.result, outcome)


def _run(home: str, landing: str, rest: Sequence[str], only_if_idle: bool) -> dict[str, Any]:
    """Run the command if there is work; return its outcome, or that of a run without work."""
    arguments = [f"--home={home}", *rest, "--", landing]
    asked = entry.call("run", lambda: _has_work(arguments, home, landing))
    if asked["error"] is not None:
        return asked
    if not asked["result"]:
        StderrLog("run", quiet=False).log_progress("nothing is new")
        nothing = {
            "ingest": {}, "match": {"batches": [], "objects": 0, "matches": 0, "changes": 0}, "deliver": {"sinks": {}},
            "questions": NOTHING_ANSWERED,
        }  # fmt: skip
        return asked | {"result": nothing}
    if only_if_idle:
        return asked | {"exit_code": entry.FAILED, "kind": entry.WORK_WAITS, "error": "there is work", "result": None}
    return entry.run("run", arguments)


def _has_work(arguments: Sequence[str], home: str, landing: str) -> bool:
    build_parser().parse_args(["run", *arguments])  # refuses what the command would refuse
    return has_work(Home(home), load_settings(home), landing)


def _complete(address: str, since: dt.datetime | None, result: dict[str, Any]) -> dict[str, Any]:
    """Return the document of the command with what earlier tries did, and with the keys that the DAG needs."""
    home = Home(address)
    if since is not None:
        _add_earlier_tries(home, since, result)
    batches = result["match"]["batches"]
    checked = entry.run("balance", ["check", f"--home={address}"], quiet=True) if batches else {"result": None}
    return result | {
        "questions": add_answered_since(home, since, result["questions"]),
        "table_version": table_version(home.table(names.MATCHES)),
        "balance": checked["result"],
        "waiting_sinks": waiting_sinks(home, load_settings(home.path)),
        "home": home.path,
    }


def _add_earlier_tries(home: Home, since: dt.datetime, result: dict[str, Any]) -> None:
    """Add what earlier tries of this run ingested and matched to the result."""
    from pststream.pipeline.main_job.run_summary import summarize_since  # loads the code that matches

    earlier, own = summarize_since(home, since), result["match"]
    for kind, figures in earlier["ingest"].items():
        result["ingest"][kind] = result["ingest"].get(kind, {}) | figures
    own_ids = {batch["batch_id"] for batch in own["batches"]}  # clocks may differ, so these are compared by id
    own["batches"] = [batch for batch in earlier["batches"] if batch["batch_id"] not in own_ids] + own["batches"]
    own |= {name: sum(batch[name] for batch in own["batches"]) for name in ("objects", "matches")}


if __name__ == "__main__":
    sys.exit(main())
