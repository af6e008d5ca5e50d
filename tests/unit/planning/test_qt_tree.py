"""The QT-tree, Text and quadtree planners against SSTD's Algorithm 1 written out with sets and fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base import names
from pststream.matching.matcher import add_every_object
from pststream.planning.dispatch import make_dispatch
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.papers.karmarkar_karp import divide_evenly
from pststream.planning.papers.qt_tree_growth import hash_contents
from pststream.planning.papers.query_statistics import collect_query_statistics
from pststream.planning.planners.registry import make_plan
from pststream.plans.plan import DispatchGrid, ObjectPlan, PartitionPlan
from pststream.plans.plan_nodes import find_unit
from pststream.plans.planner_sample import POSTING_READS, WorkloadSample
from tests.fuzz.cases import examples, seeds
from tests.oracles import sstd
from tests.oracles.sstd import differencing
from tests.plans import asked_samples, make_sample, unpack


@examples(300)
@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 9))
def test_equals_the_plain_method(numbers: list[int], parts: int) -> None:
    part = divide_evenly(np.array(numbers, np.float64), parts)
    assert part.dtype == np.int64
    divided = [set(np.flatnonzero(part == number).tolist()) for number in range(int(part.max(initial=-1)) + 1)]
    assert divided == sorted(differencing(numbers, parts), key=min)


QUADTREE_COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)
GRID = DispatchGrid(-10.0, 30.0, 30.0, 60.0, 9, 7)


@examples(150)
@given(asked_samples(), st.tuples(*[st.integers(0, 8), st.integers(0, 6)] * 2))
def test_workloads_are_those_of_equation_2(sample: WorkloadSample, part: tuple[int, int, int, int]) -> None:
    statistics = collect_query_statistics(sample, GRID)
    workload = statistics.workload(statistics.inside(statistics.whole, *part))
    assert workload == pytest.approx(sstd.Statistics(sample, GRID).workload(part), rel=1e-12)


@examples(100)
@given(asked_samples(), st.sampled_from((1, 2, 3, 8)), st.integers(1, 40), st.integers(1, 9), st.integers(1, 9))
def test_the_quadtree_is_that_of_algorithm_1(
    sample: WorkloadSample, workers: int, theta: int, columns: int, rows: int
) -> None:
    plan = make_plan("quadtree", sample, workers, QUADTREE_COST, {"columns": columns, "rows": rows, "theta": theta})
    leaves = sstd.quadtree(sstd.Statistics(sample, plan.grid), columns, rows, theta)
    cells = plan.cell_leaf.reshape(rows, columns)
    made = {tuple(int(n) for n in (x.min(), y.min(), x.max(), y.max())) for y, x in map(np.nonzero, _masks(cells))}
    assert made == {part for part, _ in leaves}
    assert plan.leaves == len(leaves)


def _masks(cells: np.ndarray) -> list[np.ndarray]:
    return [cells == leaf for leaf in range(int(cells.max()) + 1)]


def crowd(count: int) -> WorkloadSample:
    """Points around one town, each with one word and a small box around it."""
    points = np.clip(np.random.default_rng(3).normal(0.3, 0.1, (count, 2)), 0.0, 1.0)
    boxes = [(x - 0.005, y - 0.005, x + 0.005, y + 0.005) for x, y in points.tolist()]
    return make_sample([tuple(p) for p in points.tolist()], [[1]] * count, boxes, [[1]] * count)


def test_leaves_are_small_where_the_load_is_and_shared_out() -> None:
    sample = crowd(5_000)
    plan = make_plan("quadtree", sample, 4, QUADTREE_COST)
    assert plan.leaves == 64
    sizes = np.bincount(plan.cell_leaf)
    town = plan.cell_leaf[plan.grid.cell(np.array([0.3]), np.array([0.3]))[0]]
    assert sizes[town] <= sizes.max() / 16
    assert compute_worker_loads(sample, plan, QUADTREE_COST).imbalance <= 1.5


@seeds(8)
def test_leaves_of_the_quadtree_go_to_workers_by_the_differencing_method(seed: int) -> None:
    """With 64 subscriptions to one word workloads are exact floats, so that equal ones are equal for the twin too."""
    rng = np.random.default_rng(seed)
    points, middles = rng.random((200, 2)) ** 2, rng.random((64, 2))
    boxes = [(x - 0.1, y - 0.1, x + 0.1, y + 0.1) for x, y in middles.tolist()]
    sample = make_sample([tuple(p) for p in points.tolist()], [[1]] * 200, boxes, [[1]] * 64)
    plan = make_plan("quadtree", sample, 2 + seed % 4, QUADTREE_COST, {"columns": 16, "rows": 16, "theta": 20})
    statistics = sstd.Statistics(sample, plan.grid)
    cells = plan.cell_leaf.reshape(16, 16)
    parts = [(int(x.min()), int(y.min()), int(x.max()), int(y.max())) for y, x in map(np.nonzero, _masks(cells))]
    workloads = [Fraction(statistics.workload(part)) for part in parts]
    expected = sorted(sorted(leaves) for leaves in sstd.differencing(workloads, plan.workers))
    made = [np.flatnonzero(plan.unit_worker == worker).tolist() for worker in range(plan.workers)]
    assert sorted(made) == expected


COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6, posting=1e-8)


def ordered_objects(sample: WorkloadSample, plan: PartitionPlan) -> dict[int, sstd.Thing]:
    """The objects with a live term in the order of their hashes, by their place in the sorted sample."""
    statistics = collect_query_statistics(sample, plan.grid)
    rows = statistics.sample
    hashes = hash_contents(statistics)
    words = [{int(statistics.words[one]) for one in own} for own in unpack(*statistics.object_words)]
    places = statistics.whole.objects[np.argsort(hashes[statistics.whole.objects], kind="stable")].tolist()
    return {at: (int(rows.column[at]), int(rows.row[at]), words[at]) for at in places}


def lists_of(plan: PartitionPlan, node: int) -> tuple[dict[int, int], list[set[int]]]:
    """How often each keyword of a node by text is asked for, and the keyword list of each child."""
    assert plan.nodes is not None
    own = slice(*plan.nodes.term_offsets[node : node + 2])
    rows = list(zip(*(values[own].tolist() for values in (plan.nodes.terms, plan.nodes.asked, plan.nodes.holders))))
    lists = [{term for term, _, holders in rows if holders >> child & 1} for child in range(4)]
    return {term: asked for term, asked, _ in rows}, lists


@examples(150)
@given(asked_samples(), st.sampled_from(("qt_tree", "text")), st.integers(1, 30), st.integers(1, 9), st.integers(1, 9))
def test_the_plan_is_that_of_algorithm_1(
    sample: WorkloadSample, planner: str, theta: int, columns: int, rows: int
) -> None:
    plan = make_plan(planner, sample, 3, COST, {"columns": columns, "rows": rows, "theta": theta})
    statistics = sstd.Statistics(sample, plan.grid)
    things = list(ordered_objects(sample, plan).values())
    tree = sstd.qt_tree(statistics, things, (0, 0, columns - 1, rows - 1), theta, planner == "qt_tree")
    nodes = plan.nodes
    assert nodes is not None
    assert nodes.parent.tolist() == [node.parent for node in tree]
    assert nodes.rectangle.tolist() == [list(node.part) for node in tree]
    assert nodes.objects.tolist() == [len(node.objects) for node in tree]
    assert nodes.by_text.tolist() == [bool(node.lists) for node in tree]
    for number in np.flatnonzero(nodes.by_text).tolist():
        keywords = [word for words in statistics.keywords_in(tree[number].part) for word in words]
        asked, lists = lists_of(plan, number)
        assert asked == {word: keywords.count(word) for word in keywords}
        assert lists == [own & set(keywords) for own in tree[number].lists]


@seeds(8)
def test_leaves_go_to_workers_by_the_differencing_method(seed: int) -> None:
    """Each subscription covers all and has one of 64 words: workloads are exact floats, and equal ones are equal."""
    rng = np.random.default_rng(seed)
    points = [(x, y) for x, y in rng.random((300, 2)).tolist()]
    words = [rng.choice(64, 2, replace=False).tolist() for _ in points]
    sample = make_sample(points, words, [(0, 0, 1, 1)] * 64, [[word] for word in range(64)])
    plan = make_plan("text", sample, 2 + seed % 4, COST, {"columns": 4, "rows": 4, "theta": 20})
    tree = sstd.qt_tree(
        sstd.Statistics(sample, plan.grid), list(ordered_objects(sample, plan).values()), (0, 0, 3, 3), 20, False
    )
    workloads = [node.workload for node in tree if node.is_leaf]
    assert len(workloads) == 22 and all(Fraction(float(one)) == one for one in workloads)
    expected = sorted(sorted(leaves) for leaves in sstd.differencing(workloads, plan.workers))
    assert sorted(np.flatnonzero(plan.unit_worker == worker).tolist() for worker in range(plan.workers)) == expected


def topics(count: int, side: float) -> WorkloadSample:
    """Objects and subscriptions of ten topics of five words each; those of the west are about three topics of them."""
    rng = np.random.default_rng(3)
    points = rng.random((count, 2))
    topic = np.where(points[:, 0] < 0.5, rng.integers(0, 3, count), rng.integers(0, 10, count))
    words = [(5 * one + rng.choice(5, 3, replace=False)).tolist() for one in topic.tolist()]
    boxes = [(x - side, y - side, x + side, y + side) for x, y in points.tolist()]
    boxes = [box if box[0] < 0.5 else (0.5, -1.0, 2.0, 2.0) for box in boxes]
    return make_sample([tuple(p) for p in points.tolist()], words, boxes, words)


MIXED = topics(3_000, 0.02)


@pytest.fixture(scope="module")
def mixed() -> PartitionPlan:
    return make_plan("qt_tree", MIXED, 5, COST, {"columns": 32, "rows": 32})


def test_loads_are_those_of_a_walk_for_each_object_and_box(mixed: PartitionPlan) -> None:
    assert mixed.nodes is not None
    grid, loads = mixed.grid, compute_worker_loads(MIXED, mixed, COST)
    column, row = grid.cell_x(MIXED.lon), grid.cell_y(MIXED.lat)
    units, reads = np.zeros(mixed.units), np.zeros(mixed.workers)
    for at, words in enumerate(unpack(MIXED.term_offsets, MIXED.terms)):
        unit = find_unit(mixed.nodes, int(column[at]), int(row[at]), set(words))
        units[unit] += 1
        reads[mixed.unit_worker[unit]] += MIXED.reads[MIXED.term_offsets[at] : MIXED.term_offsets[at + 1]].sum()
    assert loads.unit_objects.tolist() == units.tolist()
    assert loads.objects.tolist() == np.bincount(mixed.unit_worker, units).tolist()
    assert loads.reads.tolist() == (reads / POSTING_READS).tolist()
    leaves = np.flatnonzero(mixed.nodes.unit >= 0)
    x0, y0, x1, y1 = mixed.nodes.rectangle[leaves].T
    stored = [set[int]() for _ in range(mixed.workers)]
    for key, (west, south, east, north) in enumerate(MIXED.boxes):
        touched = (x0 <= grid.cell_x(east)) & (x1 >= grid.cell_x(west))
        touched &= (y0 <= grid.cell_y(north)) & (y1 >= grid.cell_y(south))
        for worker in mixed.unit_worker[mixed.nodes.unit[leaves[touched]]].tolist():
            stored[worker].add(key)
    assert loads.subscriptions.tolist() == [len(keys) for keys in stored]


def test_each_object_goes_to_one_unit_and_counts_there(mixed: PartitionPlan) -> None:
    index = make_dispatch(mixed)
    objects = (MIXED.lon, MIXED.lat, MIXED.term_offsets, MIXED.terms)
    units, counts = index.units_of_objects(*objects)
    first = MIXED.term_offsets[:-1]
    assert (np.repeat(units[first], np.diff(MIXED.term_offsets)) == units).all()
    assert counts.tolist() == np.bincount(units[first], minlength=mixed.units).tolist()
    for worker in range(mixed.workers):
        own, of_worker = index.units_of_objects(*objects, worker)
        assert own.tolist() == np.where(mixed.unit_worker[units] == worker, units, -1).tolist()
        assert of_worker.tolist() == np.where(mixed.unit_worker == worker, counts, 0).tolist()


def test_the_term_of_every_object_changes_no_unit() -> None:
    """Tasks add it to the objects of a batch only if some subscription has no keywords."""
    posts = [*unpack(MIXED.post_offsets, MIXED.post_terms)]
    posts[::7] = [[names.EVERY_OBJECT]] * len(posts[::7])
    offsets, terms = add_every_object(MIXED.term_offsets, MIXED.terms)
    points = [(x, y) for x, y in zip(MIXED.lon.tolist(), MIXED.lat.tolist())]
    sample = make_sample(points, unpack(offsets, terms), [tuple(box) for box in MIXED.boxes.tolist()], posts)
    plan = make_plan("qt_tree", sample, 5, COST, {"columns": 32, "rows": 32})
    assert isinstance(plan, ObjectPlan)
    assert names.EVERY_OBJECT not in plan.nodes.terms and plan.nodes.queries[0] == len(posts[::7])
    index = make_dispatch(plan)
    with_term, counts = index.units_of_objects(MIXED.lon, MIXED.lat, offsets, terms)
    without, same = index.units_of_objects(MIXED.lon, MIXED.lat, MIXED.term_offsets, MIXED.terms)
    assert with_term[offsets[:-1]].tolist() == without[MIXED.term_offsets[:-1]].tolist()
    assert counts.tolist() == same.tolist()


def test_a_tree_without_text_is_dispatched_by_raster_cell() -> None:
    sample = topics(1_000, 0.001)
    west = sample.boxes[:, 0] < 0.4
    small = make_sample(
        list(zip(sample.lon.tolist(), sample.lat.tolist())),
        unpack(sample.term_offsets, sample.terms),
        [tuple(box) for box in sample.boxes[west].tolist()],
        [own for own, kept in zip(unpack(sample.post_offsets, sample.post_terms), west) if kept],
    )
    plan, spatial = (make_plan(name, small, 5, COST, {"columns": 32, "rows": 32}) for name in ("qt_tree", "quadtree"))
    assert plan.nodes is not None and not isinstance(plan, ObjectPlan)
    for one in range(plan.leaves):
        assert len(np.unique(spatial.cell_leaf[plan.cell_leaf == one])) == 1
    assert make_dispatch(plan).arrays.cell_leaf is plan.cell_leaf
