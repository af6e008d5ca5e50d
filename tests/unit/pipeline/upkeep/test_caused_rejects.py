"""The rejects that withdrawn objects have caused are counted a part at a time."""

import numpy as np
import pyarrow as pa
import pytest

from pststream.pipeline.upkeep import withdraw as module
from pststream.pipeline.upkeep.withdraw import Selection, count_caused_rejects, select_objects
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.ledgers import log_key
from pststream.tables.log_events import NONE
from tests.unit.reports.commands.homes import add_file, at, reject, thing

FILES, ROWS, TEXT = 6, 16, 1_000_000


def test_the_texts_of_all_rejects_are_never_in_memory(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    first = add_file(hand_home, "objects", [thing(1, "a"), thing(2, "wrong", 600)])
    fields = {"object_id": "b", "ts": at(1), "lon": 0.0, "lat": 0.0, "text": "x" * TEXT}
    late = [reject(row, "late", "ts") | {"record": fields} for row in range(1, ROWS + 1)]
    others = [
        reject(ROWS + 1, "duplicate", "object_id", name) | {"record": fields | {"object_id": name, "text": ""}}
        for name in ("wrong", "a")
    ]
    for number in range(FILES):
        add_file(hand_home, "objects", [], [*late, *others[:1]] if number else [*late, *others])
    base, held = pa.total_allocated_bytes(), []
    hash_texts = module.hash_texts

    def measured(*texts: np.ndarray) -> np.ndarray:
        held.append(pa.total_allocated_bytes() - base)
        return hash_texts(*texts)

    monkeypatch.setattr(module, "hash_texts", measured)
    selected = select_objects(hand_home, Settings(), Selection(object_ids=("wrong",)), NONE)
    assert selected.keys.tolist() == [log_key(first, 2)]
    caused = count_caused_rejects(hand_home, selected, NONE)
    assert caused["late"] == {"rows": FILES * ROWS}
    assert caused["duplicate"] == {"rows": FILES}
    assert [one["rows"] for one in caused["files"]] == [ROWS + 1] * FILES
    assert max(held) < 3 * ROWS * TEXT
