"""Run the commands that change a home, match or generate data; return document, text and exit code."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pststream import names
from pststream.cli.command import (
    DONE,
    DONE_WITH_REJECTS,
    FAILED,
    CommandContext,
    CommandResult,
    check_output_path,
    refuse_options,
)
from pststream.cli.result_texts import (
    describe_adjustment,
    describe_answers,
    describe_batches,
    describe_delivery,
    describe_demo,
    describe_erasure,
    describe_ingest,
    describe_maintenance,
    describe_match,
)
from pststream.errors import UsageError
from pststream.escape_text import escape_controls
from pststream.format_values import byte_size, counted, duration
from pststream.planner_options import check_planners


def init_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Create a home."""
    created = context.home.init(context.settings.answer_buckets)
    state = "created; settings in pststream.toml" if created else "already exists and is complete"
    return CommandResult({"home": context.home.path, "created": created}, f"{context.home.path}: {state}")


def upgrade_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Upgrade a home to the format of this version."""
    from pststream.state.upgrade import upgrade

    document = upgrade(context.home)
    before, now = document["format_before"], document["format"]
    return CommandResult(document, f"format {before} -> {now}" if before < now else f"format {now}: already up to date")


def ingest_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Append the rows of files to the object log or the request log."""
    from pststream.pipeline.ingest.ingest import ingest

    if arguments.retry_rejects is not None:
        return _retry_rejects(context, arguments)
    if not arguments.paths:
        raise UsageError("ingest: no file is given", "give files, folders or globs, or --retry-rejects REASON")
    if arguments.kind == "requests":
        refuse_options("ingest requests", {"--column": arguments.column, "--constant": arguments.constant})
    document = ingest(
        context.home,
        context.settings,
        arguments.kind,
        arguments.paths,
        reader_options(context, arguments),
        context.progress,
    )
    return CommandResult(document, describe_ingest(arguments.kind, document), _strict(arguments, [document]))


def _retry_rejects(context: CommandContext, arguments: Any) -> CommandResult:
    """Ingest objects again that were rejected."""
    from pststream.pipeline.ingest.retry_rejects import retry_rejects

    if arguments.kind != "objects" or arguments.paths:
        raise UsageError(
            "--retry-rejects is for objects, without files", "pststream ingest objects --retry-rejects late"
        )
    options = {"--format": arguments.format, "--column": arguments.column, "--constant": arguments.constant}
    refuse_options("ingest --retry-rejects", options)
    document = retry_rejects(context.home, context.settings, arguments.retry_rejects, context.progress)
    text = f"{counted(document['retried'], 'reject')} retried\n{describe_ingest('objects', document)}"
    return CommandResult(document, text, _strict(arguments, [document]))


def _strict(arguments: Any, ingests: list[dict[str, Any]]) -> int:
    from pststream.pipeline.ingest.ingest import has_rejects

    return DONE_WITH_REJECTS if arguments.strict and any(map(has_rejects, ingests)) else DONE


def quarantine_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Ingest quarantined files after all, or discard them."""
    if not arguments.holds:
        raise UsageError(
            f"quarantine {arguments.what}: no file given", "give numbers that `pststream quarantine list` shows"
        )
    from pststream.pipeline.ingest.decide_quarantined import decide_quarantined

    document = decide_quarantined(
        context.home, context.settings, action=arguments.what, holds=arguments.holds, progress=context.progress
    )
    if arguments.what == "release":
        return CommandResult(document, describe_ingest("released", document))
    lines = [escape_controls(f"discarded: {row['path']}") for row in document["discarded"]]
    return CommandResult(document, "\n".join(lines) or "nothing to do")


def reader_options(context: CommandContext, arguments: Any) -> Any:
    """Return how files are read, from the arguments. Raises UsageError for contradictory arguments."""
    from pststream.pipeline.ingest.ingest import options_of

    columns = tuple((field, tuple(names.split("+"))) for field, names in _assignments("--column", arguments.column))
    constants = tuple(_assignments("--constant", arguments.constant))
    return replace(options_of(context.settings), format=arguments.format, columns=columns, constants=constants)


def _assignments(option: str, texts: list[str]) -> list[tuple[str, str]]:
    fields = ("object_id", "ts", "lon", "lat", "text")
    sources: dict[str, str] = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals or not value:
            raise UsageError(f"{option} {text}: not FIELD=VALUE", "fields: " + ", ".join(fields))
        if field not in fields:
            raise UsageError(f"{option} {text}: field {field!r} is unknown", "fields: " + ", ".join(fields))
        if (option, field) == ("--constant", "object_id"):
            raise UsageError(f"{option} {text}: all rows would have the same id", "--column object_id=@row")
        if field in sources:
            raise UsageError(
                f"{option} {text}: {field} is given twice", "give one source per field; text=a+b joins columns"
            )
        sources[field] = value
    return list(sources.items())


def replay_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Run recorded batches again under another plan, and compare; exit code 1 if the matches or the answers differ."""
    from pststream.pipeline.replay.chosen_batches import batches_between, last_batches
    from pststream.pipeline.replay.replay import replay
    from pststream.pipeline.replay.scratch_home import TopkPlanner
    from pststream.pipeline.replay.tried_plan import plan_of_first, proposed_plan, stored_plan
    from pststream.reports.commands.replay_comparison import is_as_recorded, render_replay
    from pststream.reports.pages.replay_page import write_replay

    versions = (arguments.from_version, arguments.to_version)
    if (arguments.last is None) == (None in versions) or (arguments.last is not None and versions != (None, None)):
        raise UsageError("give --from-version and --to-version, or --last", "see: pststream replay --help")
    planner, settings = arguments.chosen_planner, context.settings
    kinds = arguments.kinds or names.kinds_served(planner)
    if planner is not None:
        check_planners((planner,), kinds)
    elif arguments.kinds is not None:
        raise UsageError("--kinds says which plan --planner makes", "give --planner, too")
    elif arguments.planner_options is not None:
        raise UsageError("--option is one of --planner", "give --planner, too")
    check_output_path(arguments.page, "--page", creates_folder=True)
    home = context.home.check()
    chosen = batches_between(home, *versions) if arguments.last is None else last_batches(home, arguments.last)
    topk = None
    if planner is not None and kinds == names.TOPK_KINDS:
        plan, topk = plan_of_first(home, chosen), TopkPlanner(planner, arguments.planner_options)
    elif planner is not None:
        plan, settings = None, replace(settings, planner=planner)
    elif arguments.proposal is not None:
        plan = proposed_plan(home, arguments.proposal)
    else:
        plan = stored_plan(home, arguments.plan)
    document = replay(home, settings, chosen, plan, topk=topk, out=arguments.out, progress=context.progress)
    if arguments.page is not None:
        write_replay(arguments.page, home.path, document)
    return CommandResult(document, render_replay(document), DONE if is_as_recorded(document) else FAILED)


NO_TOPK_BALANCER = "no adjustment moves topk subscriptions: Skype, whose partitioners make their plan, has no balancer"


def balance_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Move subscriptions between workers to balance their loads, or undo the last adjustment."""
    from pststream.pipeline.adjusting.balance import balance

    if arguments.kind == "undo":
        refuse_options("balance undo", {"--kinds": arguments.kinds})
    if arguments.kinds == names.TOPK_KINDS:
        raise UsageError(NO_TOPK_BALANCER, f"make a new plan of it: pststream plan --kinds {names.TOPK_KINDS}")
    if arguments.kind != "local":
        refuse_options(f"balance {arguments.kind}", {"--method": arguments.method, "--sigma": arguments.sigma})
    if arguments.kind != "global":
        refuse_options(
            f"balance {arguments.kind}", {"--planner": arguments.planner, "--gain": arguments.repartition_gain}
        )
    check_output_path(arguments.page, "--page", creates_folder=True)
    check_output_path(arguments.proposal, "--proposal", creates_folder=True)
    document = balance(
        context.home,
        context.settings,
        arguments.kind,
        method=arguments.method or "gr",
        dry_run=not arguments.apply,
        proposal=arguments.proposal,
        page=arguments.page,
        progress=context.progress,
    )
    return CommandResult(document, describe_adjustment(document))


def match_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Run micro-batches."""
    from pststream.pipeline.batch.micro_batch import match

    document = match(
        context.home, context.settings, max_objects=arguments.max_objects, one=arguments.one, progress=context.progress
    )
    return CommandResult(document, describe_match(document))


def register_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Create the tables and views in a catalog of Spark."""
    from pststream.pipeline.engine.spark_views import register

    document = register(context.home.check(), context.settings, arguments.catalog, arguments.schema)
    what = f"{counted(len(document['tables']), 'table')} and {counted(len(document['views']), 'view')}"
    return CommandResult(document, f"{arguments.catalog}.{arguments.schema}: {what}")


def run_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Ingest, match, deliver and answer what is new in a landing folder."""
    from pststream.pipeline.main_job.run import check_landing, run

    options = reader_options(context, arguments)
    if arguments.watch:
        refuse_options("run --watch", {"--strict": arguments.strict})
    else:
        refuse_options("run without --watch", {"--metrics": arguments.metrics})
    check_landing(arguments.landing)
    context.home.init(context.settings.answer_buckets)
    settings = replace(context.settings, sinks=()) if arguments.no_deliver else context.settings
    if arguments.watch:
        return _watch(replace(context, settings=settings), arguments, options)
    document = run(context.home, settings, arguments.landing, options, arguments.max_objects, context.progress)
    lines = [describe_ingest(kind, figures) for kind, figures in document["ingest"].items()]
    lines.append(describe_match(document["match"]))
    lines += [describe_delivery(document["deliver"])] if settings.sinks else []
    answered = document["questions"]
    lines += [describe_answers(answered)] if answered["files"] else []
    return CommandResult(document, "\n".join(lines), _strict(arguments, [*document["ingest"].values(), answered]))


def _watch(context: CommandContext, arguments: Any, options: Any) -> CommandResult:
    """Run the main job until SIGTERM or SIGINT."""
    from pststream.pipeline.main_job.metrics_server import LOOPBACK, Address
    from pststream.pipeline.main_job.watch import watch

    metrics = None
    if arguments.metrics is not None:
        host, port = arguments.metrics
        metrics = Address(host or LOOPBACK, port)
    document = watch(
        context.home, context.settings, arguments.landing, options, arguments.max_objects, context.progress, metrics
    )
    counts = (document[name] for name in ("batches", "objects", "matches", "changes"))
    return CommandResult(document, describe_batches(*counts))


def check_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Check that the tables are consistent; exit code 1 if a check fails."""
    from pststream.pipeline.upkeep.check_tables import check_tables

    document = check_tables(context.home, context.settings, everything=arguments.all, progress=context.progress)
    lines = []
    for one in document["checks"]:
        lines.append(f"{'ok  ' if one['success'] else 'FAIL'}  {one['check']} ({duration(one['seconds'])})")
        lines += ["      " + escape_controls(sentence) for sentence in one["failed"]]
        lines += ["      not compared: " + what for what in one["skipped"]]
    lines += [f"Data Docs: {page}" for page in document["data_docs"]]
    return CommandResult(document, "\n".join(lines), DONE if document["success"] else FAILED)


def backup_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Copy a home as it is at one moment."""
    from pststream.pipeline.upkeep.backup import backup

    document = backup(context.home, arguments.out, context.progress)
    return CommandResult(
        document, f"{document['out']}: {counted(document['files'], 'file')}, {byte_size(document['bytes'])}"
    )


def maintain_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Compact the index and the tables, drop ended subscriptions, and delete old files."""
    from pststream.pipeline.upkeep.maintain import maintain

    document = maintain(context.home, context.settings, context.progress)
    return CommandResult(document, describe_maintenance(document))


def erase_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Remove objects and subscriptions, and everything that was derived from them."""
    from pststream.pipeline.upkeep.erase import erase

    object_ids = [*arguments.object_id, *lines_of(arguments.object_ids)]
    subscription_ids = [*arguments.subscription_id, *lines_of(arguments.subscription_ids)]
    if not (object_ids or subscription_ids or arguments.where):
        raise UsageError("erase: nothing to erase is given", "give --object-id, --subscription-id or --where")
    if arguments.dry_run:
        refuse_options("erase --dry-run", {"--vacuum-now": arguments.vacuum_now})
    document = erase(
        context.home,
        context.settings,
        object_ids,
        subscription_ids,
        arguments.where,
        dry_run=arguments.dry_run,
        vacuum_now=arguments.vacuum_now,
        progress=context.progress,
    )
    return CommandResult(document, describe_erasure(document))


def lines_of(paths: list[str]) -> list[str]:
    """Return the lines of text files that are not empty; only line breaks end lines. A byte order mark is skipped."""
    try:
        return [line for path in paths for line in Path(path).read_text("utf-8-sig").split("\n") if line]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"a file of ids cannot be read: {error}", "a text file in UTF-8 with an id on each line"
        ) from None


def generate_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Write a synthetic workload."""
    from pststream.generator.draw_subscriptions import KINDS
    from pststream.generator.generate_files import write_objects, write_requests
    from pststream.generator.object_sample import sample_of_file

    began = time.perf_counter()
    if arguments.what == "objects":
        given = {"--kind": arguments.kind, "--objects": arguments.objects}
        given |= {"--lifetime": arguments.lifetime, "--drift-every": arguments.drift_every}
        refuse_options("generate objects", given)
        written = write_objects(arguments.out, arguments.count, arguments.seed)
    else:
        written = write_requests(
            arguments.out,
            arguments.count,
            arguments.seed,
            kind=arguments.kind or KINDS[0],
            objects=sample_of_file(arguments.objects, arguments.seed) if arguments.objects else None,
            deletions=arguments.lifetime is not None,
            mean_lifetime=arguments.lifetime,
            drift_every=arguments.drift_every,
        )
    seconds = time.perf_counter() - began
    document = {"out": written.path, "rows": written.rows, "bytes": written.bytes, "seconds": seconds}
    return CommandResult(document, f"{written.path}: {counted(written.rows, arguments.what[:-1])}")


def demo_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Run the main job on generated data."""
    from pststream.pipeline.main_job.demo import demo

    document = demo(arguments.out, context.settings, context.progress)
    return CommandResult(document, describe_demo(document))
