"""Place subscriptions as DkM-SKS says, in plain Python over the sampled objects themselves, without shared code."""

from collections.abc import Callable
from dataclasses import dataclass

Area = tuple[int, int, int, int]
"""First column, first row, last column, last row of raster cells."""


@dataclass(frozen=True)
class Wish:
    """A subscription: its key, the cells around all of its boxes, the terms that it is posted under."""

    key: int
    area: Area
    terms: tuple[int, ...]

    @property
    def centre(self) -> tuple[float, float]:
        return (self.area[0] + self.area[2] + 1) / 2, (self.area[1] + self.area[3] + 1) / 2


Thing = tuple[int, int, frozenset[int]]
"""A sampled object: column, row, terms."""


def objects_with(things: list[Thing], area: Area, term: int) -> int:
    """P(R, word) x |O|."""
    return sum(area[0] <= x <= area[2] and area[1] <= y <= area[3] and term in terms for x, y, terms in things)


def around(wishes: list[Wish]) -> Area:
    """R: the rectangle around all of them."""
    sides = list(zip(*(wish.area for wish in wishes)))
    return min(sides[0]), min(sides[1]), max(sides[2]), max(sides[3])


class Greedy:
    """Gives each next cost to the unit with the least load."""

    def __init__(self, units: int) -> None:
        self.loads = [0.0] * units

    def give(self, cost: float) -> int:
        unit = self.loads.index(min(self.loads))
        self.loads[unit] += max(cost, 1)
        return unit


@dataclass
class SlowPlanner:
    """One of the planners over some sampled objects and a raster."""

    name: str
    things: list[Thing]
    columns: int
    rows: int
    wanted: int = 0
    tested: int = 20

    def place(self, wishes: list[Wish], present_to: int, units: int) -> dict[int, int]:
        """Return the unit of each key."""
        greedy, placed, areas = Greedy(units), dict[int, int](), list[Area]()
        wishes = sorted(wishes, key=lambda wish: wish.key)
        present = [wish for wish in wishes if wish.key <= present_to]
        if present:
            parts, areas = getattr(self, f"_parts_{self.name}")(present)
            for cost, members in parts:
                unit = greedy.give(cost)
                placed |= {wish.key: unit for wish in members}
        for wish in wishes:
            if wish.key > present_to:
                placed[wish.key] = greedy.give(getattr(self, f"_cost_{self.name}")(wish, areas))
        return placed

    def _cost_keyword_oriented(self, wish: Wish, areas: list[Area]) -> int:
        return sum(sum(term in terms for _, _, terms in self.things) for term in wish.terms)

    def _parts_keyword_oriented(self, present: list[Wish]) -> tuple[list, list[Area]]:
        costs = [(self._cost_keyword_oriented(wish, []), [wish]) for wish in present]
        return sorted(costs, key=lambda part: -part[0]), []

    def _cost_hash(self, wish: Wish, areas: list[Area]) -> int:
        return 1

    def _parts_hash(self, present: list[Wish]) -> tuple[list, list[Area]]:
        return [(1, [wish]) for wish in present], []

    def _cost_space_oriented(self, wish: Wish, areas: list[Area]) -> int:
        return self._space_cost([wish])

    def _space_cost(self, wishes: list[Wish]) -> int:
        west, south, east, north = around(wishes)
        return len(wishes) * sum(west <= x <= east and south <= y <= north for x, y, _ in self.things)

    def _parts_space_oriented(self, present: list[Wish]) -> tuple[list, list[Area]]:
        space = (0.0, 0.0, float(self.columns), float(self.rows))
        subspaces = [(self._space_cost(present), 0, present, space)]
        made = 1
        while len(subspaces) < self.wanted:
            open_ones = [one for one in subspaces if len({wish.centre for wish in one[2]}) > 1]
            if not open_ones:
                break
            costliest = min(open_ones, key=lambda one: (-one[0], one[1]))
            subspaces.remove(costliest)
            for members, quarter in quarters(costliest[2], costliest[3]):
                if members:
                    subspaces.append((self._space_cost(members), made, members, quarter))
                    made += 1
        subspaces.sort(key=lambda one: (-one[0], one[1]))
        return [(cost, members) for cost, _, members, _ in subspaces], []

    def _cost_in(self, wish: Wish, area: Area) -> int:
        return sum(objects_with(self.things, area, term) for term in wish.terms)

    def _cost_dkm_sks(self, wish: Wish, areas: list[Area]) -> int:
        return self._cost_in(wish, max(areas, key=lambda area: closeness(area, wish.area)) if areas else wish.area)

    def _costs(self, wishes: list[Wish]) -> dict[int, int]:
        area = around(wishes)
        return {wish.key: max(self._cost_in(wish, area), 1) for wish in wishes}

    def _total(self, wishes: list[Wish]) -> int:
        return sum(self._costs(wishes).values()) if wishes else 0

    def _parts_dkm_sks(self, present: list[Wish]) -> tuple[list, list[Area]]:
        subsets = {0: (present, (0.0, 0.0, float(self.columns), float(self.rows)))}
        while len(subsets) < self.wanted:
            open_ones = [number for number, (members, _) in subsets.items() if len(members) > 1]
            if not open_ones:
                break
            costliest = min(open_ones, key=lambda number: (-self._total(subsets[number][0]), number))
            children = [child for child in self._split(*subsets[costliest]) if child[0]]
            subsets |= dict(zip([costliest, *range(len(subsets), len(subsets) + len(children) - 1)], children))
        ranked = sorted(subsets, key=lambda number: (-self._total(subsets[number][0]), number))
        parts = []
        for number in ranked:
            costs = self._costs(subsets[number][0])
            members = sorted(subsets[number][0], key=lambda wish: (-costs[wish.key], wish.key))
            parts += [(costs[wish.key], [wish]) for wish in members]
        return parts, [around(subsets[number][0]) for number in ranked]

    def _split(self, wishes: list[Wish], space: tuple[float, ...]) -> list:
        by_space = quarters(wishes, space)
        one_point = len({wish.centre for wish in wishes}) == 1
        if len(wishes) > self.tested and not one_point:
            return by_space
        costs, greedy = self._costs(wishes), Greedy(4)
        bins: list[list[Wish]] = [[], [], [], []]
        for wish in sorted(wishes, key=lambda wish: (-costs[wish.key], wish.key)):
            bins[greedy.give(costs[wish.key])].append(wish)
        by_cost = [(sorted(members, key=lambda wish: wish.key), space) for members in bins]
        spatial, hybrid = (sum(self._total(members) for members, _ in split) for split in (by_space, by_cost))
        return by_space if spatial < hybrid and not one_point else by_cost


def quarters(wishes: list[Wish], space: tuple[float, ...]) -> list:
    """Return the wishes and the space of each quarter, from south-west to north-east."""
    west, south, east, north = space
    x, y = (west + east) / 2, (south + north) / 2
    inside: Callable[[bool, bool], list[Wish]] = lambda e, n: [  # noqa: E731
        wish for wish in wishes if (wish.centre[0] >= x, wish.centre[1] >= y) == (e, n)
    ]
    return [
        (inside(False, False), (west, south, x, y)),
        (inside(True, False), (x, south, east, y)),
        (inside(False, True), (west, y, x, north)),
        (inside(True, True), (x, y, east, north)),
    ]


def closeness(area: Area, own: Area) -> tuple[int, int]:
    """How much an area overlaps another; if it does not, how near it is."""
    wide = min(area[2], own[2]) - max(area[0], own[0]) + 1
    high = min(area[3], own[3]) - max(area[1], own[1]) + 1
    if wide > 0 and high > 0:
        return wide * high, 0
    return 0, -(max(-wide, 0) ** 2 + max(-high, 0) ** 2)
