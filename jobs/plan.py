"""Make a new plan version from a sample of the stored data.

python jobs/plan.py [--result FILE] [--home DIR] [--planner NAME] [--workers N]
"""

from pststream.pipeline.jobs.job import Job, argument, setting
from pststream.pipeline.replan.make_plan import make_plan

main = Job("plan", __doc__, make_plan, argument("--planner"), setting("--workers", "workers"))

if __name__ == "__main__":
    raise SystemExit(main())
