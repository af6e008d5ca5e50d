"""Owners of subscriptions: who is the owner of a landed file, is a name valid, whose is an id.

An id of a subscription is unique within its owner, so the pair of both names a subscription. The empty text is the
owner of requests for which nobody is named.
"""

import unicodedata
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.tables.delta_tables import TableReader

MAX_OWNER_BYTES = 255
"""The greatest length of an owner in UTF-8, that of the name of a folder."""

ID_COLUMNS = ("owner", "subscription_id")
"""The columns that identify a subscription, for subscribers; `subscription_key` does for the tables."""

BETWEEN_IDS = "\0"
"""Between an owner and an id where both are one text; no owner has it, so different pairs are different texts."""


def owner_of_landed(path: str, folder: str) -> str:
    """Return the first folder below `folder` (absolute, or an address) in which the file at `path` is; "": none."""
    first, below, _ = path.removeprefix(f"{folder.rstrip('/')}/").partition("/")
    return first if below and path.startswith(f"{folder.rstrip('/')}/") else ""


def find_owner_fault(owner: str) -> str:
    """Return why a text cannot be an owner; empty if it can."""
    categories = {unicodedata.category(character) for character in owner}
    if "Cs" in categories:
        return f"the owner {owner!r} is not UTF-8"
    if "Cc" in categories:
        return f"the owner {owner!r} has control characters"
    if (size := len(owner.encode())) > MAX_OWNER_BYTES:
        return f"the owner {owner[:40]!r}... has {size} bytes, more than {MAX_OWNER_BYTES}"
    return ""


def join_ids(owners: pa.Array, ids: pa.Array) -> pa.Array:
    """Return each owner and id as one text, see BETWEEN_IDS."""
    return pc.binary_join_element_wise(owners, ids, BETWEEN_IDS)


def show_id(owner: str, subscription_id: str) -> str:
    """Return an id as people read it, with its owner."""
    return f"{subscription_id} of {owner}" if owner else subscription_id


def resolve_owner(reader: TableReader, subscription_id: str, owner: str | None) -> str:
    """Return the owner that is meant: the given one, or else the only one who has the id; "" if nobody has it.

    Raises UsageError, with the owners, for an id of several.
    """
    return resolve_owners(reader, [subscription_id], owner)[subscription_id]


def resolve_owners(reader: TableReader, subscription_ids: Collection[str], owner: str | None) -> dict[str, str]:
    """Return the owner of each id, as `resolve_owner` does."""
    if owner is not None:
        return dict.fromkeys(subscription_ids, owner)
    of_ids = pds.field("subscription_id").isin(pa.array(subscription_ids, pa.string()))
    owners_of: dict[str, set[str]] = {one: set() for one in subscription_ids}
    for batch in reader.batches(names.REQUESTS, ID_COLUMNS, of_ids):
        for one, subscription_id in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            owners_of[subscription_id].add(one)
    for subscription_id, owners in owners_of.items():
        if len(owners) > 1:
            problem = f"{subscription_id}: several owners have this id: {', '.join(map(repr, sorted(owners)))}"
            raise UsageError(problem, "name one: --owner NAME, owner= in Python and in the address of a page")
    return {subscription_id: min(owners, default="") for subscription_id, owners in owners_of.items()}
