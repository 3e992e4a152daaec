"""Which stretches of text are words: the rules of Lucene's StandardTokenizer as an automaton.

The rules are those of UAX #29 (word boundaries) plus emoji sequences, written over the classes of
`word_classes.txt` and compiled to a small deterministic automaton. A word is the longest match at
a position; where nothing matches, one code point is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

CLASSES = (
    "Other ALetter Digit Numeric ExtendNumLet MidLetter MidNum MidNumLet Single_Quote Double_Quote "
    "Hebrew_Letter Hangul Katakana Hiragana Ideographic Complex_Context Complex_Extend Extend ZWJ "
    "ALetter_Emoji Emoji Emoji_Modifier Text_Selector Emoji_Selector Keycap_Base Keycap "
    "Regional_Indicator Tag Tag_End"
).split()
PLAIN_EXTEND = "Extend ZWJ Keycap Emoji_Modifier Tag Tag_End Complex_Extend"
EXTEND = PLAIN_EXTEND + " Text_Selector Emoji_Selector"
SPACES = (9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 0x1680, *range(0x2000, 0x2007), 0x2008, 0x2009)
SPACES += (0x200A, 0x2028, 0x2029, 0x205F, 0x3000)
DEAD = 0
START = 1


@dataclass(frozen=True, eq=False)
class Rule:
    """A regular expression over classes, as a tree; `kind` is one, then, either or many."""

    kind: str
    parts: tuple[Rule, ...] = ()
    classes: frozenset[str] = frozenset()

    def __add__(self, other: Rule) -> Rule:
        return Rule("then", (self, other))

    def __or__(self, other: Rule) -> Rule:
        return Rule("either", (self, other))


def one_of(names: str) -> Rule:
    """One code point of any of these classes."""
    return Rule("one", classes=frozenset(names.split()))


def many(rule: Rule) -> Rule:
    """The rule any number of times, or not at all. The rule itself must not match nothing."""
    return Rule("many", (rule,))


def some(rule: Rule) -> Rule:
    """The rule at least once."""
    return rule + many(rule)


def maybe(rule: Rule) -> Rule:
    """The rule once or not at all."""
    return rule | Rule("then")


def extended(names: str) -> Rule:
    """One code point of these classes and the marks that ride on it (WB4)."""
    return one_of(names) + many(one_of(EXTEND))


def emoji() -> Rule:
    """An emoji sequence: characters joined by ZWJ, a tag sequence, a keycap, a flag."""
    marks, joiner, colour = (
        many(one_of(PLAIN_EXTEND)),
        one_of("ZWJ"),
        maybe(one_of("Emoji_Selector")),
    )
    character = many(joiner) + one_of("Emoji ALetter_Emoji") + marks + colour
    element = character | (one_of("Emoji_Modifier") + marks)
    tags = some(one_of("Tag")) + one_of("Tag_End")
    keycap = one_of("Keycap_Base Digit") + marks + colour + one_of("Keycap") + marks
    flag = extended("Regional_Indicator") + extended("Regional_Indicator")
    return (element + (many(joiner + element) | tags)) | keycap | flag


def joined() -> Rule:
    """Letters, numbers and Katakana, joined as WB5 to WB13b allow."""
    low_line, katakana = extended("ExtendNumLet"), extended("Katakana")
    letter, hebrew = (
        extended("ALetter ALetter_Emoji Hangul Hebrew_Letter"),
        extended("Hebrew_Letter"),
    )
    number = extended("Digit Numeric")
    in_word = extended("MidLetter MidNumLet Single_Quote")
    in_number = extended("MidNum MidNumLet Single_Quote")
    run = (
        (hebrew + (extended("Single_Quote") | (extended("Double_Quote") + hebrew)))
        | (number + many(in_number + number))
        | (letter + many(in_word + letter))
    )
    block = some(katakana) | some(run)
    return many(low_line) + block + many(some(low_line) + block) + many(low_line)


def standard_rule() -> Rule:
    """Everything that is a word to Lucene's StandardTokenizer."""
    lone = extended("Ideographic") | extended("Hiragana")
    asian = some(extended("Complex_Context Complex_Extend"))
    return joined() | emoji() | lone | asian


Pending = tuple[Rule, ...]
"""What is still to be matched, one rule after another."""


def after(pending: Pending, name: str) -> Iterator[Pending]:
    """What may be pending once a code point of class `name` has been read."""
    if not pending:
        return
    rule, later = pending[0], pending[1:]
    if rule.kind == "one":
        if name in rule.classes:
            yield later
    elif rule.kind == "then":
        yield from after(rule.parts + later, name)
    elif rule.kind == "either":
        for alternative in rule.parts:
            yield from after((alternative, *later), name)
    else:
        yield from after((*rule.parts, *pending), name)
        yield from after(later, name)


def may_end(rule: Rule) -> bool:
    """Whether the rule matches nothing at all."""
    if rule.kind == "either":
        return any(map(may_end, rule.parts))
    return rule.kind == "many" or (rule.kind == "then" and all(map(may_end, rule.parts)))


@dataclass(frozen=True)
class Automaton:
    """`steps[state, class]` is the next state; state 0 is dead, 1 the start; some states accept.

    `classes` holds the class of every code point.
    """

    classes: NDArray[np.uint8]
    steps: NDArray[np.uint8]
    accepts: NDArray[np.bool_]


def compiled(rule: Rule, names: list[str]) -> tuple[list[list[int]], list[bool]]:
    """The minimal deterministic automaton of a rule: a row of steps a state, and who accepts."""
    states: dict[frozenset[Pending], int] = {frozenset(): DEAD, frozenset([(rule,)]): START}
    follow = cache(lambda pending, name: frozenset(after(pending, name)))
    todo, rows = list(states), []
    while todo:
        state, *todo = todo
        row = []
        for name in names:
            reached = frozenset[Pending]().union(*(follow(pending, name) for pending in state))
            if reached not in states:
                states[reached] = len(states)
                todo.append(reached)
            row.append(states[reached])
        rows.append(row)
    accepts = [any(all(map(may_end, pending)) for pending in state) for state in states]
    return minimal(rows, accepts)


def minimal(rows: list[list[int]], accepts: list[bool]) -> tuple[list[list[int]], list[bool]]:
    """Join the states that no continuation tells apart; states 0 and 1 keep their numbers."""
    groups, count = [int(accept) for accept in accepts], 0
    while len(set(groups)) > count:
        count = len(set(groups))
        numbers: dict[tuple[int, ...], int] = {}
        keys = [(groups[n], *(groups[state] for state in row)) for n, row in enumerate(rows)]
        groups = [numbers.setdefault(key, len(numbers)) for key in keys]
    first = [groups.index(group) for group in range(count)]
    return [[groups[state] for state in rows[n]] for n in first], [accepts[n] for n in first]


def class_table() -> NDArray[np.uint8]:
    """The class of every code point, read from `word_classes.txt`."""
    table = np.zeros(0x110000, np.uint8)
    text = files("tamis.text").joinpath("word_classes.txt").read_text("ascii")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, *ranges = line.split()
            for low, _, high in (item.partition("-") for item in ranges):
                table[int(low, 16) : int(high or low, 16) + 1] = CLASSES.index(name)
    return table


@cache
def standard_words() -> Automaton:
    """Words as Lucene's StandardTokenizer finds them."""
    steps, accepts = compiled(standard_rule(), CLASSES)
    return Automaton(class_table(), np.array(steps, np.uint8), np.array(accepts))


@cache
def blank_separated_words() -> Automaton:
    """Everything between white space, as Lucene's WhitespaceTokenizer finds it.

    Unpaired surrogates separate too: no term may hold one, since none can be written as UTF-8.
    """
    classes = np.ones(0x110000, np.uint8)
    classes[list(SPACES)] = 0
    classes[0xD800:0xE000] = 0
    steps, accepts = compiled(some(one_of("black")), ["space", "black"])
    return Automaton(classes, np.array(steps, np.uint8), np.array(accepts))
