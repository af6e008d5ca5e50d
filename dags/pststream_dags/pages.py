"""Where the pages on adjustments lie, and how a task links to its own.

The page is a file; the plugin `pststream_pages` (infra/airflow/plugins) serves the folder to who is logged in.
"""

import os
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink
from pststream_dags.spark_job import SparkJob

from pststream import names

HOME = os.environ.get("PSTSTREAM_HOME", "./pststream-home")
PAGES = "./pststream-pages" if names.storage_prefix(HOME) else f"{HOME}/pages"
FOLDER = Path(os.environ.get("PSTSTREAM_PAGES") or PAGES).absolute()
PREFIX = "/pststream/pages"

RUN = "{{ dag.dag_id }}-{{ run_id | file_name }}"
PAGE = f"{FOLDER}/{RUN}.html"
PROPOSAL = f"{FOLDER}/{RUN}.npz"


def address(page: str) -> str:
    """Where a browser finds a page; empty if it was not written."""
    file = Path(page)
    if not file.is_file():
        return ""
    base = os.environ.get("PSTSTREAM_PAGES_URL") or conf.get("api", "base_url", fallback="").rstrip("/") + PREFIX
    return f"{base}/{file.name}"


class PageLink(BaseOperatorLink):
    """The button on the task."""

    name = "What moves"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Address of the page that the task wrote."""
        return address(operator.page)


class PagedJob(SparkJob):
    """A Spark job that writes a page on what it does, at `page`, if it does something; its XCom has the address too."""

    template_fields = (*SparkJob.template_fields, "page")
    operator_extra_links = (PageLink(),)

    def __init__(self, *, arguments: list[str], page: str = PAGE, **kwargs: Any) -> None:
        super().__init__(arguments=[*arguments, f"--page={page}"], **kwargs)
        self.page = page

    def execute(self, context: Any) -> Any:
        """As a Spark job."""
        return {**super().execute(context), "page": address(self.page)}
