"""Delta tables by delta-rs, and as datasets of Arrow, read by Arrow's own file systems."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

import pyarrow.dataset as pds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.fs import FileSystem, SubTreeFileSystem

from pststream.errors import RetryableError
from pststream.storage import aws
from pststream.storage.addresses import in_bucket
from pststream.storage.arrow_files import located


def open_table(address: str, version: int | None = None) -> DeltaTable:
    """A table, as it stands or stood at a version."""
    with store_told(address):
        return DeltaTable(address, version=version, storage_options=storage_options(address))


def storage_options(address: str) -> dict[str, str] | None:
    """What delta-rs has to be told of where an address lies; nothing for a folder."""
    if not in_bucket(address):
        return None
    found = aws.found(address)
    options = {
        "AWS_REGION": found.region,
        "AWS_ACCESS_KEY_ID": found.key,
        "AWS_SECRET_ACCESS_KEY": found.secret,
        "AWS_SESSION_TOKEN": found.token,
        "AWS_ENDPOINT_URL": found.endpoint,
        "AWS_ALLOW_HTTP": "true" if (found.endpoint or "").startswith("http://") else None,
    }
    return {name: value for name, value in options.items() if value is not None}


def open_dataset(table: DeltaTable) -> pds.Dataset:
    """A table as a dataset whose filters skip files by their statistics.

    Not with the file system that delta-rs would give it: that one is written in Python, Arrow's threads need the
    interpreter to close its files, and a process that ends just then is aborted (a third of short ones on a busy
    machine).
    """
    uri = table.table_uri
    system, path = located(unquote(uri).rstrip("/")) if in_bucket(uri) else FileSystem.from_uri(uri)
    return table.to_pyarrow_dataset(filesystem=SubTreeFileSystem(path, system))


@contextmanager
def store_told(address: str) -> Iterator[None]:
    """Of a table in a bucket: delta-rs's errors, which quote what the store has answered, as one that may be retried.

    That there is no such table is no fault of the store.
    """
    try:
        yield
    except TableNotFoundError:
        raise
    except (DeltaError, OSError) as error:
        if not in_bucket(address):
            raise
        raise RetryableError(f"{address}: {type(error).__name__}: {_first_line(error)}", "run this again") from None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "").strip()
