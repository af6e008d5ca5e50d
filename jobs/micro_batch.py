"""Run `pststream run` as a job: ingest, match and deliver what is new in a landing folder.

    spark-submit jobs/micro_batch.py [--result FILE] [--home DIR] [--landing DIR] [--max-objects N] [--strict]
                                    [--since TIME] [--no-deliver]

The landing folder, or `s3://bucket/prefix`, contains `objects/` and `requests/`. Default: `PSTSTREAM_LANDING`, or else
`landing` in the home. `--since` is for a retry: the result includes what earlier tries ingested and matched from this
time on (ISO 8601).
The result is the document of `pststream run` with three more keys: `table_version`, the version of the table `matches`
afterwards; `balance`, the result of `pststream balance check`, or null if there was no batch; and `home`.
"""

import argparse
import datetime as dt
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobs import entry
from pststream import names
from pststream.pipeline.main_job.run_summary import summarize_since
from pststream.state.home import Home
from pststream.state.ledger_tables import version


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--result", type=Path, help="file for the outcome, JSON")
    parser.add_argument("--home", help="home of the tables")
    parser.add_argument("--landing", help="landing folder")
    parser.add_argument("--since", type=dt.datetime.fromisoformat, help="when the first try started")
    own, rest = parser.parse_known_args(entry.drop_empty(sys.argv[1:] if arguments is None else arguments))
    home = own.home or os.environ.get("PSTSTREAM_HOME", "./pststream-home")
    landing = own.landing or os.environ.get("PSTSTREAM_LANDING", f"{Home(home).path}/landing")
    outcome = entry.run("run", [f"--home={home}", *rest, "--", landing])
    if outcome["error"] is None:
        if own.since is not None:
            _add_earlier_tries(Home(home), own.since, outcome["result"])
        outcome["result"]["table_version"] = version(Home(home), names.MATCHES)
        batches = outcome["result"]["match"]["batches"]
        checked = entry.run("balance", ["check", f"--home={home}"], quiet=True) if batches else {"result": None}
        outcome["result"]["balance"] = checked["result"]
        outcome["result"]["home"] = Home(home).path
    return entry.report(own.result, outcome)


def _add_earlier_tries(home: Home, since: dt.datetime, result: dict[str, Any]) -> None:
    """Add what earlier tries of this run ingested and matched to the result."""
    earlier, own = summarize_since(home, since), result["match"]
    for kind, figures in earlier["ingest"].items():
        result["ingest"][kind] = result["ingest"].get(kind, {}) | figures
    own_ids = {batch["batch_id"] for batch in own["batches"]}  # clocks may differ, so these are compared by id
    own["batches"] = [batch for batch in earlier["batches"] if batch["batch_id"] not in own_ids] + own["batches"]
    own |= {name: sum(batch[name] for batch in own["batches"]) for name in ("objects", "matches")}


if __name__ == "__main__":
    sys.exit(main())
