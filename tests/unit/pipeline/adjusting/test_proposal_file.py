"""Proposal files: a proposal is read as it was written; other files are refused."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pststream.base.errors import UsageError
from pststream.pipeline.replan.proposal_file import (
    Decision,
    Proposal,
    digest_of,
    read_proposal,
    same_plan,
    write_proposal,
)
from pststream.planning.balancing.contract import Adjustment
from pststream.planning.load_model import WorkerLoads
from pststream.plans.plan import DispatchGrid, PartitionPlan, space_plan
from pststream.plans.plan_moves import Move, apply_move

CELL = np.array([1])
TERMS = np.array([-5, 7, 2**62])


def loads(seed: int) -> WorkerLoads:
    values = np.random.default_rng(seed).random((4, 2))
    units = np.random.default_rng(seed).random((3, 4))
    return WorkerLoads(*values, *units)


def proposal() -> Proposal:
    grid = DispatchGrid(-1.5, 0.0, 1.5, 1.0, 2, 2)
    plan = space_plan("grid", grid, np.arange(4), np.array([0, 0, 1, 1]), 2, {"level": 3})
    moves = [Move(0, 1, CELL, TERMS), Move(1, 0, np.array([2, 3]))]
    for move in moves:
        plan = apply_move(plan, move)
    adjustment = Adjustment(plan, moves, ["split", "gr"], loads(1), loads(2))
    return Proposal("local", 7, digest_of(plan), Decision("measured imbalance 3", 3.25, adjustment))


def assert_equal(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    for field in fields(one):
        mine, others = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == others.dtype, field.name
            np.testing.assert_array_equal(mine, others, field.name)
        else:
            assert mine == others, field.name


def test_a_proposal_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = proposal()
    write_proposal(tmp_path / "new" / "p.npz", written)
    read = read_proposal(tmp_path / "new" / "p.npz")
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["p.npz"]
    assert (read.kind, read.plan_version, read.digest) == ("local", 7, written.digest)
    assert (read.decision.reason, read.decision.imbalance) == ("measured imbalance 3", 3.25)
    mine, others = written.decision.adjustment, read.decision.adjustment
    assert mine is not None and others is not None
    assert others.reasons == mine.reasons
    assert_equal(mine.plan, others.plan)
    for pair in [*zip(mine.moves, others.moves, strict=True), (mine.before, others.before), (mine.after, others.after)]:
        assert_equal(*pair)


def test_nothing_to_do_leaves_no_file(tmp_path: Path) -> None:
    write_proposal(tmp_path / "p.npz", proposal())
    write_proposal(tmp_path / "p.npz", Proposal("local", 7, "", Decision("within 1.3", 1.1)))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="is not there"):
        read_proposal(tmp_path / "p.npz")


def test_nothing_pickled_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", header=np.array([{"format": 1}], dtype=object))
    with pytest.raises(UsageError, match="cannot be read"):
        read_proposal(tmp_path / "p.npz")


def test_a_plan_without_a_worker_for_a_cell_is_refused(tmp_path: Path) -> None:
    broken = proposal()
    found = broken.decision.adjustment
    assert found is not None
    plan: PartitionPlan = replace(found.plan, unit_worker=found.plan.unit_worker + 2)
    decision = replace(broken.decision, adjustment=replace(found, plan=plan))
    write_proposal(tmp_path / "p.npz", replace(broken, decision=decision))
    with pytest.raises(UsageError, match="cannot be read"):
        read_proposal(tmp_path / "p.npz")


def test_plans_are_the_same_if_every_unit_is() -> None:
    found = proposal().decision.adjustment
    assert found is not None
    assert same_plan(found.plan, replace(found.plan, options={}, planner="hybrid"))
    assert digest_of(found.plan) == digest_of(replace(found.plan, options={}, planner="hybrid"))
    others = replace(found.plan, unit_worker=1 - found.plan.unit_worker), replace(found.plan, workers=3)
    assert len({digest_of(plan) for plan in (found.plan, *others)}) == 3
    assert not same_plan(found.plan, replace(found.plan, unit_worker=1 - found.plan.unit_worker))
    assert not same_plan(found.plan, apply_move(found.plan, Move(0, 1, np.array([0]))))
