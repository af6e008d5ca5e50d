"""Build and send one OpenLineage event; imported only if lineage is configured, since its client loads slowly."""

import datetime as dt
import os
import uuid
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import attr
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import parent_run
from openlineage.client.generated.base import RunFacet

PRODUCER = "pststream"


@attr.define
class LedgerFacet(RunFacet):
    """The home and ledger entry of a run, with its figures."""

    home: str
    step: str
    number: int
    figures: dict[str, Any]


def send_event(
    state: str,
    home: str,
    step: str,
    number: int,
    inputs: Sequence[str],
    outputs: Sequence[str],
    figures: dict[str, Any],
) -> None:
    """Send an event of a run (pststream/lineage.py). Raises what the transport raises."""
    facets: dict[str, RunFacet] = {"pststream": LedgerFacet(home, step, number, figures)}
    if parent := _parse_parent(os.environ.get("OPENLINEAGE_PARENT_ID", "")):
        facets["parent"] = parent
    event = RunEvent(
        eventTime=dt.datetime.now(dt.UTC).isoformat(),
        eventType=RunState[state],
        run=Run(str(uuid.uuid5(uuid.NAMESPACE_URL, f"file://{home}/{step}/{number}")), facets),
        job=Job(os.environ.get("OPENLINEAGE_NAMESPACE") or "default", f"pststream.{step}"),
        inputs=[InputDataset(*_dataset_name(address)) for address in inputs],
        outputs=[OutputDataset(*_dataset_name(address)) for address in outputs],
        producer=PRODUCER,
    )
    _client().emit(event)


@lru_cache(maxsize=1)
def _client() -> OpenLineageClient:
    return OpenLineageClient()


def _dataset_name(address: str) -> tuple[str, str]:
    """Return namespace and name of a dataset, by OpenLineage's naming of files and objects."""
    parts = urlsplit(address)
    return (f"s3://{parts.netloc}", parts.path.lstrip("/")) if parts.scheme == "s3" else ("file", address)


def _parse_parent(text: str) -> parent_run.ParentRunFacet | None:
    """Parse the parent task, which Airflow gives as namespace/name/run."""
    if text.count("/") < 2:
        return None
    namespace, name, run = text.rsplit("/", 2)
    return parent_run.ParentRunFacet(run=parent_run.Run(run), job=parent_run.Job(namespace, name))
