"""Make a new partitioning, and apply it if that is worth it, or show what would move.

python jobs/repartition.py [--result FILE] [--home DIR] [--apply] [--planner NAME] [--kinds KINDS] [--gain X]
                           [--proposal FILE] [--page FILE.html] [--workers N] [--from-version A] [--to-version B]
"""

from pststream.base import names
from pststream.pipeline.jobs.job import Job, argument, setting
from pststream.pipeline.replan.make_plan import repartition

main = Job(
    "balance",
    __doc__,
    repartition,
    argument("--apply", action="store_false", dest="dry_run"),
    argument("--planner"),
    argument("--kinds", choices=tuple(names.PLANNERS_OF)),
    *(argument(option, type=int) for option in ("--workers", "--from-version", "--to-version")),
    *(argument(option) for option in ("--proposal", "--page")),
    setting("--gain", "repartition_gain"),
)

if __name__ == "__main__":
    raise SystemExit(main())
