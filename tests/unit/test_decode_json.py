"""JSON is decoded as Python's json does it, but not beyond a fixed number of levels, the same in each Python."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pststream.base.names import MAX_JSON_LEVELS
from pststream.queries.decode_json import NestedTooDeeply, decode_json

BRACKETS = st.text('[]{}"\\,: a\u00e9', max_size=4)


def levels(value: Any) -> int:
    """Return how many lists and objects are open at once in a value; objects are tuples of pairs."""
    return 1 + max(map(levels, value), default=0) if isinstance(value, list | tuple) else 0


def levels_of_text(text: str) -> int:
    """Return the same of valid JSON. Members count also where a later one has the same name."""
    pairs = json.JSONDecoder(object_pairs_hook=lambda members: [value for _, value in members])
    return levels(pairs.decode(text))


@st.composite
def nested_texts(draw: st.DrawFn) -> str:
    """Draw JSON with some levels around a leaf, and things that look like levels and are not."""
    text = json.dumps(draw(st.none() | st.integers() | BRACKETS), ensure_ascii=draw(st.booleans()))
    for _ in range(draw(st.integers(MAX_JSON_LEVELS - 3, MAX_JSON_LEVELS + 3))):
        before, after = (json.dumps(draw(BRACKETS)) for _ in range(2))
        forms = ["[{1}]", "[{0}, {1}]", "[{1}, {0}, [], {{}}]", "{{{0}: {1}}}", '{{{0}: [[]], "k": {1} , {2}: 1}}']
        text = draw(st.sampled_from(forms)).format(before, text, after)
    return text


@given(nested_texts())
@settings(max_examples=400, deadline=None)
def test_valid_texts_are_decoded_up_to_the_limit(text: str) -> None:
    if levels_of_text(text) <= MAX_JSON_LEVELS:
        assert decode_json(text) == json.loads(text)
    else:
        with pytest.raises(NestedTooDeeply, match="more than 32 levels deep"):
            decode_json(text)


@given(nested_texts(), st.lists(st.tuples(st.floats(0, 1), st.sampled_from('[]{}",:\\a1 \n\x00é')), max_size=2))
@example("[" * 40, [])
@settings(max_examples=600, deadline=None)
def test_the_first_fault_of_a_text_counts(text: str, changes: list[tuple[float, str]]) -> None:
    for place, character in changes:
        at = int(place * len(text))
        text = text[:at] + character + text[at + 1 :]
    try:
        expected, fault = json.loads(text), len(text)
    except json.JSONDecodeError as error:
        expected, fault = None, error.pos
    try:
        assert decode_json(text) == expected
    except json.JSONDecodeError as error:
        assert error.pos == fault
    except NestedTooDeeply as error:
        position = int(str(error).rsplit(" ", 1)[1]) - 1
        assert position <= fault and text[position] in "[{"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"a": 1, "b": ' + "[" * 32 + "]" * 32 + "}", "b"),
        ('{"a": "[", "caf\\u00e9 \\" é": ' + '{"x": ' * 32 + "1" + "}" * 33, 'café " é'),
        ('{"a": "b"' + ', "b": [{"c": []}]' * 20 + ', "\\\\": ' + "[" * 200_000, "\\"),
        ('["a", ' + "[" * 32, ""),
        ("[" * 200_000, ""),
        ('{"' + "[" * 40 + '": ' + "[" * 32, "[" * 40),
    ],
)
def test_the_error_names_the_member(text: str, field: str) -> None:
    with pytest.raises(NestedTooDeeply) as raised:
        decode_json(text)
    assert raised.value.field == field


@pytest.mark.parametrize(
    "text", ["]" * 40 + "[" * 40, "nonsense " + "[" * 40, '{"a": 01, "b": ' + "[" * 40, '"' + "[" * 40]
)
def test_an_earlier_fault_is_the_one_that_is_reported(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        decode_json(text)


def test_half_of_a_character_is_no_fault_here() -> None:
    text = json.dumps(["\ud800", [[]] * 40], ensure_ascii=False)
    assert decode_json(text) == json.loads(text)
