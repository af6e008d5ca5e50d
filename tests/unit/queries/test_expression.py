"""Keyword expressions: clauses are equivalent to the tree, errors have a position, bounds are kept."""

import itertools
import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.queries.text.expression import (
    MAYBE_REMARKABLE,
    NEVER_SATISFIED,
    NO_REQUIRED_WORD,
    SIGNS,
    SMALL,
    UNREADABLE,
    ExpressionError,
    ShapeError,
    _implied,
    _is_satisfiable,
    find_remarks,
    parse_keywords,
)
from tests.fuzz.cases import examples
from tests.oracles import text as slow
from tests.oracles import twin_expressions as twin

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
    clauses, verified = parse_keywords(write_expression(tree, data), max_clauses=100_000, max_terms=10**6)
    assert not verified
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
        ('"tea"', [["tea"]]),
        ("tea Tea ＴＥＡ", [["tea"]]),
        ("tea AND (tea OR milk)", [["tea"]]),
        ("a(b)c", [["a"], ["b"], ["c"]]),
        ('a"b"', [["a"], ["b"]]),
        ('"NOT" tea not', [["not"], ["tea"]]),
        ("“green” «oat» „x“ ＂y＂", [["green"], ["oat"], ["x"], ["y"]]),
        ('"-tea" "te*"', [["te"], ["tea"]]),
        ("（茶 OR tea） milk", [["milk"], ["tea", "茶"]]),
        ("C++ +1 ~x note: y", [["1"], ["c"], ["note"], ["x"], ["y"]]),
        ("NOT (NOT tea)", [["tea"]]),
        ("NOT (NOT tea OR NOT milk)", [["milk"], ["tea"]]),
        ("*", [["*"]]),
        ("ANDROID", [["android"]]),
        ("\u00a0東\u3000OR\tкафе\n", [["кафе", "東"]]),
    ],
)
def test_clauses_of_named_cases(expression: str, clauses: list[list[str]]) -> None:
    assert parse_keywords(expression) == (clauses, [])


@pytest.mark.parametrize(
    ("expression", "required", "verified"),
    [
        ('"green tea"', "green & tea", "green tea"),
        ('"green tea" OR milk', "green | milk", "green tea | milk"),
        ("rock-and-roll OR jazz", "jazz | rock", "jazz | rock and roll"),
        ("“green tea” „text:tea“", "green & tea & text", "green tea & text tea"),
        ("AT&T f-16", "16 & at & f & t", "at t & f 16"),
        ("https://a.b", "a & b & https", "https a b"),
        ("12:30", "12 & 30", "12 30"),
        ('"a a b"', "a & b", "a a b"),
        ("東京", "京 & 東", "東 京"),
        ("coffee NOT decaf", "coffee", "-decaf"),
        ("tea NOT milk sugar", "sugar & tea", "-milk"),
        ("tea OR milk NOT sugar", "milk | tea", "tea | -sugar"),
        ("tea AND NOT (milk OR sugar)", "tea", "-milk & -sugar"),
        ("tea AND NOT (milk sugar)", "tea", "-milk | -sugar"),
        ('tea NOT "no milk"', "tea", "-no milk"),
        ("(tea OR NOT milk) AND milk", "milk", "tea | -milk"),
        ('* AND NOT "no milk"', "*", "-no milk"),
    ],
)
def test_phrases_and_exclusions_are_verified(expression: str, required: str, verified: str) -> None:
    keywords = parse_keywords(expression)
    assert " & ".join(" | ".join(clause) for clause in keywords.required) == required
    shown = [[("-" if one.excluded else "") + " ".join(one.words) for one in clause] for clause in keywords.verified]
    assert sorted(map(sorted, shown)) == sorted(sorted(clause.split(" | ")) for clause in verified.split(" & "))


ATOMS = st.sampled_from([("a",), ("b",), ("c",), ("a", "b"), ("b", "a"), ("a", "b", "a"), ("c", "c")])
LOGIC = st.recursive(
    ATOMS.map(lambda words: ("words", words)),
    lambda tree: st.one_of(
        tree.map(lambda one: ("not", one)),
        st.tuples(st.sampled_from(["and", "or"]), st.lists(tree, min_size=2, max_size=3)),
    ),
    max_leaves=6,
)


def _write(tree: twin.Tree) -> str:
    kind, inside = tree
    if kind == "words":
        return f'"{" ".join(inside)}"'
    if kind == "not":
        return f"NOT ({_write(inside)})"
    return "(" + f" {kind.upper()} ".join(map(_write, inside)) + ")"


ALL_TEXTS = [words for length in range(7) for words in itertools.product("abcx", repeat=length)]


@given(LOGIC)
@examples(60)
def test_clauses_of_phrases_and_exclusions_are_equivalent_to_the_tree(tree: twin.Tree) -> None:
    held = [words for words in ALL_TEXTS if twin.holds(tree, (words,))]
    try:
        required, verified = parse_keywords(_write(tree), max_clauses=10_000, max_terms=10**6)
    except ExpressionError as error:
        # A text of 6 words has all that these trees can ask for, unless they ask for several long phrases.
        assert error.kind == NO_REQUIRED_WORD and ("x",) in held or error.kind == NEVER_SATISFIED and not held
        return
    clauses = [[("words", (word,)) for word in clause] for clause in required]
    clauses += [
        [("not", atom) if one.excluded else atom for one in clause for atom in [("words", one.words)]]
        for clause in verified
    ]
    whole = ("and", [("or", clause) for clause in clauses])
    assert [words for words in ALL_TEXTS if twin.holds(whole, (words,))] == held
    assert ("x",) not in held


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("NOT tea", NO_REQUIRED_WORD),
        ("tea OR NOT milk", NO_REQUIRED_WORD),
        ("tea OR NOT tea", NO_REQUIRED_WORD),
        ("tea NOT tea", NEVER_SATISFIED),
        ('"green tea" NOT green', NEVER_SATISFIED),
        ('"a b c" NOT "b c"', NEVER_SATISFIED),
        ("(a OR b) NOT a NOT b", NEVER_SATISFIED),
        ("tea *", UNREADABLE),
        ("tea OR *", UNREADABLE),
        ("tea NOT NOT milk", UNREADABLE),
        ("tea NOT", UNREADABLE),
        ("NOT AND tea", UNREADABLE),
    ],
)
def test_kinds_of_errors(expression: str, kind: str) -> None:
    with pytest.raises(ExpressionError) as found:
        parse_keywords(expression)
    assert found.value.kind == kind


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
        ("coffee -decaf", 8, "does not exclude", "quotes"),
        ("coffee –decaf", 8, "does not exclude", "quotes"),
        ("coffee －decaf", 8, "does not exclude", "quotes"),
        ("coffee ¬decaf", 8, "does not exclude", "quotes"),
        ("coff＊", 1, "found as a whole", "quotes"),
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
    assert len(parse_keywords(joined(" AND ", "(a# OR b#)", 50)).required) == 50
    assert len(parse_keywords(joined(" AND ", "w#", 64)).required) == 64
    assert len(parse_keywords(joined(" OR ", "(a# AND b#)", 6)).required) == 64
    assert len(parse_keywords(joined(" OR ", "w#", 512)).required[0]) == 512
    assert parse_keywords("(" * 10_000 + "tea" + ")" * 10_000).required == [["tea"]]
    assert parse_keywords(joined(" ", "tea", 1_000)).required == [["tea"]]


def test_a_large_expression_with_few_clauses_is_parsed_in_time() -> None:
    part = "(" + joined(" OR ", "(a# AND b#)", 6) + ")"
    began = time.monotonic()
    assert len(parse_keywords(" OR ".join([part] * 80)).required) == 64
    assert time.monotonic() - began < 50


@pytest.mark.parametrize(
    ("wide", "plain"),
    [("tea ＯＲ milk", "tea OR milk"), ("＊ AND NOT ｔｅａ", "* AND NOT tea"), ("＂ａ ｂ＂", '"a b"')],
)
def test_wide_signs_mean_those_of_ascii(wide: str, plain: str) -> None:
    assert parse_keywords(wide) == parse_keywords(plain)


def test_a_phrase_of_one_word_implies_each_shorter_one_once() -> None:
    lengths = (1, *range(2, 20), 600)
    assert len(_implied([(0,) * length for length in lengths])) == len(lengths) * (len(lengths) - 1) // 2


def test_a_step_over_many_clauses_counts_as_several() -> None:
    clauses = [1 | 1 << 2 * number for number in range(1, 641)]  # the first word satisfies all
    assert _is_satisfiable(clauses, 11)
    with pytest.raises(ShapeError):
        _is_satisfiable(clauses, 10)
