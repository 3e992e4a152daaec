"""Porter's stemmer with its author's later extensions, as Lucene's PorterStemFilter applies it.

The extensions: -bli becomes -ble and -logi becomes -log, where the paper of 1980 had -abli and
nothing; words of one or two letters are left alone.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

STEP_2 = (
    "ational ate|tional tion|enci ence|anci ance|izer ize|bli ble|alli al|entli ent|eli e|ousli ous"
    "|ization ize|ation ate|ator ate|alism al|iveness ive|fulness ful|ousness ous|aliti al"
    "|iviti ive|biliti ble|logi log"
)
STEP_3 = "icate ic|ative |alize al|iciti ic|ical ic|ful |ness "
STEP_4 = (
    "al |ance |ence |er |ic |able |ible |ant |ement |ment |ent |sion s|tion t|ou |ism |ate |iti "
    "|ous |ive |ize "
)


def _rules(listed: str) -> list[tuple[str, str]]:
    pairs = [rule.split(" ") for rule in listed.split("|")]
    return sorted(((old, new) for old, new in pairs), key=lambda pair: -len(pair[0]))


SECOND, THIRD, FOURTH = _rules(STEP_2), _rules(STEP_3), _rules(STEP_4)


def shape(word: str) -> str:
    """The word as consonants and vowels; y is a vowel after a consonant.

    >>> shape("syzygy")
    'cvcvcv'
    """
    letters = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and letters[-1:] == "c")
        letters += "v" if vowel else "c"
    return letters


def measure(word: str) -> int:
    """How many times a consonant follows a vowel: Porter's m."""
    return shape(word).count("vc")


def is_short(word: str) -> bool:
    """Whether the word ends in consonant, vowel, consonant, the last not w, x or y."""
    return shape(word).endswith("cvc") and word[-1] not in "wxy"


def without_plural(word: str) -> str:
    """Step 1a."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def without_past(word: str) -> str:
    """Step 1b: -eed, -ed and -ing."""
    if word.endswith("eed"):
        return word[:-1] if measure(word[:-3]) > 0 else word
    stem = word.removesuffix("ed") if word.endswith("ed") else word.removesuffix("ing")
    if stem == word or "v" not in shape(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if stem[-2:-1] == stem[-1] and shape(stem).endswith("c"):
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if measure(stem) == 1 and is_short(stem) else stem


def replaced(word: str, rules: list[tuple[str, str]], least: int) -> str:
    """Steps 2 to 4: the longest ending that fits, replaced if m of what is before allows."""
    for old, new in rules:
        if word.endswith(old):
            stem = word[: len(word) - len(old)] + new
            before = stem if least == 2 else word[: -len(old)]
            return stem if measure(before) >= least else word
    return word


def without_e(word: str) -> str:
    """Step 5."""
    if word.endswith("e"):
        m = measure(word)
        if m > 1 or (m == 1 and not is_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and measure(word) > 1 else word


def porter(word: str) -> str:
    """The stem of a lower-case word.

    >>> [porter(word) for word in ("relational", "possibly", "technology", "as")]
    ['relat', 'possibl', 'technolog', 'as']
    """
    units = utf16(word)
    if len(units) <= 2 or not "a" <= word[-1] <= "z":
        return word
    stem = without_past(without_plural(units))
    if stem.endswith("y") and "v" in shape(stem[:-1]):
        stem = stem[:-1] + "i"
    stem = replaced(replaced(stem, SECOND, 1), THIRD, 1)
    stem = without_e(replaced(stem, FOURTH, 2))
    return stem.encode("utf-16", "surrogatepass").decode("utf-16")


def utf16(word: str) -> str:
    """The word with each code point above U+FFFF as its two surrogates: Lucene counts those."""
    if word.isascii() or max(word) <= "\uffff":
        return word
    coded = word.encode("utf-16-le")
    return "".join(
        coded[n : n + 2].decode("utf-16-le", "surrogatepass") for n in range(0, len(coded), 2)
    )


def fast_porter() -> Callable[[str], str]:
    """`porter`, much faster on plain words: Snowball's older rules, where the two agree."""
    older: Callable[[str], str] = importlib.import_module("Stemmer").Stemmer("porter", 0).stemWord
    is_plain = re.compile("[a-z]{3,}").fullmatch
    may_differ = re.compile("logi|logy|bli|bly|cc|hh|jj|kk|qq|vv|ww|xx|yy").search

    def stem(word: str) -> str:
        return older(word) if is_plain(word) and not may_differ(word) else porter(word)

    return stem
