"""Answers that follow from folded batches, against answers that are computed from all objects."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given

from tests.fuzz.cases import examples, seeds
from tests.oracles import standing_answers as twin
from tests.unit.answers.worlds import WORLDS, Home, Insertion, MadeObject, World, dense_world


def run(world: World) -> Home:
    """Run all batches of a world, and one with the rest of both logs; compare the answers after each with the twin."""
    with TemporaryDirectory() as folder:
        home = Home(world, Path(folder, "bucket"))
        for cut in [*world.cuts, (len(world.objects), len(world.requests), []), (0, 0, [])]:
            folded = home.run_batch(*cut)
            assert home.answers == home.expected()
            check_ranks(home, folded)
        with home.open_state() as state:
            assert (state.columns.size <= state.columns.room).all()
    return home


def check_ranks(home: Home, folded) -> None:
    changes = folded.changes
    ranks, objects = {}, home.log()
    for key in set(changes.subscription[changes.entered].tolist()):
        rows = twin.answer(home.insertions[key], objects, home.value_of)
        ranks.update({(key, row[0]): (rank, row[2]) for rank, row in enumerate(rows, 1)})
    for key, entered, rank, number, value in zip(
        *(a.tolist() for a in (changes.subscription, changes.entered, changes.rank, changes.object, changes.value))
    ):
        if entered:
            assert ranks[key, number] == (rank, pytest.approx(value))


@examples(150)
@given(WORLDS)
def test_changes_add_up_to_the_answers(world: World) -> None:
    run(world)


@seeds(60)
def test_changes_add_up_when_buffers_fill_and_run_dry(seed: int) -> None:
    run(dense_world(seed))


def insertion(k: int, window: tuple, created_at: int = 0, end_at: int | None = None, spare: int = 1) -> Insertion:
    """Make a subscription at place 0 that all objects match."""
    return Insertion(0, 3, k, spare, window, created_at, end_at)


@pytest.mark.parametrize(
    ("window", "size", "places"), [((None, None), 4, 1), ((50, None), 300, 3), ((None, 40), 4, 3), ((2, 1), 300, 1)]
)
def test_many_ties_of_value(window: tuple, size: int, places: int) -> None:
    """All objects at one point, or at three; the last of every ten comes late."""
    objects = [MadeObject(n // 3 - 20 * (n % 10 == 9), n % places, 1) for n in range(200)]
    cuts = [(0, 4, []), *[(size, 0, [])] * (200 // size)]
    world = World(objects, [insertion(k, window) for k in (1, 2, 5, 1)], cuts, 1, size)
    run(world)


def test_a_subscription_with_too_few_matches_is_evaluated_once() -> None:
    objects = [MadeObject(n, 0, 2 if n % 20 else 1) for n in range(200)]
    requests = [Insertion(0, 1, 15, 3, window, 0, None) for window in ((60, None), (None, 60))]
    home = run(World(objects, requests, [(0, 2, []), *[(5, 0, [])] * 40], 1, 0))
    assert home.evaluations == 2
