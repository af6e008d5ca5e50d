"""Make the request rows of the demo: hand-written and generated insertions, some deletions, faulty requests."""

from datetime import datetime

import numpy as np

from pststream.workloads.demo_texts import START_MS, demo_places, demo_vocabulary
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.faulty_rows import BAD_REQUESTS
from pststream.workloads.generated_objects import iso_times
from pststream.workloads.generated_requests import request_chunks
from pststream.workloads.named_subscriptions import CREATED, named_subscriptions
from pststream.workloads.object_sample import generate_sample

_SUBSCRIBERS = ("amir", "bea", "chen", "dora", "eno", "farah", "goran", "hana", "ines", "juan", "kofi", "lucia")
_HOUR_MS = 3_600_000


def first_requests(count: int, seed: int) -> list[dict]:
    """Return the insertions before the morning: named subscriptions, then `count` generated ones of the kind Q3."""
    sample = generate_sample(seed, 50_000, places=demo_places(), vocabulary=demo_vocabulary(), local_share=0.3)
    created_ms = int(datetime.fromisoformat(CREATED).timestamp() * 1000)
    chunks = request_chunks(
        count,
        seed,
        objects=sample,
        style=SubscriptionStyle("q3"),
        mean_lifetime=None,
        drift_every=None,
        start_ms=created_ms,
        ms_per_insertion=0.0,
        id_prefix="g",
    )
    rows = named_subscriptions()
    for number, row in enumerate(row for chunk in chunks for row in chunk.to_pylist()):
        present = {name: value for name, value in row.items() if value is not None}
        rows.append({**present, "subscriber": _SUBSCRIBERS[number % len(_SUBSCRIBERS)]})
    return rows


def later_requests(count: int, seed: int) -> list[dict]:
    """Return the requests of the morning.

    One of twenty generated subscriptions and one named one are deleted; requests with deliberate errors follow.
    """
    rng = np.random.default_rng([seed, 10])
    ended = np.sort(rng.choice(count, count // 20, replace=False))
    times = np.sort(START_MS + rng.random(len(ended)) * 5 * _HOUR_MS)
    rows: list[dict] = [
        {"op": "delete", "subscription_id": f"g{number}", "at": at}
        for number, at in zip(ended.tolist(), iso_times(times).to_pylist())
    ]
    noon = iso_times(np.array([START_MS + 5 * _HOUR_MS]))[0].as_py()
    rows.append({"op": "delete", "subscription_id": "world-whales", "at": noon})
    return [*rows, *BAD_REQUESTS]
