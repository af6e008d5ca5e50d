"""Commands and their arguments."""

import argparse
from pathlib import Path
from typing import NoReturn

from pststream import __version__, names
from pststream.cli import delivery_commands, reading_commands, writing_commands
from pststream.errors import UsageError

EXAMPLES = """\
examples:
  pststream demo --out demo                          the main job on data that it makes, ending with a page
  pststream init --home h
  pststream ingest requests subscriptions.jsonl --home h
  pststream ingest objects 'posts/*.csv' --home h --column text=title+body --column object_id=@row
  pststream match --home h
  pststream export matches --out matches.csv --home h
"""


class Parser(argparse.ArgumentParser):
    """Raises UsageError, with the usage, where argparse would leave."""

    def error(self, message: str) -> NoReturn:
        """`message`: what is wrong with the arguments."""
        raise UsageError(message, self.format_usage().strip())


def build_parser() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(
        prog="pststream",
        description="Standing spatio-textual questions over a stream, matched exactly once.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _setup(commands)
    _flow(commands)
    _adjustment(commands)
    _upkeep(commands)
    _reading(commands)
    _workloads(commands)
    return parser


def _add(commands, name, run, text, example, **defaults):  # type: ignore[no-untyped-def]
    command = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--home", help="where the tables live (PSTSTREAM_HOME; default ./pststream-home)")
    command.add_argument("--json", action="store_true", help="one JSON document on standard output")
    command.add_argument("--quiet", action="store_true", help="no progress on standard error")
    command.set_defaults(command=run, name_of_command=name, **{"needs_settings": True} | defaults)
    return command


def _setup(commands) -> None:  # type: ignore[no-untyped-def]
    _add(
        commands,
        "init",
        writing_commands.init,
        "make tables and settings; safe to run again",
        "pststream init --home h",
    )
    _add(
        commands,
        "upgrade",
        writing_commands.upgrade,
        "bring a home of an older version up to this one",
        "pststream upgrade",
    )
    text = "check Java, jars, pins, settings, disk; say the remedy"
    _add(commands, "doctor", reading_commands.doctor, text, "pststream doctor", needs_settings=False)
    demo = _add(
        commands,
        "demo",
        writing_commands.demo,
        "run the main job on data that it makes, ending with a page",
        "pststream demo --out d",
    )
    demo.add_argument("--out", default="pststream-demo", help="folder of the demo (default %(default)s)")


def _flow(commands) -> None:  # type: ignore[no-untyped-def]
    ingest = _add(
        commands,
        "ingest",
        writing_commands.ingest,
        "take files into the log",
        "pststream ingest objects posts.csv --column lon=longitude",
    )
    ingest.add_argument("kind", choices=("objects", "requests"))
    ingest.add_argument("paths", nargs="+", metavar="PATH", help="files, folders, globs; s3://bucket/prefix")
    _reader_arguments(ingest)
    ingest.add_argument("--strict", action="store_true", help="exit with 3 if rows were rejected or files held")
    plan = _add(
        commands,
        "plan",
        writing_commands.plan,
        "make a new plan version from the stored sample",
        "pststream plan --planner grid --workers 16",
    )
    plan.add_argument("--planner", choices=names.PLANNERS, help="default: the setting")
    plan.add_argument("--workers", type=_positive, help="default: the setting")
    plan.add_argument("--from-version", type=int, help="sample objects written after this Delta version of objects")
    plan.add_argument("--to-version", type=int, help="... and up to this one")
    plan.add_argument("--dry-run", action="store_true", help="say what it would be; change nothing")
    match = _add(
        commands,
        "match",
        writing_commands.match,
        "run micro-batches, each exactly once",
        "pststream match --max-objects 100000",
    )
    match.add_argument("--max-objects", type=_positive, help="objects of a batch at most (default: the setting)")
    how = match.add_mutually_exclusive_group()
    how.add_argument("--until-empty", action="store_true", help="until nothing is pending (default)")
    how.add_argument("--one", action="store_true", help="one batch")
    run = _add(
        commands,
        "run",
        writing_commands.run,
        "ingest, match and deliver what is new in a landing folder",
        "pststream run landing --home h",
    )
    run.add_argument("landing", metavar="PATH", help="folder, or s3://bucket/prefix, with objects/ and requests/")
    _reader_arguments(run)
    run.add_argument("--max-objects", type=_positive, help="objects of a batch at most")
    run.add_argument("--strict", action="store_true", help="exit with 3 if rows were rejected or files held")
    run.add_argument(
        "--watch",
        action="store_true",
        help="stay, and take files as they land, until SIGTERM or Ctrl-C; see watch_seconds",
    )
    run.add_argument("--no-deliver", action="store_true", help="leave delivery to `pststream deliver`")
    _delivery(commands)


def _delivery(commands) -> None:  # type: ignore[no-untyped-def]
    text = "tell the sinks what batches have found"
    deliver = _add(commands, "deliver", delivery_commands.deliver, text, "pststream deliver --home h")
    deliver.add_argument("--sink", metavar="NAME", help="only this one")
    text = "list what sinks refused for good, or deliver it again"
    letters = _add(
        commands, "dead-letters", delivery_commands.dead_letters, text, "pststream dead-letters replay --sink alerts"
    )
    letters.add_argument("what", choices=("list", "replay"))
    letters.add_argument("--sink", metavar="NAME", help="only of this one")
    letters.add_argument(
        "--limit", type=_positive, help=f"of `list`: rows at most (default {delivery_commands.LETTERS})"
    )


def _adjustment(commands) -> None:  # type: ignore[no-untyped-def]
    balance = _add(
        commands,
        "balance",
        _balance,
        "even the loads of the workers out: move cells, partition anew, or take the last change back",
        "pststream balance local --method gr --dry-run",
    )
    balance.add_argument(
        "kind",
        choices=("local", "global", "retire", "undo", "check", "history"),
        help="retire: what an older plan still serves; check, history: only read",
    )
    balance.add_argument("--method", choices=("gr", "dp", "si", "ra"), help="of `local`: selects cells (default gr)")
    balance.add_argument("--planner", choices=names.PLANNERS, help="of `global`; default: the setting")
    balance.add_argument(
        "--sigma", type=float, help="of `local` and `check`: greatest load over the least that counts as balanced"
    )
    balance.add_argument(
        "--gain", type=float, dest="repartition_gain", help="of `global`: part of the greatest load it must save"
    )
    balance.add_argument(
        "--proposal", type=Path, metavar="FILE", help="--dry-run writes what it would do here; --apply does that"
    )
    balance.add_argument("--page", type=Path, metavar="FILE.html", help="write a page on what moves")
    way = balance.add_mutually_exclusive_group()
    way.add_argument("--dry-run", action="store_true", help="only show what would move (the default)")
    way.add_argument("--apply", action="store_true", help="do it")


def _upkeep(commands) -> None:  # type: ignore[no-untyped-def]
    quarantine = _add(
        commands,
        "quarantine",
        _quarantine,
        "list the files that a landing gate holds, take them in all the same, or give them up",
        "pststream quarantine release 3",
    )
    quarantine.add_argument("what", choices=("list", "release", "discard"))
    quarantine.add_argument("holds", nargs="*", type=_positive, metavar="HOLD", help="numbers, as `list` shows them")
    quarantine.add_argument("--all", action="store_true", help="of `list`: those that were released or discarded too")
    check = _add(
        commands,
        "check",
        writing_commands.check,
        "check the tables: ledgers, the worker index against plan and requests, matches; exit code 1 if one fails",
        "pststream check",
    )
    check.add_argument("--all", action="store_true", help="matches of all batches, not only of those not yet checked")
    backup = _add(
        commands,
        "backup",
        writing_commands.backup,
        "copy a home as it stands at one moment, while others write to it",
        "pststream backup --out backups/monday",
    )
    backup.add_argument("--out", required=True, metavar="DIR", help="new folder; copied back, it is the home again")
    _add(
        commands,
        "maintain",
        writing_commands.maintain,
        "merge small index files, drop what ended",
        "pststream maintain --home h",
    )


def _balance(context, arguments):  # type: ignore[no-untyped-def]
    """`check` and `history` only read."""
    reading = {"check": reading_commands.check_balance, "history": reading_commands.history}
    return reading.get(arguments.kind, writing_commands.balance)(context, arguments)


def _reader_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--format", choices=("csv", "jsonl", "parquet"), help="default: by the file's ending")
    command.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="FIELD=NAME",
        help="source of a field; text=a+b joins; object_id=@row",
    )
    command.add_argument(
        "--constant", action="append", default=[], metavar="FIELD=VALUE", help="the same value for every row"
    )
    command.add_argument("--timezone", help="zone of times that carry none (default: the setting)")


def _reading(commands) -> None:  # type: ignore[no-untyped-def]
    export = _add(
        commands, "export", reading_commands.export, "write pairs to a file", "pststream export matches --out m.csv"
    )
    export.add_argument("what", choices=("matches",))
    export.add_argument("--out", required=True, metavar="FILE", help=".csv, .jsonl or .parquet")
    export.add_argument("--since", metavar="T", help="objects from this time on (ISO 8601)")
    rejects = _add(
        commands, "rejects", reading_commands.rejects, "rows that were not accepted", "pststream rejects --reason late"
    )
    rejects.add_argument("--reason", help="only this one (docs/quality.md lists them)")
    rejects.add_argument("--limit", type=_positive, default=1000, help="rows at most (default %(default)s)")
    _add(
        commands,
        "status",
        reading_commands.status,
        "lag, live subscriptions, plan, balance, last batches",
        "pststream status",
    )
    metrics = _add(
        commands,
        "metrics",
        reading_commands.metrics,
        "the same figures, as Prometheus reads them",
        "pststream metrics --out /var/lib/node_exporter/pststream.prom",
    )
    metrics.add_argument("--out", metavar="FILE", help="write them here, whole or not at all (default: print them)")
    explain = _add(
        commands,
        "explain",
        reading_commands.explain,
        "why an object did or did not reach a subscription",
        "pststream explain o1 s1",
    )
    explain.add_argument("object_id")
    explain.add_argument("subscription_id")
    plans = _add(
        commands,
        "plans",
        _plans,
        "list the plans, show one, or compare the planners on this home's data",
        "pststream plans compare --workers 8 --out comparison.html",
    )
    plans.add_argument("what", choices=("list", "show", "compare"))
    plans.add_argument("version", nargs="?", type=_positive, help="of `show`; default: the current one")
    plans.add_argument("--planners", metavar="A,B", help="of `compare`; default: all of " + ", ".join(names.PLANNERS))
    plans.add_argument("--workers", type=_positive, help="of `compare`; default: the setting")
    plans.add_argument(
        "--objects", type=_positive, default=1_000_000, help="of `compare`: so many of the newest (default %(default)s)"
    )
    plans.add_argument("--out", metavar="FILE.html", help="of `compare`: write a page with plots here")
    report = _add(
        commands, "report", reading_commands.report, "one self-contained page", "pststream report --out report.html"
    )
    report.add_argument("--out", required=True, metavar="FILE.html")


def _plans(context, arguments):  # type: ignore[no-untyped-def]
    """`compare` runs the main job; `list` and `show` only read."""
    return (writing_commands.compare_plans if arguments.what == "compare" else reading_commands.plans)(
        context, arguments
    )


def _quarantine(context, arguments):  # type: ignore[no-untyped-def]
    """`release` and `discard` change the home; `list` only reads."""
    return (reading_commands.quarantine if arguments.what == "list" else writing_commands.quarantine)(
        context, arguments
    )


def _workloads(commands) -> None:  # type: ignore[no-untyped-def]
    generate = _add(
        commands, "generate", writing_commands.generate, "write a synthetic workload, seeded",
        "pststream generate requests --kind q3 --count 100000 --lifetime 20000 --out requests.jsonl",
    )  # fmt: skip
    generate.add_argument("what", choices=("objects", "requests"))
    generate.add_argument("--count", type=_positive, required=True)
    generate.add_argument("--out", required=True, metavar="FILE", help=".csv (objects), .jsonl or .parquet")
    generate.add_argument("--kind", choices=("q1", "q2", "q3"), default="q1", help="of the paper (default %(default)s)")
    generate.add_argument("--seed", type=_seed, default=1)
    requests = generate.add_argument_group("requests")
    requests.add_argument("--objects", metavar="FILE", help="draw places and keywords from these (default: made up)")
    requests.add_argument(
        "--lifetime", type=_positive, metavar="MU", help="delete each after N(MU, (0.2 MU)^2) further insertions"
    )
    requests.add_argument(
        "--drift-every", type=_positive, metavar="N", help="q3: switch a tenth of the regions after N insertions"
    )
    bench = _add(
        commands,
        "bench",
        writing_commands.bench,
        "list the benchmarks, or run one",
        "pststream bench run kernel --scale small",
    )
    bench.add_argument("what", choices=("list", "run", "calibrate"), help="calibrate: measure cost_* for this home")
    bench.add_argument("name", nargs="?")
    bench.add_argument("--scale", choices=("small", "full"), default="small")
    bench.add_argument("--seed", type=_seed, default=1)
    bench.add_argument("--out", metavar="FILE", help="write the JSON document here too")


def _positive(text: str) -> int:
    return _whole(text, 1)


def _seed(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return value
