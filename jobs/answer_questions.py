"""Answer the new files in `questions/` of a landing folder.

python jobs/answer_questions.py [--result FILE] [--home DIR] [--landing DIR] [--since TIME] [--only-if-idle]
"""

from pststream.pipeline.jobs.job import Job
from pststream.pipeline.jobs.landing import LANDING, ONLY_IF_IDLE, SINCE, answer_landing

main = Job("answer_questions", __doc__, answer_landing, LANDING, SINCE, ONLY_IF_IDLE)

if __name__ == "__main__":
    raise SystemExit(main())
