"""How often a buffer changes until it runs dry, by the random walk of Skype (section 6.2), step by step."""


def updates_until_dry(k: int, kept: int, arrivals: float = 0.5) -> float:
    """Return how often a buffer of `kept` entries changes until fewer than k are left (Equations 11 and 12).

    The size is a random walk from `kept` to k - 1 that is reflected at twice `kept`. Equation 12 divides this by the
    share of messages that enter the buffer.

    arrivals: share of the changes that are arrivals and not expiries (section 6.3), greater than 0 and less than 1
    """
    # Expected changes from a size to one less: first at the reflecting size, then at each one below it.
    changes, total = 1 / (1 - arrivals), 0.0
    for size in range(2 * kept, k - 1, -1):
        if size < 2 * kept:
            changes = (1 + arrivals * changes) / (1 - arrivals)
        if size <= kept:
            total += changes
    return total
