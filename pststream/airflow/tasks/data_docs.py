"""Link the Data Docs that a job has written, the results of the users' suites, from its Airflow task."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink, Context

from pststream.airflow.pages_plugin import PREFIX, homes_by_name
from pststream.airflow.runners.spark_job import SparkJob
from pststream.base import names

FAILED = "-failed/"
"""Part of the address of Data Docs with an expectation that was not met."""


class DataDocsLink(BaseOperatorLink):
    """The button *Data Docs* of the task."""

    name = "Data Docs"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the URL of the Data Docs of the task's last run; empty if it has none."""
        return data_docs_url(operator.data_docs)


class DataDocsJob(SparkJob):
    """A job whose document names the Data Docs that it has written."""

    operator_extra_links = (DataDocsLink(),)
    data_docs: Sequence[str] = ()

    def execute(self, context: Context) -> Any:
        """Run the job; return its document."""
        document = super().execute(context)
        self.data_docs = document["data_docs"]
        return document


def data_docs_url(addresses: Sequence[str]) -> str:
    """Return the URL of the most important of some Data Docs in the pages of their home.

    Those with an expectation that was not met come first. Empty without any, or if no page shows their home.
    """
    chosen = next((address for address in addresses if FAILED in address), addresses[-1] if addresses else "")
    base = conf.get("api", "base_url", fallback="").rstrip("/") + PREFIX
    for name, home in homes_by_name().items():
        prefix = names.storage_prefix(home)
        start = f"{prefix + home.partition('://')[2].rstrip('/') if prefix else Path(home).absolute()}/"
        if chosen.startswith(start):
            return "/".join(filter(None, [base, name, chosen.removeprefix(start)]))
    return ""
