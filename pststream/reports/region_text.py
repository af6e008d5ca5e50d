"""Write the SQL expression that gives the region of a subscription as WKT, from the columns of the table `requests`."""

from pststream.reports.dialects import Dialect


def region_as_text(d: Dialect) -> str:
    """Return the expression: MULTIPOLYGON of boxes or polygons, POINT for the centre of a circle; degrees."""
    centre = f"{d.text(d.at('circle', '1'))} || ' ' || {d.text(d.at('circle', '2'))}"
    return (
        f"CASE WHEN circle IS NOT NULL THEN 'POINT (' || {centre} || ')'"
        f" WHEN polygon IS NOT NULL THEN {_polygons(d)}"
        f" ELSE {_boxes(d)} END"
    )


def radius_of_circle(d: Dialect) -> str:
    """Return the expression of a circle's radius in metres; null for other shapes."""
    return f"CASE WHEN circle IS NOT NULL THEN {d.at('circle', '3')} END"


def _boxes(d: Dialect) -> str:
    """A polygon for each box, counter-clockwise from its south-west corner."""

    def corner(lon: str, lat: str) -> str:
        return f"{d.text(d.at(lon, 'box'))} || ' ' || {d.text(d.at(lat, 'box'))}"

    corners = [("west", "south"), ("east", "south"), ("east", "north"), ("west", "north"), ("west", "south")]
    ring = " || ', ' || ".join(corner(*sides) for sides in corners)
    boxes = d.transform(d.places(d.count("west")), "box", f"'((' || {ring} || '))'")
    return f"'MULTIPOLYGON (' || {d.join(boxes, ', ')} || ')'"


def _polygons(d: Dialect) -> str:
    """The rings in their order: an exterior, which runs counter-clockwise, begins a polygon, and its holes follow."""
    ring = d.at("polygon", "ring")
    begin = f"CASE WHEN ring = 1 THEN '((' WHEN {_area(d, ring)} > 0 THEN ')), ((' ELSE '), (' END"
    rings = d.transform(d.places(d.count("polygon")), "ring", f"{begin} || {_positions(d, ring)}")
    return f"'MULTIPOLYGON (' || {d.join(rings, '')} || ')))'"


def _positions(d: Dialect, ring: str) -> str:
    position = f"{d.text(_lon(d, ring, 'place'))} || ' ' || {d.text(_lat(d, ring, 'place'))}"
    return d.join(d.transform(d.places(_half(d, ring)), "place", position), ", ")


def _area(d: Dialect, ring: str) -> str:
    """Twice the area of a ring, positive if it runs counter-clockwise: triangles with its first position."""
    sides = [
        f"({_lon(d, ring, place)} - {_lon(d, ring, '1')}) * ({_lat(d, ring, other)} - {_lat(d, ring, '1')})"
        for place, other in (("place", "place + 1"), ("place + 1", "place"))
    ]
    return d.sum(d.transform(d.places(f"{_half(d, ring)} - 1"), "place", " - ".join(sides)))


def _half(d: Dialect, ring: str) -> str:
    return f"CAST(floor({d.count(ring)} / 2) AS INTEGER)"


def _lon(d: Dialect, ring: str, place: str) -> str:
    return d.at(ring, f"2 * ({place}) - 1")


def _lat(d: Dialect, ring: str, place: str) -> str:
    return d.at(ring, f"2 * ({place})")
