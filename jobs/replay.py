"""Run the last batches again under the plan of a proposal, in a scratch home; fail if the matches or answers differ.

python jobs/replay.py [--result FILE] [--home DIR] --last N --proposal FILE --page FILE.html
"""

from pststream.pipeline.jobs.job import Job, argument
from pststream.pipeline.replan.replay import replay_proposal
from pststream.reports.commands.comparisons import is_as_recorded

main = Job(
    "replay",
    __doc__,
    replay_proposal,
    argument("--last", type=int, required=True),
    argument("--proposal", required=True),
    argument("--page", required=True),
    failed=lambda document: not is_as_recorded(document),
)

if __name__ == "__main__":
    raise SystemExit(main())
