"""Answer one question about stored objects, and write a page with the answer.

python jobs/ask.py [--result FILE] [--home DIR] --question JSON [--page FILE.html] [--form]
"""

import json

from pststream.pipeline.jobs.job import Job, argument
from pststream.pipeline.jobs.landing import ask_for_page

main = Job(
    "ask",
    __doc__,
    ask_for_page,
    argument("--question", type=json.loads, required=True, help="the fields of the question"),
    argument("--page", help="write the answer to this file"),
    argument("--form", action="store_true", help="the page has the form of the question"),
    can_abort=True,
)

if __name__ == "__main__":
    raise SystemExit(main())
