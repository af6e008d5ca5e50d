"""Choose how many entries a buffer keeps at an evaluation by the policies of Skype and its peers, for comparison.

    threshold   `kept` as given, spread by the key: the product's (`answers/bucket_file.py`)
    cskyband    the number for which entries and evaluations together cost least, by the model of Skype (`cost`)
    skyband     objects of at least 0.95 of the score of the k-th (Skype's tuned setting of its peer)
    kmax        60 (Skype's tuned setting of its peer)

Source: Skype, sections 6.2, 6.3 and 8. Departures, besides those of the product's buffers, which all policies use:

- Equation 12 reflects the size of a buffer at twice the number that an evaluation keeps. A buffer is cut when it has
  half as many again, or MOST_TIMES_K times k if that is less, and it is cut to that number, not held at the bound.
- Objects arrive as often as others expire. The rates of section 6.3 are not measured.
- The cost of an evaluation, C_topk, is a constant and not measured for each subscription.
- `cskyband` tries all numbers up to MOST_TIMES_K times k instead of a descent.
"""

import numpy as np

from pststream.answers.bucket_file import MOST_TIMES_K, spread_kept
from pststream.answers.contract import Asked, Values

THRESHOLD, CSKYBAND, SKYBAND, KMAX = POLICIES = ("threshold", "cskyband", "skyband", "kmax")

SKYBAND_SHARE = 0.95
KMAX_KEPT = 60

EVALUATION_COST = 4_000.0
"""Cost of an evaluation in steps within a buffer, for `cskyband`: 45 us to 11 ns."""


def choose_kept(
    policy: str, keys: np.ndarray, k: np.ndarray, kept: np.ndarray, costs: np.ndarray | float
) -> np.ndarray:
    """Return how many of its best values an evaluation of each subscription returns: int32[n], at least k.

    keys, k, kept   int64[n], int32[n], int32[n]: the subscriptions; `kept` is the number that `threshold` spreads
    costs           float[n] or one: cost of an evaluation; the cost of one step in a buffer is 1 (`cskyband`)

    `skyband` does not know the number before the evaluation: it asks for `kept`, and `trim_evaluations` keeps some. The
    result is the paper's only if `kept` is so large that some value falls below the share.
    Raises ValueError for an unknown policy.
    """
    if policy == THRESHOLD:
        return spread_kept(keys, k, kept)
    if policy == CSKYBAND:
        pairs, place = np.unique(np.stack([k, np.broadcast_to(costs, k.shape)]), axis=1, return_inverse=True)
        best = [cheapest_kept(int(size), cost) for size, cost in pairs.T]
        return np.array(best, np.int32)[place.reshape(-1)]
    if policy == SKYBAND:
        return np.maximum(k, kept).astype(np.int32)
    if policy == KMAX:
        return np.maximum(k, KMAX_KEPT).astype(np.int32)
    raise ValueError(f"{policy!r} is none of the policies {', '.join(POLICIES)}")


def cost(k: int, kept: np.ndarray, evaluation: float) -> np.ndarray:
    """Return the cost of a buffer for each message of the window (Equation 13, times its length): float64[n].

    With the threshold at the score of the `kept`-th, p * |W| is `kept`, so neither is needed.

    kept: int64[n]; evaluation: cost of an evaluation; the cost of one step in a buffer is 1
    """
    maintenance = kept * k * np.log(kept / k)
    spare = kept - k + 1
    # Equation 12 in closed form, where objects arrive as often as others expire.
    return np.asarray(maintenance + evaluation * kept / (2 * spare * kept + spare * (spare + 1)))


def cheapest_kept(k: int, evaluation: float) -> int:
    """Return the number of entries at an evaluation for which `cost` is least: k to MOST_TIMES_K times k."""
    return k + int(np.argmin(cost(k, np.arange(k, MOST_TIMES_K * k + 1), evaluation)))


def trim_evaluations(asked: Asked, answers: Values) -> tuple[Asked, Values]:
    """Leave out the values whose score is less than SKYBAND_SHARE times the score of the k-th (`skyband`).

    Of distances, which are positive values, those greater than the k-th divided by SKYBAND_SHARE.

    answers: values of the subscriptions that `asked` has, in any order
    Returns both with fewer values, and with the number that is left as `kept` where one was left out.
    """
    order = np.lexsort((-answers.object, -answers.ts, answers.value, answers.subscription))
    rows = Values(*(array[order] for array in answers))
    starts, stops = (np.searchsorted(rows.subscription, asked.subscription, side) for side in ("left", "right"))
    full = stops - starts >= asked.k
    limits = np.full(len(starts), np.inf)
    kth = rows.value[starts[full] + asked.k[full] - 1].astype(np.float64)
    limits[full] = np.where(kth < 0, kth * SKYBAND_SHARE, kth / SKYBAND_SHARE)
    stays = rows.value <= np.repeat(limits, stops - starts)
    before = np.append(0, np.cumsum(stays))
    left = before[stops] - before[starts]
    kept = np.where(left < stops - starts, left, asked.kept).astype(np.int32)
    return asked._replace(kept=kept), Values(*(array[stays] for array in rows))
