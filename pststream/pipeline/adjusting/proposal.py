"""What an adjustment would do, kept in a file: so that what a person was shown is what is applied later.

The file holds arrays by name (NumPy's npz, nothing pickled) and one JSON text. It is bound to the version of the plan
that it changes, and to what that plan was: another home's plan of the same number is another.
"""

import json
import os
import struct
import zipfile
import zlib
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from pststream.balancing.local_adjustment import Adjustment
from pststream.cost.load_model import WorkerLoads
from pststream.domain.plan import DispatchGrid, PartitionPlan
from pststream.domain.plan_moves import Move
from pststream.domain.plan_rows import validate
from pststream.errors import UsageError

FORMAT = 2
ZIP = b"PK"
"""How the files begin that NumPy writes."""
BROKEN = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, MemoryError, SyntaxError),
    *(zlib.error, zipfile.BadZipFile, struct.error),
)
"""What reading a file that is no proposal, or a torn one, ends in."""


@dataclass(frozen=True)
class Decision:
    """What is to be done, or nothing: `adjustment` None; and why."""

    reason: str
    imbalance: float
    adjustment: Adjustment | None = None


@dataclass(frozen=True)
class Proposal:
    """A decision to change a plan; kind: local, global, retire or undo; digest: `digest_of` the plan `plan_version`."""

    kind: str
    plan_version: int
    digest: str
    decision: Decision


def write_proposal(path: Path, proposal: Proposal) -> None:
    """Write the file whole, or remove it if nothing is to be done. Raises UsageError if it is no proposal's."""
    if path.exists():
        with path.open("rb") as file:
            if file.read(len(ZIP)) != ZIP:
                raise UsageError(f"proposal {path}: is a file of another kind", "give another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    found = proposal.decision.adjustment
    if found is None:
        path.unlink(missing_ok=True)
        return
    told = {
        "format": FORMAT, "kind": proposal.kind, "plan_version": proposal.plan_version,
        "digest": proposal.digest,
        "reason": proposal.decision.reason, "imbalance": proposal.decision.imbalance, "reasons": found.reasons,
        "planner": found.plan.planner, "workers": found.plan.workers, "grid": asdict(found.plan.grid),
        "options": found.plan.options, "moves": [[move.origin, move.target] for move in found.moves],
    }  # fmt: skip
    arrays = _arrays("plan", found.plan) | _arrays("before", found.before) | _arrays("after", found.after)
    for number, move in enumerate(found.moves):
        arrays |= _arrays(f"move{number}", move)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        np.savez_compressed(file, told=np.array(json.dumps(told)), **arrays)  # type: ignore[arg-type]
    os.replace(part, path)


def read_proposal(path: Path) -> Proposal:
    """The proposal in a file; raises UsageError if it holds none."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return _proposal(json.loads(str(arrays.pop("told"))), arrays)
    except FileNotFoundError:
        raise UsageError(f"proposal {path}: is not there", "a dry run with --proposal writes it") from None
    except BROKEN as error:
        raise UsageError(f"proposal {path}: cannot be read: {error}", "make it anew by a dry run") from None


def same_plan(one: PartitionPlan, other: PartitionPlan) -> bool:
    """Whether two plans serve every cell and term alike, unit by unit."""
    if (one.grid, one.workers) != (other.grid, other.workers):
        return False
    mine, others = _arrays("", one), _arrays("", other)
    return all(np.array_equal(mine[name], others[name]) for name in mine)


def digest_of(plan: PartitionPlan) -> str:
    """What tells plans apart that serve some cell or term differently (hexadecimal SHA-256)."""
    found = sha256(json.dumps([asdict(plan.grid), plan.workers]).encode())
    for _, array in sorted(_arrays("", plan).items()):
        found.update(array.tobytes())
    return found.hexdigest()


def _proposal(told: dict[str, Any], arrays: dict[str, np.ndarray]) -> Proposal:
    if told["format"] != FORMAT:
        raise ValueError(f"format {told['format']}, this version knows {FORMAT}")
    plan = PartitionPlan(
        planner=told["planner"],
        workers=told["workers"],
        grid=DispatchGrid(**told["grid"]),
        options=told["options"],
        **_under("plan", arrays),
    )
    validate(plan)
    moves = [Move(origin, target, **_under(f"move{n}", arrays)) for n, (origin, target) in enumerate(told["moves"])]
    before, after = (WorkerLoads(**_under(name, arrays)) for name in ("before", "after"))
    adjustment = Adjustment(plan, moves, told["reasons"], before, after)
    return Proposal(
        told["kind"], told["plan_version"], told["digest"], Decision(told["reason"], told["imbalance"], adjustment)
    )


def _arrays(prefix: str, thing: Any) -> dict[str, np.ndarray]:
    """The fields of a dataclass that are arrays, as PREFIX.FIELD."""
    values = {f"{prefix}.{field.name}": getattr(thing, field.name) for field in fields(thing)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def _under(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    start = f"{prefix}."
    return {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}
