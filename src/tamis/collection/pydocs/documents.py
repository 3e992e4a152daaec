"""The documents of `tamis:pydocs`: docstrings and language topics of the running interpreter."""

import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Iterator

from tamis.collection.pydocs.stdlib import StandardLibrary

_FEWEST_WORDS = 9
_MOST_WORDS = 250
_SLUG_WORDS = 6
_INDENT, _DEEPEST = 3, 6
_SIGNATURE = re.compile(r"(?:(?:class|classmethod|static) )?[\w.]{3,}(?=\()")
_LIST_ITEM = re.compile(r"[*\-] |\d+\. ")


def documents() -> Iterator[tuple[str, str, str]]:
    """Id, title and text of every document, by id.

    A docstring found under several names counts once. The name with the fewest dots has it, then
    the shorter, then the first in the alphabet: `random.sample`, not `random.Random.sample`.
    """
    candidates = [*_docstrings(), *_paragraphs()]
    candidates.sort(
        key=lambda candidate: (candidate[0].count("."), len(candidate[0]), candidate[0])
    )
    texts: dict[str, tuple[str, str, str]] = {}
    ids: set[str] = set()
    for name, title, doc, text in candidates:
        key = " ".join(doc.lower().split())
        if key not in texts and name not in ids:
            texts[key] = (name, title, text)
            ids.add(name)
    yield from sorted(texts.values())


def _docstrings() -> Iterator[tuple[str, str, str, str]]:
    library = StandardLibrary()
    for module in library.modules():
        for name, entry in library.entries(module):
            doc = inspect.cleandoc(entry.doc)
            if len(doc.split()) >= _FEWEST_WORDS:
                yield name, name, doc, f"{entry.signature}\n\n{doc}" if entry.signature else doc


def _paragraphs() -> Iterator[tuple[str, str, str, str]]:
    """Ids are the name a paragraph describes or its first words: they outlast edits elsewhere."""
    from pydoc_data.topics import topics  # half a megabyte, so only when it is read

    for topic, body in sorted(topics.items()):
        title, paragraphs = _split(body)
        slugs: Counter[str] = Counter()
        for text in paragraphs:
            signature = _SIGNATURE.match(text)
            words = re.findall(r"[a-z0-9_]+", (signature[0] if signature else text).lower())
            slug = "-".join(words[:_SLUG_WORDS])
            slugs[slug] += 1
            number = f"-{slugs[slug]}" if slugs[slug] > 1 else ""
            yield f"topics.{topic}.{slug}{number}", title, text, text


def _split(body: str) -> tuple[str, list[str]]:
    r"""The title and the paragraphs, each with the indented blocks that belong to it.

    >>> _split("Title\n*****\n\nA sentence that is long enough to stand alone:\n\n   x = 1\n")
    ('Title', ['A sentence that is long enough to stand alone:\n\n   x = 1'])
    """
    blocks = [block.strip("\n") for block in re.split(r"\n\s*\n", body) if block.strip()]
    title = blocks[0].splitlines()[0].strip()
    plain = [re.sub(r"\n[*=\-~^]{3,}$", "", block) for block in blocks[1:]]
    return title, [text for text in _grouped(plain, 0) if len(text.split()) >= _FEWEST_WORDS]


def _grouped(blocks: list[str], indent: int) -> Iterator[str]:
    """Blocks joined where one belongs to another; what gets too long is split a level deeper."""
    groups: list[list[str]] = []
    for block in blocks:
        is_deeper = len(block) - len(block.lstrip()) > indent
        is_item = indent == 0 and _LIST_ITEM.match(block)
        if groups and (is_deeper or is_item or _is_unfinished(groups[-1])):
            groups[-1].append(block)
        else:
            groups.append([block])
    for group in groups:
        text = textwrap.dedent("\n\n".join(group))
        if len(text.split()) > _MOST_WORDS and len(group) > 1 and indent < _DEEPEST:
            yield from _grouped(group, indent + _INDENT)
        else:
            yield text


def _is_unfinished(group: list[str]) -> bool:
    """Whether a group announces the next block, as a heading does."""
    return group[-1].endswith(":") or sum(len(block.split()) for block in group) < _FEWEST_WORDS
