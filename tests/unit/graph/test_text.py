"""The text form against Google's text_format, and against text that is wrong."""

from __future__ import annotations

import random

import pytest
from google.protobuf import text_format

from softnpu.graph.text import TextError, parse
from softnpu.graph.wire import Message, decode
from tests.unit.graph.test_wire import OUTER, SAMPLE, fill, peer, plain

COLOUR = Message("Paint").add(
    colour=(1, {"RED": 0, "BLUE": 5}), more=(2, {"RED": 0, "BLUE": 5}, True), inner=(3, OUTER)
)


def without_map(value: dict) -> dict:
    return {key: item for key, item in value.items() if key != "q"}


def test_reads_what_google_prints() -> None:
    message = peer(OUTER)()
    fill(message, without_map(SAMPLE))
    assert parse(OUTER, text_format.MessageToString(message)) == without_map(SAMPLE)
    assert parse(OUTER, text_format.MessageToString(message, as_one_line=True, as_utf8=True)) == without_map(SAMPLE)


@pytest.mark.parametrize(
    "text",
    [
        'h: "a" "b"\n\t\'c\' # a comment',
        'h: "\\x41\\102\\n\\"\\\\"',
        "a: 0x10 b: -010",
        "f: 1.5f g: .5 k: [1, 2e3, -inf] l: 7",
        "o { x: 1, names: 'a'; names: 'b' } p < x: 2 > p: { x: 3 }",
        "j: [] j: 4 j: [5, 6]",
        "e: true r: [false, 1, t]",
        "i: '\\377\\000'",
    ],
)
def test_agrees_with_google(text: str) -> None:
    expected = text_format.Parse(text, peer(OUTER)())
    assert parse(OUTER, text) == plain(decode(OUTER, expected.SerializeToString()))


def test_enums_by_name_and_number() -> None:
    assert parse(COLOUR, "colour: BLUE more: RED more: 5 more: [BLUE]") == {"colour": 5, "more": [0, 5, 5]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\n  zz: 2", "line 2, column 3: Outer has no field 'zz'"),
        ("a: 1 a: 2", "given twice"),
        ("a: 99999999999", "cannot be"),
        ("a: -1 c: -1", "cannot be"),
        ("a: 1.5", "whole number"),
        ("a 1", "needs :"),
        ("a: ", "missing"),
        ("o: 5", "needs {"),
        ("a: { }", "not a message"),
        ("o { x: 1", "belongs"),
        ("o { x: 1 >", "belongs"),
        ("h: 5", "quotes"),
        ("e: maybe", "true or false"),
        ("j: [1 2]", "list"),
        ("a: [1]", "one value"),
        ('h: "open', "not expected"),
        ("@", "not expected"),
        ("f: abc", "number"),
        ("a: 'text'", "not a string"),
    ],
)
def test_mistakes_say_where(text: str, words: str) -> None:
    with pytest.raises(TextError, match=words.replace("{", r"\{")):
        parse(OUTER, text)
    with pytest.raises(text_format.ParseError):
        text_format.Parse(text, peer(OUTER)())


def test_wrong_enum_names_list_the_right_ones() -> None:
    with pytest.raises(TextError, match="one of RED, BLUE, not 'GREEN'"):
        parse(COLOUR, "colour: GREEN")
    with pytest.raises(TextError, match="cannot be 3"):
        parse(COLOUR, "colour: 3")


def test_unknown_fields_can_be_skipped() -> None:
    text = "zz: 1 a: 2 yy { q: [1, 'x', { r: 2 }] w < s: t > } xx: 'text' 'more' b: 3"
    assert parse(OUTER, text, skip_unknown=True) == {"a": 2, "b": 3}


def test_nesting_is_bounded() -> None:
    with pytest.raises(TextError, match="nest"):
        parse(OUTER, "z {" * 5000, skip_unknown=True)


def test_random_text_raises_nothing_else() -> None:
    rng = random.Random(1)
    message = peer(OUTER)()
    fill(message, without_map(SAMPLE))
    whole = text_format.MessageToString(message)
    for _ in range(3000):
        letters = list(whole)
        for _ in range(rng.randrange(1, 6)):
            letters[rng.randrange(len(letters))] = rng.choice("{}<>[]:;,\"'#\\ \nax0-.")
        try:
            parse(OUTER, "".join(letters)[: rng.randrange(len(letters))], skip_unknown=rng.random() < 0.5)
        except TextError:
            continue
