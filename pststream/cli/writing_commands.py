"""Run the commands that change a home, match, deliver or generate data; return document, text and exit code."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.texts import byte_size, counted, duration, escape_controls
from pststream.cli import result_texts
from pststream.cli.command import (
    DONE,
    DONE_WITH_REJECTS,
    FAILED,
    CommandContext,
    CommandResult,
    check_output_path,
    parse_moment,
    refuse_options,
)
from pststream.cli.result_texts import describe_plan, describe_topk_plan
from pststream.input.run_suites import check_suite
from pststream.input.suite_files import (
    ENDING,
    SUBJECTS,
    Suite,
    default_suites,
    delete_suite,
    parse_suite,
    read_suites,
    write_suite,
)
from pststream.queries.conditions import OBJECT_FIELDS
from pststream.settings import check_planners


def init_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Create a home."""
    created = _init(context)
    state = "created; settings in pststream.toml" if created else "already exists and is complete"
    return CommandResult({"home": context.home.path, "created": created}, f"{context.home.path}: {state}")


def _init(context: CommandContext) -> bool:
    return context.home.init(context.settings.answer_buckets, default_suites(), context.settings.home_group)


def upgrade_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Upgrade a home to the format of this version."""
    from pststream.state.home import upgrade

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
        of_objects = {name: getattr(arguments, name) for name in ("column", "constant", "source")}
        refuse_options("ingest requests", {f"--{name}": value for name, value in of_objects.items()})
    else:
        refuse_options("ingest objects", {"--owner": arguments.owner})
    options = _options_of_source(context, arguments) if arguments.source else reader_options(context, arguments)
    owner = arguments.owner or ""
    document = ingest(
        context.home,
        context.settings,
        arguments.kind,
        arguments.paths,
        options,
        context.progress,
        owner=owner,
        again=arguments.again,
    )
    text = result_texts.describe_ingest(arguments.kind, document)
    code = DONE_WITH_REJECTS if document["mostly_rejected"] else _strict(arguments, [document])
    return CommandResult(document, text, code)


def _retry_rejects(context: CommandContext, arguments: Any) -> CommandResult:
    """Ingest objects again that were rejected."""
    from pststream.pipeline.ingest.retry_rejects import retry_rejects

    if arguments.kind != "objects" or arguments.paths:
        example = "pststream ingest objects --retry-rejects late"
        raise UsageError("--retry-rejects is for objects, without files", example)
    options = {"--format": arguments.format, "--column": arguments.column, "--constant": arguments.constant}
    options |= {"--time-unit": arguments.time_unit, "--again": arguments.again}
    refuse_options("ingest --retry-rejects", options)
    document = retry_rejects(context.home, context.settings, arguments.retry_rejects, context.progress)
    text = f"{counted(document['retried'], 'reject')} retried\n{result_texts.describe_ingest('objects', document)}"
    return CommandResult(document, text, _strict(arguments, [document]))


def _strict(arguments: Any, ingests: list[dict[str, Any]]) -> int:
    from pststream.pipeline.ingest.ingest import has_rejects

    return DONE_WITH_REJECTS if arguments.strict and any(map(has_rejects, ingests)) else DONE


def quarantine_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Ingest quarantined files after all, or discard them."""
    if arguments.older and arguments.what != "discard":
        raise UsageError(
            f"quarantine {arguments.what}: --older is for discard", "pststream quarantine discard --older 30d"
        )
    if not arguments.holds and not arguments.older:
        hint = "give numbers that `pststream quarantine list` shows"
        raise UsageError(f"quarantine {arguments.what}: no file given", hint)
    from pststream.pipeline.ingest.ingest import decide_quarantined

    document = decide_quarantined(
        context.home,
        context.settings,
        action=arguments.what,
        holds=arguments.holds,
        older=arguments.older,
        progress=context.progress,
    )
    if arguments.what == "release":
        return CommandResult(document, result_texts.describe_ingest("released", document))
    lines = [escape_controls(f"discarded: {row['path']}") for row in document["discarded"]]
    return CommandResult(document, "\n".join(lines) or "nothing to do")


def reader_options(context: CommandContext, arguments: Any) -> Any:
    """Return how files are read, from the arguments. Raises UsageError for contradictory arguments."""
    from pststream.pipeline.ingest.ingest import options_of

    columns = tuple((field, tuple(names.split("+"))) for field, names in _assignments("--column", arguments.column))
    constants = tuple(_assignments("--constant", arguments.constant))
    given = {"format": arguments.format, "time_unit": arguments.time_unit}
    return replace(options_of(context.settings), columns=columns, constants=constants, **given)


def _options_of_source(context: CommandContext, arguments: Any) -> Any:
    from pststream.pipeline.ingest.ingest import options_of_source

    others = ("column", "constant", "timezone", "time_unit")
    refuse_options("ingest --source", {f"--{name.replace('_', '-')}": getattr(arguments, name) for name in others})
    return replace(options_of_source(context.settings, arguments.source), format=arguments.format)


def _assignments(option: str, texts: list[str]) -> list[tuple[str, str]]:
    hint = "fields: " + ", ".join(OBJECT_FIELDS)
    sources: dict[str, str] = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals or not (value or (option, field) == ("--constant", "text")):
            raise UsageError(f"{option} {text}: not FIELD=VALUE", hint)
        if field not in OBJECT_FIELDS:
            raise UsageError(f"{option} {text}: field {field!r} is unknown", hint)
        if field in sources:
            hint = "give one source per field; text=a+b joins columns"
            raise UsageError(f"{option} {text}: {field} is given twice", hint)
        sources[field] = value
    return list(sources.items())


def replay_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Run recorded batches again under another plan, and compare; exit code 1 if the matches or the answers differ."""
    from pststream.pipeline.replan.replay import replay
    from pststream.pipeline.replan.scratch_home import (
        TopkPlanner,
        batches_between,
        last_batches,
        plan_of_first,
        proposed_plan,
        stored_plan,
    )
    from pststream.reports.commands.comparisons import is_as_recorded, render_replay
    from pststream.reports.pages.adjustment_page import write_replay

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


def balance_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Move subscriptions between workers to balance their loads, or undo the last adjustment."""
    from pststream.pipeline.replan.balance import balance

    if arguments.kind == "undo":
        refuse_options("balance undo", {"--kinds": arguments.kinds})
    if arguments.kinds == names.TOPK_KINDS:
        why = "no adjustment moves topk subscriptions: Skype, whose partitioners make their plan, has no balancer"
        raise UsageError(why, f"make a new plan of it: pststream plan --kinds {names.TOPK_KINDS}")
    if arguments.kind != "local":
        refuse_options(f"balance {arguments.kind}", {"--method": arguments.method, "--sigma": arguments.sigma})
    if arguments.kind != "global":
        options = {"--planner": arguments.planner, "--gain": arguments.repartition_gain}
        refuse_options(f"balance {arguments.kind}", options)
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
    return CommandResult(document, result_texts.describe_adjustment(document))


def match_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Run micro-batches."""
    from pststream.pipeline.batch.micro_batch import match

    document = match(
        context.home, context.settings, max_objects=arguments.max_objects, one=arguments.one, progress=context.progress
    )
    return CommandResult(document, result_texts.describe_match(document))


def register_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Create the tables and views in a catalog of Spark."""
    from pststream.engine.spark_views import register

    document = register(context.home.check(), context.settings, arguments.catalog, arguments.schema)
    what = f"{counted(len(document['tables']), 'table')} and {counted(len(document['views']), 'view')}"
    return CommandResult(document, f"{arguments.catalog}.{arguments.schema}: {what}")


def pairs_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Bring the gold table of pairs up to the last batch."""
    from pststream.pipeline.upkeep.pairs_table import update_pairs

    if arguments.dry_run:
        refuse_options("pairs --dry-run", {"--rebuild": arguments.rebuild})
    options = {"rebuild": arguments.rebuild, "dry_run": arguments.dry_run}
    document = update_pairs(context.home, context.settings, **options, progress=context.progress)
    return CommandResult(document, result_texts.describe_pairs(document))


def run_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Ingest, match, deliver and answer what is new in a landing folder, once or until SIGTERM or SIGINT."""
    from pststream.pipeline.main_job.run import check_landing, run

    options = reader_options(context, arguments)
    if arguments.watch:
        refuse_options("run --watch", {"--strict": arguments.strict})
    else:
        refuse_options("run without --watch", {"--metrics": arguments.metrics})
    if context.settings.sources:
        of_files = {"--column": arguments.column, "--constant": arguments.constant, "--time-unit": arguments.time_unit}
        refuse_options("a landing folder whose sources are in the settings", of_files)
    check_landing(arguments.landing)
    _init(context)
    settings = replace(context.settings, sinks=()) if arguments.no_deliver else context.settings
    if arguments.watch:
        from pststream.pipeline.main_job.metrics_server import LOOPBACK, Address
        from pststream.pipeline.main_job.run import watch

        host, port = arguments.metrics or ("", 0)
        metrics = Address(host or LOOPBACK, port) if arguments.metrics is not None else None
        document = watch(
            context.home, settings, arguments.landing, options, arguments.max_objects, context.progress, metrics
        )
        counts = (document[name] for name in ("batches", "objects", "matches", "changes"))
        return CommandResult(document, result_texts.describe_batches(*counts))
    document = run(context.home, settings, arguments.landing, options, arguments.max_objects, context.progress)
    lines = [result_texts.describe_ingest(kind, figures) for kind, figures in document["ingest"].items()]
    lines.append(result_texts.describe_match(document["match"]))
    lines += [result_texts.describe_delivery(document["deliver"])] if settings.sinks else []
    answered = document["questions"]
    lines += [result_texts.describe_answers(answered)] if answered["files"] else []
    return CommandResult(document, "\n".join(lines), _strict(arguments, [*document["ingest"].values(), answered]))


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
    size = f"{counted(document['files'], 'file')}, {byte_size(document['bytes'])}"
    return CommandResult(document, f"{document['out']}: {size}")


def maintain_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Compact the index and the tables, drop ended subscriptions, and delete old files."""
    from pststream.pipeline.upkeep.maintain import maintain

    document = maintain(context.home, context.settings, context.progress)
    return CommandResult(document, result_texts.describe_maintenance(document))


def erase_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Remove objects and subscriptions, and everything that was derived from them."""
    from pststream.pipeline.upkeep.erase import erase

    object_ids = [*arguments.object_id, *lines_of(arguments.object_ids)]
    subscription_ids = [*arguments.subscription_id, *lines_of(arguments.subscription_ids)]
    if not (object_ids or subscription_ids or arguments.where):
        raise UsageError("erase: nothing to erase is given", "give --object-id, --subscription-id or --where")
    if not subscription_ids:
        refuse_options("erase without --subscription-id", {"--owner": arguments.owner})
    if arguments.dry_run:
        refuse_options("erase --dry-run", {"--vacuum-now": arguments.vacuum_now})
    document = erase(
        context.home,
        context.settings,
        object_ids,
        subscription_ids,
        arguments.where,
        owner=arguments.owner,
        dry_run=arguments.dry_run,
        vacuum_now=arguments.vacuum_now,
        progress=context.progress,
    )
    return CommandResult(document, result_texts.describe_erasure(document))


def lines_of(paths: list[str]) -> list[str]:
    """Return the lines of text files that are not empty; only line breaks end lines. A byte order mark is skipped."""
    try:
        return [line for path in paths for line in Path(path).read_text("utf-8-sig").split("\n") if line]
    except (OSError, UnicodeDecodeError) as error:
        hint = "a text file in UTF-8 with an id on each line"
        raise UsageError(f"a file of ids cannot be read: {error}", hint) from None


def generate_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Write a synthetic workload."""
    from pststream.workloads.draw_subscriptions import KINDS
    from pststream.workloads.generate_files import write_objects, write_requests
    from pststream.workloads.object_sample import sample_of_file

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
    return CommandResult(document, result_texts.describe_demo(document))


def term_statistics_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Count the objects that have each word, and put the counts in force."""
    from pststream.pipeline.upkeep.term_statistics import make_term_statistics

    document = make_term_statistics(
        context.home, context.settings, dry_run=arguments.dry_run, progress=context.progress
    )
    state = "would be" if document["dry_run"] else "is in force"
    texts = f"{counted(document['objects'], 'object')} with {counted(document['terms'], 'term')}"
    return CommandResult(document, f"version {document['version']} {state}: {texts}")


def withdraw_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Withdraw the objects that meet all conditions."""
    from pststream.pipeline.upkeep.withdraw import Selection, withdraw

    since = parse_moment(context, "--from", arguments.since)
    until = parse_moment(context, "--before", arguments.until)
    selection = Selection(
        (*arguments.object_id, *lines_of(arguments.object_ids)),
        tuple(path if names.storage_prefix(path) else str(Path(path).absolute()) for path in arguments.file),
        names.NO_TIME if since is None else since,
        names.NEVER_US if until is None else until,
    )
    if not selection:
        raise UsageError("withdraw: no objects are given", "give --object-id, --file, --from or --before")
    document = withdraw(context.home, context.settings, selection, dry_run=arguments.dry_run, progress=context.progress)
    return CommandResult(document, _describe(document))


def _describe(document: dict[str, Any]) -> str:
    """Describe a withdrawal: the objects, the watermark, the rejects that they caused, and the next steps."""
    if not document["objects"]:
        return "no objects meet the conditions, or all of them are withdrawn already"
    done = "would withdraw" if document["dry_run"] else "withdrew"
    lines = [
        f"{done} {counted(document['objects'], 'object')}; watermark {document['watermark_before']} ->"
        f" {document['watermark_after'] or '-'}"
    ]
    if document["matched_objects"] and not document["dry_run"]:
        lines.append("their matches are retracted by the next: pststream match")
    rejects = document["rejects"]
    for reason in ("late", "duplicate"):
        if rows := rejects[reason]["rows"]:
            lines.append(f"{counted(rows, 'row')} rejected as {reason} because of them")
            lines.append(f"  ingest these again with: pststream ingest objects --retry-rejects {reason}")
    lines += [escape_controls(f"  {file['path']}: {counted(file['rows'], 'row')}") for file in rejects["files"]]
    return "\n".join(lines)


LISTED_LETTERS = 100
"""Dead letters that `list` shows by default."""


def deliver_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Deliver the matches of finished batches; exit code 1 if a sink needs attention."""
    from pststream.pipeline.delivery.deliver import deliver, is_well

    document = deliver(context.home, context.settings, arguments.sink, context.progress)
    return CommandResult(document, result_texts.describe_delivery(document), DONE if is_well(document) else FAILED)


def dead_letters_command(context: CommandContext, arguments: Any) -> CommandResult:
    """List the dead letters, or deliver them again; exit code 1 if some are left after that."""
    from pststream.pipeline.delivery.deliver import list_letters, replay_letters
    from pststream.tables.owners import show_id

    if arguments.what == "replay":
        refuse_options("dead-letters replay", {"--limit": arguments.limit})
        document = replay_letters(context.home, context.settings, arguments.sink, context.progress)
        left = any(outcome["dead"] for outcome in document["sinks"].values())
        return CommandResult(document, result_texts.describe_replay(document), FAILED if left else DONE)
    rows = list_letters(context.home, context.settings, arguments.sink, arguments.limit or LISTED_LETTERS)
    lines = [
        f"{row['sink']}  {row['message_id']}  batch {row['batch_id']}  {row['kind']} for"
        f" {show_id(row['owner'], row['subscription_id'])}: {row['reason']}"
        for row in rows
    ]
    return CommandResult({"dead_letters": rows}, "\n".join(map(escape_controls, lines)) or "no dead letters")


def suite_command(context: CommandContext, arguments: Any) -> CommandResult:
    """List the suites of the home, validate them or a file, add a file, or remove a suite."""
    context.home.check()
    if arguments.what == "remove":
        if arguments.subject is None or arguments.file is None:
            example = "such as: pststream suite remove landed_objects text"
            raise UsageError("suite remove: give a folder and a name", example)
        name = arguments.file.removesuffix(ENDING)
        delete_suite(context.home.files, arguments.subject, name)
        return CommandResult({"removed": f"{arguments.subject}/{name}"}, f"{arguments.subject}/{name}: removed")
    if arguments.what == "add" or arguments.file is not None:
        return _take(context, arguments)
    subjects = SUBJECTS if arguments.subject is None else (arguments.subject,)
    suites = [suite for subject in subjects for suite in read_suites(context.home.files, context.home.path, subject)]
    if arguments.what == "validate":
        for suite in suites:
            check_suite(suite)
    valid = ", valid" if arguments.what == "validate" else ""
    lines = [f"{suite.label}: {counted(len(suite.expectations), 'expectation')}{valid}" for suite in suites]
    return CommandResult({"suites": [_describe_suite(suite) for suite in suites]}, "\n".join(lines) or "no suites")


def _take(context: CommandContext, arguments: Any) -> CommandResult:
    """Check a file, and add it if that is asked for."""
    if arguments.subject is None or arguments.file is None:
        raise UsageError("suite add: give a folder and a file", "such as: pststream suite add landed_objects text.json")
    path = Path(arguments.file)
    if path.suffix != ENDING:
        raise UsageError(f"{path}: is not a {ENDING} file", "the file's name is the name of the suite")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", "give a file") from None
    suite = parse_suite(arguments.subject, path.stem, str(path), content)
    check_suite(suite)
    if arguments.what == "validate":
        return CommandResult({"suites": [_describe_suite(suite)]}, f"{suite.label}: valid")
    file = write_suite(context.home.files, suite)
    added = replace(suite, path=f"{context.home.path}/{file}")
    return CommandResult({"suites": [_describe_suite(added)]}, f"{suite.label}: added")


def _describe_suite(suite: Suite) -> dict[str, Any]:
    return {
        "subject": suite.subject,
        "name": suite.name,
        "path": suite.path,
        "expectations": [str(one) for one in suite.expectations],
    }


NEWEST = 1_000_000
"""Objects that planners are compared on, unless another number is given."""


def plan_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Make a new plan version."""
    from pststream.pipeline.replan.make_plan import make_plan

    kinds = arguments.kinds or names.kinds_served(arguments.chosen_planner)
    document = make_plan(
        context.home,
        context.settings,
        arguments.chosen_planner,
        kinds,
        planner_options=arguments.planner_options,
        from_version=arguments.from_version,
        to_version=arguments.to_version,
        dry_run=arguments.dry_run,
        progress=context.progress,
    )
    if kinds == names.TOPK_KINDS:
        return CommandResult(document, describe_topk_plan(document))
    return CommandResult(document, describe_plan(document, arguments.dry_run))


def compare_plans_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Compare planners by running each in a scratch home with the newest objects."""
    from pststream.pipeline.replan.compare_planners import compare, compare_topk
    from pststream.reports.commands.comparisons import render_comparison, render_topk_comparison
    from pststream.reports.pages.adjustment_page import write_comparison

    kinds = arguments.kinds or names.REGION_KINDS
    planners = tuple(arguments.planners.split(",")) if arguments.planners else tuple(names.PLANNERS_OF[kinds])
    if kinds == names.TOPK_KINDS:
        refuse_options("plans compare --kinds topk", {"--objects": arguments.objects, "--out": arguments.out})
    check_planners(planners, kinds)
    if kinds == names.TOPK_KINDS:
        document = compare_topk(context.home, context.settings, planners, context.progress)
        return CommandResult(document, render_topk_comparison(document))
    check_output_path(arguments.out)
    objects = arguments.objects or NEWEST
    document = compare(context.home, context.settings, planners, objects, progress=context.progress)
    if arguments.out:
        write_comparison(document, arguments.out)
        document["out"] = arguments.out
    return CommandResult(document, render_comparison(document))


def calibrate_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Measure the constants of the load model on this machine, and write them to the settings of the home."""
    from pststream.pipeline.calibrate.calibrate import calibrate
    from pststream.settings import write_settings

    home = context.home.check()
    figures = calibrate(arguments.scale, arguments.seed, context.settings, context.progress)
    measured = {name: value for name, value in figures.items() if name.startswith("cost_")}
    write_settings(home.path, measured)
    lines = [f"{name} = {value:.3g}" for name, value in measured.items()]
    text = "\n".join([*lines, f"written to {home.path}/pststream.toml; new plans use them"])
    return CommandResult({"figures": figures}, text)
