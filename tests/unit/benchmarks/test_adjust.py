"""The objects that the benchmark of adjustment adds to a region have the words of their place."""

import numpy as np
import pytest

from benchmarks.scenarios.plans.adjust import SIDE, crowd_objects
from pststream.workloads.synthetic_arrays import SyntheticObjects, synthetic_objects


def things(objects: SyntheticObjects) -> list[tuple[float, float, tuple[int, ...]]]:
    """Return place and words of each object."""
    words = np.split(objects.terms, objects.term_offsets[1:-1])
    return list(zip(objects.lon.tolist(), objects.lat.tolist(), (tuple(one.tolist()) for one in words), strict=True))


def test_a_share_of_the_objects_is_replaced_by_those_of_one_region() -> None:
    area, drawn = synthetic_objects(5_000, 1), synthetic_objects(2_000, 2)
    before, after, of_area = things(drawn), things(crowd_objects(drawn, area, 0.6, 1)), set(things(area))
    added = [new for old, new in zip(before, after, strict=True) if new != old]
    assert len(added) == pytest.approx(1_200, rel=0.1) and set(added) <= of_area
    for axis, values in enumerate((area.lon, area.lat)):
        places = [thing[axis] for thing in added]
        assert 0 < max(places) - min(places) <= SIDE * (values.max() - values.min())


def test_no_object_is_replaced_without_a_share() -> None:
    area, drawn = synthetic_objects(500, 1), synthetic_objects(200, 2)
    assert things(crowd_objects(drawn, area, 0.0, 1)) == things(drawn)
