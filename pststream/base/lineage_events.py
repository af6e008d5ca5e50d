"""Build and send one OpenLineage event; imported only if lineage is configured, since its client loads slowly."""

import os
import uuid
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import attr
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import output_statistics_output_dataset, parent_run, schema_dataset
from openlineage.client.generated.base import DatasetFacet, OutputDatasetFacet, RunFacet

from pststream import __version__
from pststream.base.lineage import LineageDataset
from pststream.base.utc_times import utc_now

PRODUCER = f"urn:pststream:{__version__}"
"""The URI of this program in events. It is a name and not an address."""

LEDGER_SCHEMA = "urn:pststream:facets:1-0-0:PststreamLedgerRunFacet.json"
"""The `$id` of lineage_ledger_facet.json."""


@attr.define
class PststreamLedgerRunFacet(RunFacet):
    """The home and ledger entry of a run, with its figures; lineage_ledger_facet.json is its schema."""

    home: str
    step: str
    number: int
    figures: dict[str, Any]

    @staticmethod
    def _get_schema() -> str:
        return f"{LEDGER_SCHEMA}#/$defs/PststreamLedgerRunFacet"


def send_event(
    state: str,
    home: str,
    step: str,
    number: int,
    inputs: Sequence[LineageDataset],
    outputs: Sequence[LineageDataset],
    figures: dict[str, Any],
) -> None:
    """Send an event of a run (pststream/base/lineage.py). Raises what the transport raises."""
    facets: dict[str, RunFacet] = {
        "pststream_ledger": PststreamLedgerRunFacet(home, step, number, figures, producer=PRODUCER)
    }
    if parent := _parse_parent(os.environ.get("OPENLINEAGE_PARENT_ID", "")):
        facets["parent"] = parent
    event = RunEvent(
        eventTime=utc_now().isoformat(),
        eventType=RunState[state],
        run=Run(str(uuid.uuid5(uuid.NAMESPACE_URL, f"file://{home}/{step}/{number}")), facets),
        job=Job(os.environ.get("OPENLINEAGE_NAMESPACE") or "default", f"pststream.{step}"),
        inputs=[InputDataset(*dataset_name(address), facets=_facets(columns)) for address, columns, _ in inputs],
        outputs=[
            OutputDataset(*dataset_name(address), facets=_facets(columns), outputFacets=_statistics(rows, figures))
            for address, columns, rows in outputs
        ],
        producer=PRODUCER,
    )
    _client().emit(event)


@lru_cache(maxsize=1)
def _client() -> OpenLineageClient:
    return OpenLineageClient()


def dataset_name(address: str) -> tuple[str, str]:
    """Return namespace and name of a dataset, by OpenLineage's naming of files and objects."""
    parts = urlsplit(address)
    if parts.scheme in ("s3", "s3a"):
        return f"s3://{parts.netloc}", address.partition("://")[2].partition("/")[2].strip("/")
    return "file", os.path.abspath(address)


def _facets(columns: Sequence[tuple[str, str, str]]) -> dict[str, DatasetFacet]:
    """Return the facet of the columns, if they are known."""
    if not columns:
        return {}
    fields = [
        schema_dataset.SchemaDatasetFacetFields(name, type, meaning, position, fields=None)
        for position, (name, type, meaning) in enumerate(columns, start=1)
    ]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields, producer=PRODUCER)}


def _statistics(rows: str | None, figures: dict[str, Any]) -> dict[str, OutputDatasetFacet]:
    """Return the facet of the rows written, if the figures of the run have their number."""
    if rows not in figures:
        return {}
    facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(int(figures[rows]), producer=PRODUCER)
    return {"outputStatistics": facet}


def _parse_parent(text: str) -> parent_run.ParentRunFacet | None:
    """Parse the parent task, which Airflow gives as namespace/name/run; None if the run is no UUID."""
    if text.count("/") < 2:
        return None
    namespace, name, run = text.rsplit("/", 2)
    try:
        uuid.UUID(run)
    except ValueError:
        return None
    return parent_run.ParentRunFacet(run=parent_run.Run(run), job=parent_run.Job(namespace, name), producer=PRODUCER)
