"""Keyword expressions: clauses are equivalent to the tree, errors have a position, bounds are kept."""

import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.queries.text.expression import (
    MAYBE_REMARKABLE,
    SIGNS,
    SMALL,
    ExpressionError,
    find_remarks,
    parse_keywords,
)
from tests.fuzz.cases import examples
from tests.oracles import text as slow

WORDS = ["tea", "milk", "and", "or", "кафе", "straße"]
TREES = st.recursive(
    st.sampled_from(WORDS).map(lambda word: ("word", word)),
    lambda tree: st.tuples(st.sampled_from(["and", "or"]), st.lists(tree, min_size=1, max_size=3)),
    max_leaves=9,
)


def write_expression(tree: slow.Tree, draw: st.DataObject, within: str = "or") -> str:
    """Write the tree as a user may: with or without optional AND and parentheses."""
    kind, inside = tree
    if kind == "word":
        return draw.draw(st.sampled_from([inside, f'"{inside}"', inside.capitalize(), f"({inside})"]))
    joint = " OR " if kind == "or" else draw.draw(st.sampled_from([" AND ", " ", "  "]))
    # What stands alone in its node is joined by the node around that.
    text = joint.join(write_expression(part, draw, kind if len(inside) > 1 else within) for part in inside)
    needed = kind == "or" and within == "and" and len(inside) > 1
    return f"({text})" if needed or draw.draw(st.booleans()) else text


@given(TREES, st.data())
@examples(300)
def test_clauses_are_equivalent_to_the_tree_minimal_and_sorted(tree: slow.Tree, data: st.DataObject) -> None:
    clauses = parse_keywords(write_expression(tree, data), max_clauses=100_000, max_terms=10**6)
    folded = {word: slow.words(word)[0] for word in WORDS}
    for chosen in range(1 << len(WORDS)):
        found = {word for n, word in enumerate(WORDS) if chosen >> n & 1}
        assert all(map({folded[word] for word in found}.intersection, clauses)) == slow.holds(tree, found)
    assert clauses == sorted(clauses, key=lambda clause: (len(clause), clause))
    assert all(clause == sorted(set(clause)) for clause in clauses)
    sets = [set(clause) for clause in clauses]
    assert not any(a <= b for i, a in enumerate(sets) for j, b in enumerate(sets) if i != j)


@pytest.mark.parametrize(
    ("expression", "clauses"),
    [
        ("coffee AND (free OR cheap)", [["coffee"], ["cheap", "free"]]),
        ("tea OR milk sugar", [["milk", "tea"], ["sugar", "tea"]]),
        ("tea milk OR sugar", [["milk", "sugar"], ["sugar", "tea"]]),
        ("tea and milk or sugar", [["and"], ["milk"], ["or"], ["sugar"], ["tea"]]),
        ('"or"', [["or"]]),
        ('"OR" tea', [["or"], ["tea"]]),
        ('"green tea"', [["green"], ["tea"]]),
        ('"green tea" OR milk', [["green", "milk"], ["milk", "tea"]]),
        ("rock-and-roll OR jazz", [["and", "jazz"], ["jazz", "rock"], ["jazz", "roll"]]),
        ("tea Tea ＴＥＡ", [["tea"]]),
        ("tea AND (tea OR milk)", [["tea"]]),
        ("a(b)c", [["a"], ["b"], ["c"]]),
        ('a"b"', [["a"], ["b"]]),
        ('"NOT" tea not', [["not"], ["tea"]]),
        ("“green tea” «oat» „x“ ＂y＂", [["green"], ["oat"], ["tea"], ["x"], ["y"]]),
        ('"-tea" "te*" "text:tea"', [["te"], ["tea"], ["text"]]),
        ("（茶 OR tea） milk", [["milk"], ["tea", "茶"]]),
        (
            "AT&T C++ f-16 12:30 https://a.b +1 ~x note: y",
            [[w] for w in "1 12 16 30 a at b c f https note t x y".split()],
        ),
        ("ANDROID", [["android"]]),
        ("\u00a0東\u3000OR\tкафе\n", [["кафе", "東"]]),
    ],
)
def test_clauses_of_named_cases(expression: str, clauses: list[list[str]]) -> None:
    assert parse_keywords(expression) == clauses


@pytest.mark.parametrize(
    ("expression", "position", "reason", "expected"),
    [
        ("", 1, "no word", "a word"),
        ("  ", 3, "no word", "a word"),
        ("tea AND", 8, "the end after AND", "a word"),
        ("OR tea", 1, "found OR", '"OR" in quotes'),
        ("tea OR AND milk", 8, "found AND after OR", "a word"),
        ("tea ()", 6, "found ) after (", "a word"),
        ("(tea", 1, "never closed", ")"),
        ("(tea OR (milk)", 1, "never closed", ")"),
        ("tea) OR milk", 4, "closes nothing", "the end"),
        ("tea !!", 5, "!! has no letter", "a word"),
        ('tea ""', 5, "no letter", "a word"),
        ('tea "milk', 5, "never closed", 'closing "'),
        ('tea"', 4, "never closed", 'closing "'),
        ("tea “milk", 5, "never closed", "closing ”"),
        ("Eugene, OR", 11, "the end after OR", '"OR" in quotes'),
        ("coffee NOT decaf", 8, "NOT is not possible", "quotes"),
        ("coffee -decaf", 8, "does not exclude", "quotes"),
        ("coffee –decaf", 8, "does not exclude", "quotes"),
        ("!decaf", 1, "does not exclude", "quotes"),
        ("+coffee", 1, "all words joined by AND are required", "quotes"),
        ("tea coff*", 5, "found as a whole", "quotes"),
        ("*fee", 1, "found as a whole", "quotes"),
        ("co*ee", 1, "found as a whole", "quotes"),
        ("coffee~2", 1, "similar", "quotes"),
        ("coffee~", 1, "similar", "quotes"),
        ("coffee^2.5", 1, "weight", "quotes"),
        ("text:coffee", 1, "named field", "quotes"),
        ("tea||milk", 1, "AND and OR", "quotes"),
        ('text:"free coffee"', 1, "named field", "quotes"),
        ("text:(tea milk)", 1, "named field", "quotes"),
        ('"free coffee"~2', 14, "similar", "quotes"),
        ("(tea milk)^2", 11, "weight", "quotes"),
        ('tea -"free coffee"', 5, "does not exclude", "quotes"),
        ("tea !(milk)", 5, "does not exclude", "quotes"),
        ('+"free coffee"', 1, "all words joined by AND", "quotes"),
    ],
)
def test_errors_give_position_and_expectation(expression: str, position: int, reason: str, expected: str) -> None:
    with pytest.raises(ExpressionError) as found:
        parse_keywords(expression)
    assert found.value.position == position
    assert reason in found.value.reason
    assert expected in found.value.expected
    assert f"character {position}" in str(found.value)


@pytest.mark.parametrize(
    ("expression", "kinds"),
    [
        ("coffee and tea", [SMALL]),
        ("tea OR not", [SMALL]),
        ("not", []),
        ("tea AND milk, or!", []),
        ("C++", [SIGNS]),
        ('"C#"', [SIGNS]),
        ("$T or 50%", [SIGNS, SMALL]),
        ("AT&T €5", [SIGNS]),
        ("U.S. f-16 🔥 (tea OR milk)", []),
    ],
)
def test_valid_keywords_that_may_mean_something_else_are_remarked_on(expression: str, kinds: list[str]) -> None:
    assert sorted(find_remarks(expression)) == sorted(kinds)
    is_found = pc.match_substring_regex(pa.array([expression]), MAYBE_REMARKABLE).to_pylist() == [True]
    assert is_found or not kinds


def joined(joint: str, part: str, count: int) -> str:
    return joint.join(part.replace("#", str(n)) for n in range(count))


@pytest.mark.parametrize(
    "expression",
    [
        joined(" ", "w#", 10_000),
        joined(" OR ", "w#", 10_000),
        joined(" OR ", "w#", 513),
        joined(" AND ", "w#", 65),
        joined(" OR ", "(a# b# c#)", 40),
        joined(" OR ", "(a# AND b#)", 7),
        '"' + joined(" ", "w#", 65) + '"',
        "(" * 10_000 + "tea",
        "w" * 200_000,
    ],
)
def test_an_expression_beyond_a_bound_is_refused_at_once(expression: str) -> None:
    began = time.monotonic()
    with pytest.raises(ExpressionError):
        parse_keywords(expression)
    assert time.monotonic() - began < 20


def test_an_expression_within_the_bounds_is_parsed() -> None:
    assert len(parse_keywords(joined(" AND ", "(a# OR b#)", 50))) == 50
    assert len(parse_keywords(joined(" AND ", "w#", 64))) == 64
    assert len(parse_keywords(joined(" OR ", "(a# AND b#)", 6))) == 64
    assert len(parse_keywords(joined(" OR ", "w#", 512))[0]) == 512
    assert parse_keywords("(" * 10_000 + "tea" + ")" * 10_000) == [["tea"]]
    assert parse_keywords(joined(" ", "tea", 1_000)) == [["tea"]]


def test_a_large_expression_with_few_clauses_is_parsed_in_time() -> None:
    part = "(" + joined(" OR ", "(a# AND b#)", 6) + ")"
    began = time.monotonic()
    assert len(parse_keywords(" OR ".join([part] * 80))) == 64
    assert time.monotonic() - began < 50
