"""Build the argument parser: each command with its options, its help text and the function that runs it."""

import argparse
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from pststream import __version__
from pststream.base import names
from pststream.base.errors import UsageError
from pststream.cli import reading_commands as reading
from pststream.cli import writing_commands as writing
from pststream.cli.command import CommandContext, CommandResult, JoinedTexts, age, host_and_port, positive, whole
from pststream.cli.reading_commands import add_bench_options, bench_command
from pststream.cli.writing_commands import NEWEST, calibrate_command, compare_plans_command, plan_command
from pststream.input.row_chunks import RETRIABLE
from pststream.input.suite_files import SUBJECTS

MORE_EXAMPLES = {
    "plan": ("pststream plan --planner hybrid --option objective=sum --option sigma=1.2 --dry-run",),
    "balance": (
        "pststream balance local --method shift --dry-run --proposal move.npz --page move.html",
        "pststream balance local --apply --proposal move.npz",
        "pststream balance global --planner quadtree --dry-run",
    ),
    "export": (
        "pststream export answers --out answers.csv",
        "pststream export changes --since-batch 12 --out changes.jsonl",
    ),
    "answers": ("pststream answers --limit 100",),
    "ask": (
        "pststream ask --kind frequent_terms --bbox 18,59,19,60 -k 3 --home h",
        "pststream ask questions.jsonl --out answers.csv --home h",
    ),
    "plans": ("pststream plans compare --planners kd_tree,a_grid,dkm_sks --objects 200000", "pststream plans show"),
    "generate": ("pststream generate requests --kind knn --count 1000 --objects posts.csv --out knn.jsonl",),
    "bench": ("pststream bench list",),
}
"""Further examples of commands, which `--help` shows below the first one."""


def _add_kinds_option(command: argparse.ArgumentParser, text: str) -> None:
    kinds = tuple(names.PLANNERS_OF)
    command.add_argument("--kinds", choices=kinds, metavar="KINDS", help=f"{' or '.join(kinds)}: {text}")


def add_planner_name(command: Any, planners: Sequence[str], dest: str, text: str) -> None:
    """Add `--planner`, an attribute `dest`, to a parser or group; the usage, which each error repeats, has no names."""
    command.add_argument("--planner", metavar="PLANNER", dest=dest, choices=planners, help=text)


def _all_planners() -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(names.PLANNERS_OF.values())))


def add_repeated(command: argparse.ArgumentParser, option: str, metavar: str, text: str) -> None:
    """Add an option that may be given several times."""
    command.add_argument(option, action="append", default=[], metavar=metavar, help=text)


def _add_planner_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--option",
        action=JoinedTexts,
        dest="planner_options",
        metavar="NAME=VALUE",
        help="an option of the planner (docs/planning.md); repeatable (default: setting planner_options)",
    )


def _add_plan_options(plan: argparse.ArgumentParser) -> None:
    _add_kinds_option(plan, "the kinds whose plan is made; default: those that the planner serves, topk if both")
    regions = f"of {names.REGION_KINDS}: {', '.join(names.PLANNERS)} (default: setting planner)"
    topk = f"of {names.TOPK_KINDS}: {', '.join(names.TOPK_PLANNERS)} (default: that of its plan in force)"
    add_planner_name(plan, _all_planners(), "chosen_planner", f"{regions}; {topk}")
    _add_planner_option(plan)
    plan.add_argument("--workers", type=positive, help="default: setting workers")
    plan.add_argument("--from-version", type=int, help="sample objects written after this Delta version of objects")
    plan.add_argument("--to-version", type=int, help="sample objects written up to this Delta version of objects")
    plan.add_argument("--dry-run", action="store_true", help="print the plan's figures; change nothing")


def _add_plans_options(plans: argparse.ArgumentParser) -> None:
    plans.add_argument("what", choices=("list", "show", "compare", "calibrate"))
    plans.add_argument("version", nargs="?", type=positive, help="for `show`; default: the current one")
    planners = "; ".join(f"of {kinds}: {', '.join(known)}" for kinds, known in names.PLANNERS_OF.items())
    plans.add_argument("--planners", metavar="A,B", help=f"for `compare`; default: all ({planners})")
    kinds = "for `show` and `compare`: the kinds that the plan serves; default: " + names.REGION_KINDS
    _add_kinds_option(plans, kinds)
    plans.add_argument("--workers", type=positive, help="for `compare`; default: setting workers")
    plans.add_argument(
        "--objects",
        type=positive,
        help=f"for `compare` of {names.REGION_KINDS}: number of newest objects (default {NEWEST})",
    )
    plans.add_argument(
        "--scale",
        choices=("small", "full"),
        default="small",
        help="for `calibrate`: how much to measure, default %(default)s",
    )
    plans.add_argument("--seed", type=whole, default=1, help="for `calibrate`; default %(default)s")
    plans.add_argument("--out", metavar="FILE.html", help="for `compare`: write a page with plots here")


def _add_replay_options(replay: argparse.ArgumentParser) -> None:
    replay.add_argument(
        "--from-version",
        type=whole,
        metavar="A",
        help="replay the batches committed after this version of the Delta table `matches`",
    )
    replay.add_argument("--to-version", type=whole, metavar="B", help="... and up to this version of it")
    replay.add_argument("--last", type=positive, metavar="N", help="instead of versions: the last N batches")
    plan = replay.add_mutually_exclusive_group()
    text = (
        "a plan by this planner (`pststream plan --help` lists them), of what was stored before the batches;"
        " of topk, of what the first batch leaves"
    )
    add_planner_name(plan, _all_planners(), "chosen_planner", text)
    plan.add_argument("--plan", type=positive, metavar="VERSION", help="a plan version (default: the one in force)")
    plan.add_argument("--proposal", metavar="FILE", help="the plan that a proposal of `balance` makes")
    _add_planner_option(replay)
    _add_kinds_option(replay, "the kinds whose plan --planner makes; default: those that it serves, topk if both")
    replay.add_argument(
        "--out", type=Path, metavar="DIR", help="write matches.parquet, loads.csv and replay.json; scratch files too"
    )
    replay.add_argument("--page", metavar="FILE.html", help="write a page with the loads")


def _add_erase_options(command: argparse.ArgumentParser) -> None:
    for what in ("object", "subscription"):
        add_repeated(command, f"--{what}-id", "ID", f"id of the {what} (repeatable)")
        add_repeated(command, f"--{what}-ids", "FILE", "file with an id on each line")
    command.add_argument("--owner", metavar="NAME", help="owner of the subscriptions (default: the only one of an id)")
    text = "condition on the columns of `objects`: erase those for which it is true (repeatable)"
    add_repeated(command, "--where", "SQL", text)
    command.add_argument("--dry-run", action="store_true", help="count the rows by table; change nothing")
    command.add_argument(
        "--vacuum-now",
        action="store_true",
        help="delete all older versions of the tables at once; streams that lag and readers of older versions fail",
    )


def _add_withdraw_options(command: argparse.ArgumentParser) -> None:
    add_repeated(command, "--object-id", "ID", "with this id (repeatable)")
    add_repeated(command, "--object-ids", "FILE", "file with an id on each line")
    add_repeated(command, "--file", "PATH", "from this ingested file (repeatable)")
    command.add_argument("--from", dest="since", metavar="T", help="with a ts at T or later (ISO 8601)")
    command.add_argument("--before", dest="until", metavar="T", help="with a ts before T (ISO 8601)")
    command.add_argument("--dry-run", action="store_true", help="count the objects; change nothing")


Command = Callable[[CommandContext, Any], CommandResult]

EXAMPLES = """\
examples:
  pststream demo --out demo                          run the main job on generated data and write a report
  pststream init --home h
  pststream ingest requests subscriptions.jsonl --home h
  pststream ingest objects 'posts/*.csv' --home h --column text=title+body --column object_id=@row
  pststream match --home h
  pststream export matches --out matches.csv --home h
"""


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError, with the usage, where argparse would exit."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with `message`, which says what is wrong with the arguments."""
        raise UsageError(message, self.format_usage().strip())

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; raise UsageError, with the usage of this command, for one that it does not have."""
        parsed, unknown = super().parse_known_args(args, namespace)
        # argparse takes no paths after options if it has found none before them.
        paths = next((one.dest for one in self._actions if one.nargs == "*" and not one.option_strings), None)
        if paths and not getattr(parsed, paths) and not any(one.startswith("-") for one in unknown):
            setattr(parsed, paths, unknown)
            unknown = []
        if unknown:
            self.error("unrecognized arguments: " + " ".join(unknown))
        return parsed, unknown


@lru_cache(maxsize=1)
def build_parser() -> Parser:
    """Build the parser of the whole command line, once in a process: a tenth of the time of a small command."""
    parser = Parser(
        prog="pststream",
        description="Match standing spatio-textual queries against a stream of objects, each match exactly once.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_setup(commands)
    _add_flow(commands)
    _add_balance(commands)
    _add_upkeep(commands)
    _add_results(commands)
    _add_reports(commands)
    _add_plans_and_workloads(commands)
    return parser


def _add(commands: Any, name: str, run: Command, text: str, example: str, needs_settings: bool = True) -> Parser:
    """Add a command with the options that every command has."""
    more = MORE_EXAMPLES.get(name, ())
    command: Parser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog="\n  ".join(("examples:" if more else "example:", example, *more)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--home", help="home of the tables (PSTSTREAM_HOME; default ./pststream-home)")
    command.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    command.add_argument("--quiet", action="store_true", help="print no progress on standard error")
    command.add_argument("--verbose", action="store_true", help="print Spark's log on standard error, not to a file")
    command.set_defaults(run_command=run, command_name=name, needs_settings=needs_settings)
    return command


def _add_setup(commands: Any) -> None:
    text = "create the tables and settings of a home; safe to run again"
    _add(commands, "init", writing.init_command, text, "pststream init --home h")
    text = "upgrade a home of an older version to the format of this one"
    _add(commands, "upgrade", writing.upgrade_command, text, "pststream upgrade")
    text = "check Java, jars, pinned packages, settings and disk space; print a remedy for each fault"
    _add(commands, "doctor", reading.doctor_command, text, "pststream doctor", needs_settings=False)
    text = "run the main job on generated data and write a report"
    demo = _add(commands, "demo", writing.demo_command, text, "pststream demo --out d")
    demo.add_argument("--out", default="pststream-demo", help="folder of the demo (default %(default)s)")


def _add_flow(commands: Any) -> None:
    text = "append the rows of files to the object log or the request log"
    example = "pststream ingest objects posts.csv --column lon=longitude"
    ingest = _add(commands, "ingest", writing.ingest_command, text, example)
    ingest.add_argument("kind", choices=("objects", "requests"))
    ingest.add_argument("paths", nargs="*", metavar="PATH", help="files, folders, globs; s3://bucket/prefix")
    ingest.add_argument(
        "--retry-rejects",
        choices=RETRIABLE,
        metavar="REASON",
        help="instead of files: objects that were rejected for this reason (" + ", ".join(RETRIABLE) + "), each once",
    )
    ingest.add_argument(
        "--again", action="store_true", help="read the files even if they were read before; ids may be duplicates then"
    )
    ingest.add_argument("--source", metavar="NAME", help="for `objects`: read as [sources.NAME] of the settings says")
    _add_reader_options(ingest)
    _add_owner(ingest, "for `requests`: their owner (default: nobody)")
    _add_strict(ingest)

    text = "make a new plan version from a sample of the stored data"
    _add_plan_options(_add(commands, "plan", plan_command, text, "pststream plan --planner grid --workers 16"))

    text = "run micro-batches, each exactly once"
    match = _add(commands, "match", writing.match_command, text, "pststream match --max-objects 100000")
    match.add_argument("--max-objects", type=positive, help="objects of a batch at most (default: setting max_objects)")
    extent = match.add_mutually_exclusive_group()
    extent.add_argument("--until-empty", action="store_true", help="run until nothing is pending (default)")
    extent.add_argument("--one", action="store_true", help="run one batch")

    text = "ingest, match and deliver what is new in a landing folder, and answer its files of questions"
    run = _add(commands, "run", writing.run_command, text, "pststream run landing --home h")
    run.add_argument("landing", metavar="PATH", help="folder with objects/, requests/, questions/; s3://bucket/prefix")
    _add_reader_options(run)
    run.add_argument("--max-objects", type=positive, help="objects of a batch at most (default: setting max_objects)")
    _add_strict(run)
    run.add_argument(
        "--watch", action="store_true", help="keep running, and ingest files as they land, until SIGTERM or Ctrl-C"
    )
    run.add_argument(
        "--metrics",
        type=host_and_port,
        metavar="[HOST:]PORT",
        help="with --watch: serve the metrics of the home at /metrics, for Prometheus (HOST: default 127.0.0.1)",
    )
    run.add_argument("--no-deliver", action="store_true", help="leave delivery to `pststream deliver`")

    text = "deliver the matches and the changes of answers of finished batches to the sinks"
    deliver = _add(commands, "deliver", writing.deliver_command, text, "pststream deliver --home h")
    deliver.add_argument("--sink", metavar="NAME", help="only this sink")
    text = "list the messages that sinks refused permanently, or deliver them again"
    example = "pststream dead-letters replay --sink alerts"
    letters = _add(commands, "dead-letters", writing.dead_letters_command, text, example)
    letters.add_argument("what", choices=("list", "replay"))
    letters.add_argument("--sink", metavar="NAME", help="only of this sink")
    letters.add_argument("--limit", type=positive, help=f"for `list`: rows at most (default {writing.LISTED_LETTERS})")


def _add_owner(command: Parser, text: str = "owner of the subscription (default: the only one who has the id)") -> None:
    command.add_argument("--owner", metavar="NAME", help=text)


def _add_strict(command: Parser) -> None:
    command.add_argument("--strict", action="store_true", help="exit with 3 if rows were rejected or files quarantined")


def _add_reader_options(command: Parser) -> None:
    command.add_argument("--format", choices=("csv", "jsonl", "parquet"), help="default: by the file's ending")
    text = "column of a field; text=a+b joins columns; object_id=@row makes ids of file and row number"
    add_repeated(command, "--column", "FIELD=NAME", text)
    add_repeated(command, "--constant", "FIELD=VALUE", "the same value for every row")
    command.add_argument("--timezone", help="zone of times that carry none (default: setting timezone)")
    text = "unit of times that are numbers (default: ms, if it is clear)"
    command.add_argument("--time-unit", choices=("ms", "s"), help=text)


def _add_balance(commands: Any) -> None:
    text = "balance the loads of the workers: move cells, repartition, or undo the last adjustment"
    balance = _add(commands, "balance", _balance, text, "pststream balance local --method gr --dry-run")
    balance.add_argument(
        "kind",
        choices=("local", "global", "retire", "undo", "check", "history"),
        help="retire: move what an older plan still serves; check, history: only read",
    )
    balance.add_argument(
        "--method", choices=names.BALANCERS, help="for `local`: algorithm that selects what moves (default gr)"
    )
    _add_kinds_option(balance, "for `local`, `global` and `retire`: the kinds whose plan is adjusted; not topk")
    text = f"for `global`: {', '.join(names.PLANNERS)} (default: setting planner)"
    add_planner_name(balance, tuple(names.PLANNERS), "planner", text)
    balance.add_argument(
        "--sigma",
        type=float,
        metavar="X",
        help="for `local` and `check`: greatest load over the least that counts as balanced",
    )
    balance.add_argument(
        "--gain",
        type=float,
        metavar="X",
        dest="repartition_gain",
        help="for `global`: share of the greatest load it must save",
    )
    balance.add_argument("--proposal", metavar="FILE", help="--dry-run writes the proposal here; --apply applies it")
    balance.add_argument("--page", metavar="FILE.html", help="write a page on what moves")
    mode = balance.add_mutually_exclusive_group()
    mode.add_argument("--dry-run", action="store_true", help="only show what would move (default)")
    mode.add_argument("--apply", action="store_true", help="apply the adjustment")


def _balance(context: CommandContext, arguments: Any) -> CommandResult:
    """Run `balance`; its kinds `check` and `history` only read."""
    commands: dict[str, Command] = {"check": reading.check_balance_command, "history": reading.history_command}
    return commands.get(arguments.kind, writing.balance_command)(context, arguments)


def _add_upkeep(commands: Any) -> None:
    text = "list the files that the landing gate quarantined, ingest them after all, or discard them"
    quarantine = _add(commands, "quarantine", _quarantine, text, "pststream quarantine release 3")
    quarantine.add_argument("what", choices=("list", "release", "discard"))
    quarantine.add_argument("holds", nargs="*", type=positive, metavar="NUMBER", help="numbers, as `list` shows them")
    text = "for `discard`: all files that are in quarantine for longer: 30d, 12h"
    quarantine.add_argument("--older", type=age, metavar="AGE", help=text)
    quarantine.add_argument("--all", action="store_true", help="for `list`: include released and discarded files")

    text = "list, add, remove or validate suites of expectations, by which landed files and pairs are judged"
    suite = _add(commands, "suite", writing.suite_command, text, "pststream suite add landed_objects text.json")
    suite.add_argument("what", choices=("list", "add", "remove", "validate"))
    suite.add_argument("subject", nargs="?", choices=sorted(SUBJECTS), help="what the suites judge")
    suite.add_argument("file", nargs="?", metavar="FILE", help="a .json file; for `remove` the name of the suite")

    text = "check that ledgers, worker index, plan, requests and matches are consistent; exit code 1 if a check fails"
    check = _add(commands, "check", writing.check_command, text, "pststream check")
    check.add_argument("--all", action="store_true", help="check the matches of all batches, not only of new ones")

    text = "copy a home as it is at one moment, while other commands write to it"
    backup = _add(commands, "backup", writing.backup_command, text, "pststream backup --out backups/monday")
    backup.add_argument("--out", required=True, metavar="DIR", help="new folder; to restore, copy it back")

    text = "compact small files, drop ended subscriptions from the index, remove old table versions"
    example = "pststream maintain --home h --keep objects=400d --keep matches=90d"
    _add(commands, "maintain", writing.maintain_command, text, example).add_argument(
        "--keep",
        action=JoinedTexts,
        metavar="TABLE=DAYSd",
        help="remove older rows of a table: " + ", ".join(names.KEEPABLE) + " (setting keep; repeatable)",
    )
    text = "remove objects and subscriptions by their ids, and everything that was derived from them"
    example = "pststream erase --home h --object-id post-17 --subscription-ids ids.txt --dry-run"
    _add_erase_options(_add(commands, "erase", writing.erase_command, text, example))
    text = "count the objects that have each word; from then on rare words weigh more in `topk`"
    example = "pststream term-statistics --home h"
    statistics = _add(commands, "term-statistics", writing.term_statistics_command, text, example)
    statistics.add_argument("--dry-run", action="store_true", help="count, and change nothing")
    text = "withdraw objects, such as those of a wrong clock: their matches are retracted, the watermark ignores them"
    example = "pststream withdraw --home h --from 2026-03-02T10:00:00Z --dry-run"
    _add_withdraw_options(_add(commands, "withdraw", writing.withdraw_command, text, example))


def _quarantine(context: CommandContext, arguments: Any) -> CommandResult:
    """Run `quarantine`; `list` only reads."""
    run = reading.list_quarantine_command if arguments.what == "list" else writing.quarantine_command
    return run(context, arguments)


def _add_results(commands: Any) -> None:
    text = "write matches, answers of subscriptions with memory, their changes, or term statistics to a file"
    export = _add(commands, "export", reading.export_command, text, "pststream export matches --out m.csv")
    export.add_argument("what", choices=("matches", "answers", "changes", "term-statistics"))
    export.add_argument("--out", required=True, metavar="FILE", help=".csv, .jsonl or .parquet")
    export.add_argument("--since", metavar="T", help="for `matches`: objects from this time on (ISO 8601)")
    export.add_argument(
        "--since-batch", metavar="N", type=positive, help="for `changes`: those of this batch and later"
    )

    text = "list the answers of subscriptions with memory (knn, topk, frequent_terms)"
    answers = _add(commands, "answers", reading.answers_command, text, "pststream answers nearest-coffee")
    answers.add_argument("subscription_id", nargs="?", metavar="SUBSCRIPTION_ID", help="default: all subscriptions")
    _add_owner(answers, "only of this owner")
    answers.add_argument("--limit", type=positive, default=1000, help="rows at most (default %(default)s)")

    text = "answer questions about the stored objects, of files or one by options"
    example = "pststream ask --kind knn --point 18.07,59.33 --keywords 'coffee OR tea' -k 5 --window 72h --home h"
    reading.add_ask_options(_add(commands, "ask", reading.ask_command, text, example))

    text = "list the rejected rows with their reasons"
    rejects = _add(commands, "rejects", reading.rejects_command, text, "pststream rejects --reason late")
    rejects.add_argument("--reason", help="only this reason (docs/input.md lists them)")
    rejects.add_argument("--limit", type=positive, default=1000, help="rows at most (default %(default)s)")


def _add_reports(commands: Any) -> None:
    text = "print lag, live subscriptions, plan, balance and the last batches"
    _add(commands, "status", reading.status_command, text, "pststream status")

    text = "print the figures of `status` in the format of Prometheus"
    example = "pststream metrics --out /var/lib/node_exporter/pststream.prom"
    metrics = _add(commands, "metrics", reading.metrics_command, text, example)
    metrics.add_argument("--out", metavar="FILE", help="write them to this file, atomically (default: print them)")

    text = "print the statements that create the views (pairs, subscriptions ...) in the SQL of another program"
    sql = _add(commands, "sql", reading.sql_command, text, "pststream sql --dialect trino")
    sql.add_argument("--dialect", required=True, choices=names.SQL_DIALECTS)

    text = "create the tables and views in a catalog of Spark; safe to run again"
    example = "pststream register --catalog spark_catalog --schema alerts"
    register = _add(commands, "register", writing.register_command, text, example)
    register.add_argument("--catalog", required=True, help="name of the catalog in Spark's configuration")
    register.add_argument("--schema", default="pststream", help="schema, one for each home (default %(default)s)")

    text = "write new pairs to the table gold/pairs, which Spark keeps for other programs; safe to run again"
    pairs = _add(commands, "pairs", writing.pairs_command, text, "pststream pairs")
    pairs.add_argument("--rebuild", action="store_true", help="first make its rows again from `matches`")
    pairs.add_argument("--dry-run", action="store_true", help="only say how many batches are new; starts no Spark")

    text = "explain why an object did or did not match a subscription, or is or is not in its answer"
    explain = _add(commands, "explain", reading.explain_command, text, "pststream explain o1 s1")
    explain.add_argument("object_id")
    explain.add_argument("subscription_id")
    _add_owner(explain)

    text = "write a report, one self-contained HTML page"
    report = _add(commands, "report", reading.report_command, text, "pststream report --out report.html")
    report.add_argument("--out", required=True, metavar="FILE.html")


def _plans(context: CommandContext, arguments: Any) -> CommandResult:
    """Run `plans`; `compare` and `calibrate` run the main job, `list` and `show` only read."""
    commands = {"compare": compare_plans_command, "calibrate": calibrate_command}
    return commands.get(arguments.what, reading.plans_command)(context, arguments)


def _add_plans_and_workloads(commands: Any) -> None:
    text = "list the plans, show one, compare the planners on the data of this home, or calibrate the load model"
    example = "pststream plans compare --workers 8 --out comparison.html"
    _add_plans_options(_add(commands, "plans", _plans, text, example))
    text = (
        "run recorded batches again under another plan, in a scratch home, and compare matches and loads with those"
        " that were recorded; changes nothing"
    )
    example = "pststream replay --from-version 12 --to-version 20 --planner hybrid --out replayed"
    _add_replay_options(_add(commands, "replay", writing.replay_command, text, example))

    text = "write a synthetic workload of objects or requests, reproducible by its seed"
    example = "pststream generate requests --kind q3 --count 100000 --lifetime 20000 --out requests.jsonl"
    generate = _add(commands, "generate", writing.generate_command, text, example)
    generate.add_argument("what", choices=("objects", "requests"))
    generate.add_argument("--count", type=positive, required=True, help="number of rows")
    generate.add_argument("--out", required=True, metavar="FILE", help=".csv (objects), .jsonl or .parquet")
    generate.add_argument("--seed", type=whole, default=1, help="default %(default)s")
    requests = generate.add_argument_group("requests")
    requests.add_argument(
        "--kind",
        choices=("q1", "q2", "q3", "knn", "topk", "frequent_terms"),
        help="query set of the PS2Stream paper, or a kind of subscription with memory (default q1)",
    )
    requests.add_argument(
        "--objects", metavar="FILE", help="draw places and keywords from these objects (default: synthetic ones)"
    )
    requests.add_argument(
        "--lifetime", type=positive, metavar="MU", help="delete each after N(MU, (0.2 MU)^2) further insertions"
    )
    requests.add_argument(
        "--drift-every", type=positive, metavar="N", help="q3: switch a tenth of the regions after N insertions"
    )

    text = "list the benchmarks, or run one"
    add_bench_options(_add(commands, "bench", bench_command, text, "pststream bench run kernel --scale small"))
