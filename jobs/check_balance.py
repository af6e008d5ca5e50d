"""Report whether the loads of the workers are balanced.

python jobs/check_balance.py [--result FILE] [--home DIR] [--sigma X]
"""

from pststream.pipeline.jobs.job import Job, setting
from pststream.pipeline.replan.measured_loads import check_balance

main = Job(
    "balance",
    __doc__,
    lambda home, settings, progress: check_balance(home, settings),
    setting("--sigma", "sigma"),
)

if __name__ == "__main__":
    raise SystemExit(main())
