"""List every crash point with the command that reaches it, in the order in which one home gets all these commands.

The steps of `make test` come first: it ends there.
"""

from dataclasses import dataclass

ELSEWHERE = {
    "fetch.copied": "tests/e2e/test_buckets.py",  # needs a store
    "pairs.*": "tests/spark/test_pairs_table.py",  # needs Spark
    "upgrade.*": "tests/unit/state/test_upgrade.py",  # needs a home of another version
}
"""Crash points that no command on this home reaches, and the module that kills there."""


@dataclass(frozen=True)
class Step:
    """A command, and where it is killed.

    command  words; {files}: the folder of the input files; {out}: a new folder; {object}, {subscription}: ids to erase
    points   crash points; the first is killed in `make test`, if the step is `quick`
    before   commands that run before it, and are not killed
    final    crash points after which the command has done all but to delete what is old: it is not run again
    kills    how often it is killed at a point, where it is more than once: each try finishes what the one before began
    name     of a step whose results need a look beyond the tables
    """

    command: str
    points: tuple[str, ...]
    before: tuple[str, ...] = ()
    quick: bool = False
    final: tuple[str, ...] = ()
    kills: tuple[tuple[str, int], ...] = ()
    name: str = ""


STEPS = (
    Step(
        "ingest objects {files}/objects-01.jsonl",
        (
            *("ingest.objects_written", "ingest.parsed", "ingest.started", "gate.checked"),
            *("ingest.rejects_written", "ingest.done"),
        ),
        quick=True,
    ),
    Step("ingest requests {files}/requests-01.jsonl", ("ingest.requests_written",)),
    Step(
        "balance global --planner kd_tree --apply",
        ("balance.indexed", "balance.units_written", "balance.done"),
        ("uneven loads",),
        quick=True,
        final=("balance.done",),
    ),
    Step(
        "plan --planner dkm_sks --workers 4",
        ("plan.indexed", "areas_placed", "plan.done"),
        final=("plan.done",),
    ),
    Step(
        "match --until-empty",
        (
            *("match.matched", "match.started", "areas_placed", "match.placed", "match.indexed"),
            *("match.thresholds_indexed", "match.answered", "match.loads_written", "match.reported", "match.done"),
        ),
        quick=True,
    ),
    Step(
        "deliver",
        ("deliver.sent", "deliver.dead_letters", "deliver.saved"),
        quick=True,
        kills=(("deliver.saved", 2),),
        name="deliver",
    ),
    Step(
        "run {files}/landing",
        (
            *("questions.answered", "questions.copied", "questions.started", "questions.part_listed"),
            *("questions.listed", "questions.question_answers_committed", "questions.questions_committed"),
            *("questions.rejects_committed", "questions.file_written", "questions.done"),
        ),
        quick=True,
        name="questions",
    ),
    Step(
        "maintain",
        ("maintain.snapshot_written", "maintain.snapshot", "maintain.state_dropped"),
        ("ingest requests {files}/requests-02.jsonl", "match"),
        quick=True,
    ),
    Step(
        "erase --object-id {object} --subscription-id {subscription} --vacuum-now",
        (
            "erase.removed",
            "erase.started",
            "erase.discarded",
            "erase.recorded",
            "erase.restored",
            "erase.files_deleted",
            "erase.vacuumed",
        ),
        quick=True,
        kills=(("erase.removed", 3), ("erase.vacuumed", 2)),
        name="erase",
    ),
    Step("dead-letters replay", ("deliver.replayed",), name="replay"),
    Step(
        "term-statistics",
        ("statistics.committed", "statistics.counted", "statistics.done"),
        final=("statistics.done",),
    ),
    Step(
        "withdraw --object-id ahead",
        ("withdraw.named", "withdraw.restored", "withdraw.done"),
        ("ingest objects {files}/ahead.jsonl", "ingest objects {files}/objects-02.jsonl"),
    ),
    Step("ingest objects --retry-rejects late", ("retry.written",)),
    Step("ingest objects {files}/bad.csv", ("quarantine.copied", "gate.quarantined")),
    Step("quarantine discard 1", ("quarantine.discarded",)),
    Step("plan --planner text --workers 4", ("plan.units_written",), ("match",)),
    Step("plan --planner location --workers 4", ("plan.topk_written",)),
    Step("backup --out {out}", ("backup.copied", "backup.read"), name="backup"),
    Step(
        "maintain --keep answer_log=1d",
        ("maintain.changes_written", "maintain.changes_removed"),
        ("ingest requests {files}/requests-03.jsonl", "match", "old batches"),
    ),
    Step("maintain --keep objects=1d,matches=1d", ("keep.recorded", "keep.removed"), kills=(("keep.removed", 2),)),
)
