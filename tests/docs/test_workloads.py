"""The page of benchmarks says the workload of each benchmark as its code has it."""

from pathlib import Path

from pststream.benchmarks.scenarios.plans import (
    adjust,
    balance,
    balance_methods,
    drift,
    mapping,
    migration,
    planners,
    planning,
    scalability,
)
from pststream.benchmarks.scenarios.streams import end_to_end, freshness, hostile, kernel, peers
from pststream.benchmarks.support.paper_workloads import (
    FIVE_A_REQUEST,
    OBJECTS_ALONE,
    OBJECTS_OF_FILES,
    describe_workload,
)
from pststream.generator.draw_subscriptions import KINDS, SubscriptionStyle

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"

WORKLOADS = {
    **{f"`planners`, `{name}`": describe_workload(style, FIVE_A_REQUEST) for name, style in planners.WORKLOADS.items()},
    **{f"`paper-job`, `{kind}`": describe_workload(SubscriptionStyle(kind), FIVE_A_REQUEST) for kind in KINDS},
    **{f"`scalability`, `{name}`": describe_workload(s, FIVE_A_REQUEST) for name, s in scalability.WORKLOADS.items()},
    "`drift`": describe_workload(drift.STYLE, FIVE_A_REQUEST),
    "`planning`": describe_workload(planning.STYLE, OBJECTS_ALONE),
    **{f"`balance-cost`, `{name}`": describe_workload(style, OBJECTS_ALONE) for name, style in balance.STYLES.items()},
    "`balance-mapping`, before": describe_workload(mapping.BEFORE, OBJECTS_ALONE),
    "`balance-mapping`, after": describe_workload(mapping.AFTER, OBJECTS_ALONE),
    "`balance-methods-…`": describe_workload(balance_methods.STYLE, OBJECTS_ALONE, OBJECTS_OF_FILES),
    "`migration`": describe_workload(migration.STYLE, OBJECTS_ALONE),
    "`adjust`": describe_workload(adjust.STYLE, OBJECTS_ALONE),
    **{f"`kernel`, `{name}`": describe_workload(style, OBJECTS_ALONE) for name, (_, style, _) in kernel.CASES.items()},
    **{f"`end-to-end`, `{name}`": describe_workload(s, OBJECTS_ALONE) for name, s in end_to_end.STYLES.items()},
    "`freshness`": describe_workload(freshness.STYLE, OBJECTS_ALONE, OBJECTS_OF_FILES),
    "`hostile`": describe_workload(hostile.STYLE, OBJECTS_ALONE, OBJECTS_OF_FILES),
    "`peers`": describe_workload(peers.STYLE, OBJECTS_ALONE),
    **{
        f"`planner-latency`, `{kind}`": describe_workload(SubscriptionStyle(kind), OBJECTS_ALONE, OBJECTS_OF_FILES)
        for kind in KINDS
    },
}


def test_workloads_are_as_the_page_says() -> None:
    page = PAGE.read_text("utf-8")
    missing = [line for name, text in WORKLOADS.items() if (line := f"| {name} | {text} |\n") not in page]
    assert not missing, "".join(missing)
