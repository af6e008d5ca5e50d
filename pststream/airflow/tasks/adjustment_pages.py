"""Let a Spark job write an HTML page on what a plan change moves, and link the page from the Airflow task.

The job writes the page as a file; `pages_plugin` serves the folder to users who are logged in.
"""

import os
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink

from pststream.airflow.dag_options import DagOptions
from pststream.airflow.runners.spark_job import SparkJob

PREFIX = "/pststream/pages"


def run_file(options: DagOptions, ending: str) -> str:
    """Return the template of the path of a file that a run writes to the folder of pages."""
    return f"{options.pages}/{{{{ dag.dag_id }}}}-{{{{ run_id | file_name }}}}{ending}"


def page_url(page: str) -> str:
    """Return the URL of a page; empty if the page was not written."""
    file = Path(page)
    if not file.is_file():
        return ""
    base = os.environ.get("PSTSTREAM_PAGES_URL") or conf.get("api", "base_url", fallback="").rstrip("/") + PREFIX
    return f"{base}/{file.name}"


class PageLink(BaseOperatorLink):
    """The button *What moves* of the task."""

    name = "What moves"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the URL of the page that the task wrote."""
        return page_url(operator.page)


class PagedJob(SparkJob):
    """A Spark job that writes a page about its moves to `page`, if there are any; its XCom also has the URL."""

    template_fields = (*SparkJob.template_fields, "page")
    operator_extra_links = (PageLink(),)

    def __init__(self, *, arguments: list[str], page: str, **kwargs: Any) -> None:
        super().__init__(arguments=[*arguments, f"--page={page}"], **kwargs)
        self.page = page

    def execute(self, context: Any) -> Any:
        """Run the job; return its summary with the URL of the page."""
        return {**super().execute(context), "page": page_url(self.page)}
