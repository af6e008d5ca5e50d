"""Merge the documents that one benchmark printed for several seeds, and spread their values."""

from collections.abc import Sequence
from statistics import median
from typing import Any


def merge_seeds(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one document for those of one benchmark; that of a single seed is returned as it is.

    A figure whose values differ becomes a list: median, least, greatest. It is there if one document has it, as some
    seeds may be of some workloads only. A target is met if every document meets it. All else is of the first document.
    """
    if len(documents) == 1:
        return documents[0]
    names = dict.fromkeys(name for document in documents for name in document["figures"])
    targets: dict[str, Any] = {}
    for document in documents:
        for name, target in document["targets"].items():
            met = target["met"] and targets.get(name, target)["met"]
            targets[name] = {**target, "met": met}
    figures = {name: _merge([one["figures"][name] for one in documents if name in one["figures"]]) for name in names}
    return {**documents[0], "figures": figures, "targets": targets}


def _merge(values: Sequence[Any]) -> Any:
    """Return the spread of numbers that differ, texts that differ joined by `or`, and the first value otherwise."""
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(set(numbers)) > 1:
        return spread_of(numbers)
    texts = dict.fromkeys(value for value in values if isinstance(value, str))
    return " or ".join(texts) if len(texts) > 1 else values[0]


def spread_of(values: Sequence[float]) -> list[float]:
    """Return the median, to six decimals, the least and the greatest value."""
    return [round(median(values), 6), min(values), max(values)]


def middle_of(value: Any) -> Any:
    """Return the median of a spread; any other value as it is."""
    return value[0] if isinstance(value, list) else value
