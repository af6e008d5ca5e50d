"""Move subscriptions between workers to balance their loads, or show what would move.

python jobs/balance.py [--result FILE] [--home DIR] local|global [--apply] [--method NAME] [--sigma X]
                       [--proposal FILE] [--page FILE.html]
"""

from pststream.base import names
from pststream.pipeline.jobs.job import Job, argument, setting
from pststream.pipeline.replan.balance import balance

main = Job(
    "balance",
    __doc__,
    balance,
    argument("kind", choices=("local", "global")),
    argument("--apply", action="store_false", dest="dry_run"),
    argument("--method", choices=names.BALANCERS, default="gr"),
    argument("--proposal"),
    argument("--page"),
    setting("--sigma", "sigma"),
)

if __name__ == "__main__":
    raise SystemExit(main())
