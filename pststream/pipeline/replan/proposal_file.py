"""Save a proposed adjustment of the plan in a file, and load it to apply exactly what a person approved.

The file has named arrays (NumPy's npz, nothing pickled) and one JSON text. It is bound to the version of the plan that
it changes and to the content of that plan: another home may have another plan of that version.
"""

import json
import struct
import zipfile
import zlib
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from io import BytesIO
from typing import Any

import numpy as np

from pststream.base.errors import UsageError
from pststream.planning.balancing.contract import Adjustment
from pststream.planning.load_model import WorkerLoads
from pststream.plans.plan import DispatchGrid, PartitionPlan, plan_of_arrays
from pststream.plans.plan_moves import Move
from pststream.plans.plan_nodes import PlanNodes
from pststream.plans.plan_rows import validate
from pststream.storage.registry import Address, file_at

FORMAT = 1

ZIP = b"PK"
"""First bytes of the files that NumPy writes."""
BROKEN = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, MemoryError, SyntaxError),
    *(zlib.error, zipfile.BadZipFile, struct.error),
)
"""Errors of reading a file that is not a proposal or is incomplete."""


@dataclass(frozen=True)
class Decision:
    """An adjustment to make, or None, and the reason; imbalance: as measured."""

    reason: str
    imbalance: float
    adjustment: Adjustment | None = None


@dataclass(frozen=True)
class Proposal:
    """A decision to change a plan.

    kind          local, global, retire, undo or plan
    plan_version  the plan that it changes
    digest        `digest_of` the plan that it changes
    """

    kind: str
    plan_version: int
    digest: str
    decision: Decision


def write_proposal(path: Address, proposal: Proposal) -> None:
    """Write the file atomically, or remove it if there is no adjustment.

    Raises UsageError if the file exists and is not a proposal.
    """
    files, name = file_at(path)
    if files.exists(name) and not files.read(name).startswith(ZIP):
        raise UsageError(f"proposal {path}: is a file of another kind", "give another name")
    adjustment = proposal.decision.adjustment
    if adjustment is None:
        files.delete([name])
        return
    header = {
        "format": FORMAT, "kind": proposal.kind, "plan_version": proposal.plan_version,
        "digest": proposal.digest,
        "reason": proposal.decision.reason, "imbalance": proposal.decision.imbalance, "reasons": adjustment.reasons,
        "saved": adjustment.saved, "least_bytes": adjustment.least_bytes,
        "planner": adjustment.plan.planner, "workers": adjustment.plan.workers, "grid": asdict(adjustment.plan.grid),
        "options": adjustment.plan.options, "moves": [[move.origin, move.target] for move in adjustment.moves],
    }  # fmt: skip
    arrays = _arrays_of_plan(adjustment.plan)
    arrays |= _arrays("before", adjustment.before) | _arrays("after", adjustment.after)
    for ordinal, move in enumerate(adjustment.moves):
        arrays |= _arrays(f"move{ordinal}", move)
    content = BytesIO()
    np.savez_compressed(content, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]
    files.write(name, content.getvalue())


def has_proposal(path: Address) -> bool:
    """Whether there is a file at an address."""
    files, name = file_at(path)
    return files.exists(name)


def read_proposal(path: Address) -> Proposal:
    """Return the proposal in a file; raises UsageError if the file is not a proposal."""
    files, name = file_at(path)
    try:
        with np.load(BytesIO(files.read(name)), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        header = arrays.pop("header")
        return _proposal(json.loads(str(header)), arrays)
    except FileNotFoundError:
        raise UsageError(f"proposal {path}: is not there", "a dry run with --proposal writes it") from None
    except BROKEN as error:
        raise UsageError(f"proposal {path}: cannot be read: {error}", "write it again by a dry run") from None


def same_plan(one: PartitionPlan, other: PartitionPlan) -> bool:
    """Whether two plans give each raster cell and term to the same worker, unit by unit; other fields may differ."""
    if (one.grid, one.workers) != (other.grid, other.workers):
        return False
    mine, others = _arrays_of_plan(one), _arrays_of_plan(other)
    return mine.keys() == others.keys() and all(np.array_equal(mine[name], others[name]) for name in mine)


def digest_of(plan: PartitionPlan) -> str:
    """Return a digest (hexadecimal SHA-256) that is equal for plans that are the same as in `same_plan`."""
    digest = sha256(json.dumps([asdict(plan.grid), plan.workers]).encode())
    for _, array in sorted(_arrays_of_plan(plan).items()):
        digest.update(array.tobytes())
    return digest.hexdigest()


def _proposal(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Proposal:
    if header["format"] != FORMAT:
        raise ValueError(f"format {header['format']}, this version knows {FORMAT}")
    nodes = _under("nodes", arrays)
    plan = plan_of_arrays(
        planner=header["planner"],
        workers=header["workers"],
        grid=DispatchGrid(**header["grid"]),
        options=header["options"],
        **_under("plan", arrays),
        nodes=PlanNodes(**nodes) if nodes else None,
    )
    validate(plan)
    moves = [Move(origin, target, **_under(f"move{n}", arrays)) for n, (origin, target) in enumerate(header["moves"])]
    before, after = (WorkerLoads(**_under(name, arrays)) for name in ("before", "after"))
    adjustment = Adjustment(plan, moves, header["reasons"], before, after, header["saved"], header.get("least_bytes"))
    return Proposal(
        header["kind"],
        header["plan_version"],
        header["digest"],
        Decision(header["reason"], header["imbalance"], adjustment),
    )


def _arrays_of_plan(plan: PartitionPlan) -> dict[str, np.ndarray]:
    """Return the arrays of a plan and of its tree."""
    return _arrays("plan", plan) | (_arrays("nodes", plan.nodes) if plan.nodes is not None else {})


def _arrays(prefix: str, thing: Any) -> dict[str, np.ndarray]:
    """Return the fields of a dataclass that are arrays, named PREFIX.FIELD."""
    values = {f"{prefix}.{field.name}": getattr(thing, field.name) for field in fields(thing)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def _under(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    start = f"{prefix}."
    return {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}
