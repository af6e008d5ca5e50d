"""Name the ways to count the frequent terms of many regions; all return the same answers."""

from collections.abc import Callable, Mapping

import numpy as np

from pststream.kernels.questions.question_arrays import RegionArrays
from pststream.region_terms.shared_terms import answer_shared
from pststream.region_terms.table_terms import answer_with_tables
from pststream.stored_objects.answer_rows import AnswerRows
from pststream.stored_objects.answer_terms import answer_regions
from pststream.stored_objects.object_snapshot import ObjectSnapshot

CountTerms = Callable[[ObjectSnapshot, RegionArrays, np.ndarray, np.ndarray, np.ndarray], AnswerRows]
"""Takes the arguments of `answer_regions`."""

COUNT_WAYS: Mapping[str, CountTerms] = {
    "shared": answer_shared,
    "single": answer_regions,
    "tables": answer_with_tables,
}
"""The names are names.COUNT_WAYS."""
