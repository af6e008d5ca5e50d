"""Draw questions about a sample of stored objects, as SSTD does (section 7.1): each from one object, place and words.

A region has the proportions of the whole space, -180 to 180 and -90 to 90 degrees, and a share of its area.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.support.object_worlds import DAY_US, DAYS, VOCABULARY, SampledObjects, frequent_words, rare_words
from pststream.base.utc_times import from_micros, iso, to_micros
from pststream.pipeline.calibrate.synthetic_homes import START
from pststream.workloads.generate_files import GREATEST_DISTANCE_M
from pststream.workloads.places import city_places
from pststream.workloads.random_texts import make_vocabulary

Record = dict[str, Any]

SHARES = (1e-6, 1e-4, 1e-2)
"""Areas of regions: 0.0001%, 0.01% (the default) and 1% of the space."""

TOPK_OBJECTS = 1_000_000
"""Window of `topk`: so many of the newest objects."""


@dataclass(frozen=True)
class QuestionStyle:
    """How questions are drawn: kind, share of the space, words, k, hours of the window; (least, greatest) of each.

    mixed  whether each question has an `as_of` of its own, in the last three weeks; without it the window of `topk` are
           the TOPK_OBJECTS newest objects
    """

    kind: str
    share: tuple[float, float] = (1e-4, 1e-4)
    words: tuple[int, int] = (1, 1)
    k: tuple[int, int] = (10, 10)
    hours: tuple[int, int] = (72, 72)
    mixed: bool = False


_RANGE, _KNN, _TERMS = QuestionStyle("range"), QuestionStyle("knn"), QuestionStyle("frequent_terms")
_TOPK = QuestionStyle("topk", words=(1, 5), k=(20, 20))
STYLES: Mapping[str, QuestionStyle] = {
    "range": _RANGE,
    "range_area_0.0001%": replace(_RANGE, share=(1e-6, 1e-6)),
    "range_area_1%": replace(_RANGE, share=(1e-2, 1e-2)),
    "range_3_words": replace(_RANGE, words=(3, 3)),
    "range_24h": replace(_RANGE, hours=(24, 24)),
    "range_168h": replace(_RANGE, hours=(168, 168)),
    "knn": _KNN,
    "knn_k_40": replace(_KNN, k=(40, 40)),
    "knn_3_words": replace(_KNN, words=(3, 3)),
    "knn_168h": replace(_KNN, hours=(168, 168)),
    "frequent_terms": _TERMS,
    "frequent_terms_area_0.0001%": replace(_TERMS, share=(1e-6, 1e-6)),
    "frequent_terms_area_1%": replace(_TERMS, share=(1e-2, 1e-2)),
    "frequent_terms_k_40": replace(_TERMS, k=(40, 40)),
    "frequent_terms_168h": replace(_TERMS, hours=(168, 168)),
    "topk": _TOPK,
}
"""The default of each kind under its name, and its extremes."""

_MIXED: dict[str, Any] = {"share": (1e-6, 1e-2), "words": (1, 3), "k": (10, 40), "hours": (24, 168), "mixed": True}
MIXED = tuple(replace(style, **_MIXED) for style in (_RANGE, _KNN, _TERMS, _TOPK))
"""The four kinds in equal parts; areas evenly over the logarithm."""


@lru_cache(maxsize=1)
def word_ranks() -> dict[str, int]:
    """Return the rank of each word of the vocabulary: 0 for the most frequent."""
    return {word: rank for rank, word in enumerate(make_vocabulary(VOCABULARY).words.to_pylist())}


def draw_questions(sampled: SampledObjects, style: QuestionStyle, count: int, seed: int) -> list[Record]:
    """Draw questions of one style from sampled objects."""
    rng = np.random.default_rng([seed, 7])
    chosen = rng.integers(0, len(sampled.lon), count).tolist()
    shares = np.exp(rng.uniform(math.log(style.share[0]), math.log(style.share[1]), count)).tolist()
    words, k, hours = (rng.integers(low, high + 1, count) for low, high in (style.words, style.k, style.hours))
    records = []
    for number, place in enumerate(chosen):
        lon, lat = float(sampled.lon[place]), float(sampled.lat[place])
        known = sampled.words[place]
        some = [known[at] for at in rng.permutation(len(known))[: words[number]]]
        record = _question(style.kind, lon, lat, some, shares[number], int(k[number]), int(hours[number]))
        if style.mixed:
            record["as_of"] = iso(from_micros(to_micros(START) + int(rng.uniform(9, DAYS) * DAY_US)))
        elif style.kind == "topk":
            record["window"] = {"objects": TOPK_OBJECTS}
        records.append(record)
    return records


def draw_mixed(sampled: SampledObjects, count: int, seed: int) -> list[Record]:
    """Draw mixed questions: the kinds by turns, each with area, words, k, window and time of its own."""
    by_kind = [draw_questions(sampled, style, count // len(MIXED), seed + n) for n, style in enumerate(MIXED)]
    by_turns = (record for some in zip(*by_kind) for record in some)
    return [{"question_id": number, **record} for number, record in enumerate(by_turns)]


def worst_cases(sampled: SampledObjects, count: int, seed: int) -> dict[str, list[Record]]:
    """Return `count` questions of each named worst case, about a world of cities."""
    first, second, third, *more = frequent_words(5)
    cities = city_places()
    largest = int(cities.weight.argmax())
    city_box = region_box(float(cities.lon[largest]), float(cities.lat[largest]), 1e-4)
    world = [-180, -90, 180, 90]
    points = draw_questions(sampled, _KNN, count, seed)
    frequent, rarely_meet = f"{first} AND {third} AND {more[0]}", f"{first} AND {second}"
    cases: dict[str, Record] = {
        "range_frequent_words_of_the_world": {"kind": "range", "bbox": world, "keywords": frequent, "window": "72h"},
        "range_words_that_rarely_meet": {"kind": "range", "bbox": world, "keywords": rarely_meet, "window": "168h"},
        "range_newest_of_the_world": {"kind": "range", "bbox": world, "keywords": first, "limit": 100},
        "range_largest_city": {"kind": "range", "bbox": city_box, "keywords": first, "window": "168h"},
        "knn_frequent_words": {"kind": "knn", "keywords": frequent, "window": "72h"},
        "knn_words_that_rarely_meet": {"kind": "knn", "keywords": rarely_meet, "window": "168h"},
        "knn_rare_word": {"kind": "knn", "keywords": rare_words(1)[0], "k": 40},
        "topk_frequent_words": {
            "kind": "topk", "keywords": " ".join((first, second, third, *more)), "alpha": 0.5, "k": 20,
            "window": {"objects": TOPK_OBJECTS}, "distance_scale_m": GREATEST_DISTANCE_M,
        },
        "frequent_terms_largest_city": {"kind": "frequent_terms", "bbox": city_box, "k": 10, "window": "168h"},
        "frequent_terms_of_the_world": {"kind": "frequent_terms", "bbox": world, "k": 10, "window": "168h"},
    }  # fmt: skip
    drawn = {}
    for name, case in cases.items():
        if case["kind"] in ("knn", "topk"):
            drawn[name] = [{"k": 10, **case, "point": point["point"]} for point in points]
        else:
            drawn[name] = [case]
    return drawn


def region_box(lon: float, lat: float, share: float) -> list[float]:
    """Return the region of a share of the space around a point, moved so far that it lies inside: W, S, E, N."""
    wide, high = 180.0 * share**0.5, 90.0 * share**0.5
    lon = min(max(lon, -180.0 + wide), 180.0 - wide)
    lat = min(max(lat, -90.0 + high), 90.0 - high)
    return [lon - wide, lat - high, lon + wide, lat + high]


def _question(kind: str, lon: float, lat: float, words: list[str], share: float, k: int, hours: int) -> Record:
    window = f"{hours}h"
    if kind == "range":
        return {"kind": kind, "bbox": region_box(lon, lat, share), "keywords": " AND ".join(words), "window": window}
    if kind == "frequent_terms":
        return {"kind": kind, "bbox": region_box(lon, lat, share), "k": k, "window": window}
    point = {"lon": lon, "lat": lat}
    if kind == "knn":
        return {"kind": kind, "point": point, "keywords": " AND ".join(words), "k": k, "window": window}
    score = {"alpha": 0.5, "distance_scale_m": GREATEST_DISTANCE_M}
    return {"kind": kind, "point": point, "keywords": " ".join(words), "k": k, **score, "window": window}
