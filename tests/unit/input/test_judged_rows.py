"""Rows are drawn evenly and reproducibly, and blank texts are null."""

import numpy as np
import pandas as pd
import pyarrow as pa

from pststream.input.judged_rows import draw_places, make_frame


def test_places_are_drawn_without_repeats_the_same_each_time() -> None:
    assert draw_places(10, 10, "") is None and draw_places(0, 1, "") is None
    for count, limit in ((11, 10), (1_000, 1), (1_000_000, 500)):
        places = draw_places(count, limit, "seed")
        assert places is not None and len(places) == limit
        assert (np.diff(places) > 0).all() and places[0] >= 0 and places[-1] < count
        assert np.array_equal(places, draw_places(count, limit, "seed"))
        assert not np.array_equal(places, draw_places(count, limit, "other"))
    many = draw_places(1_000_000, 10_000, "seed")
    assert many is not None and 450_000 < many.mean() < 550_000


def test_blank_texts_are_null_and_other_values_stay() -> None:
    rows = {"text": pa.array(["a", "", " \t\u3000", None, " b "]), "lon": [1.0, None, 2.0, 3.0, 4.0], "row": range(5)}
    frame = make_frame(pa.table(rows))
    assert frame["text"].isna().tolist() == [False, True, True, True, False]
    assert frame["text"].tolist()[4] == " b "
    assert frame["lon"].isna().tolist() == [False, True, False, False, False]
    assert frame["row"].dtype == "int64" and isinstance(frame, pd.DataFrame)
