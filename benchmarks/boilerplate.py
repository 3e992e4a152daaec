"""How much of a page's text, and how little else, extractors keep; how fast; and what harms them.

    TAMIS_DATA=... python -m benchmarks.boilerplate --pages 40
    TAMIS_DATA=... python -m benchmarks.boilerplate --hostile

Texts are real, the pages around them are `page_templates`'. Peers are installed apart:
`pip install trafilatura lxml_html_clean resiliparse`. Precision is the share of the words that were
kept which belong to the content, recall the share of the content's words that were kept; both count
a word as often as it stands there, are taken per page and averaged. The title is left out of both.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.page_templates import ALL_CONTENT, WITH_BOILERPLATE, Page, Source, make_page
from tamis.collection.html_text import read_page
from tamis.collection.main_content import read_main_content

Extract = Callable[[str], str]
COLLECTIONS = ("squad", "medquad", "insuranceqa", "scifact")
PARAGRAPHS = (1, 2, 4, 6)
HOSTILE_BYTES = 1_000_000
HOSTILE_SECONDS = 20
HOSTILE_UNITS = (
    *("<!--", "<!-- a", "<![CDATA[", "<a", "<a>", "</a>", "<a b=", "<a b='", "<a<", "&amp", "&#1"),
    *("<div>", "<p>", "<b>", "<i><p>", "<table>", "<table><tr><td>", "<ul><li>", "<font>", "<svg>"),
    *("<script>", "<style>a", "<pre>", "<title>", "<h1>", "<form>", "<br>", "<p>a</p>", "a ", "<"),
    *("<div>a</div>", "<li><a href='#'>a</a></li>", "<p><b><a>", "</p>", "<select><option>"),
)


def trafilatura_with(**options: Any) -> Extract:
    import trafilatura

    def extract(page: str) -> str:
        return trafilatura.extract(page, **options) or ""

    return extract


def resiliparse_with(**options: Any) -> Extract:
    from resiliparse.extract.html2text import extract_plain_text

    def extract(page: str) -> str:
        return str(extract_plain_text(page, list_bullets=False, alt_texts=False, **options))

    return extract


def extractors() -> dict[str, Callable[[], Extract]]:
    """How to open each extractor, by its name in the tables."""
    return {
        "all text": lambda: lambda page: read_page(page)[1],
        "tamis": lambda: lambda page: read_main_content(page)[1],
        "trafilatura": lambda: trafilatura_with(),
        "trafilatura, favor_recall": lambda: trafilatura_with(favor_recall=True),
        "trafilatura, favor_precision": lambda: trafilatura_with(favor_precision=True),
        "trafilatura, fast": lambda: trafilatura_with(fast=True),
        "resiliparse, main_content": lambda: resiliparse_with(main_content=True),
    }


def read_sources(data: Path, name: str) -> Iterator[Source]:
    """Texts of a collection: those with one title together, others in the order of the file."""
    paragraphs: list[str] = []
    title = ""
    with (data / name / "corpus.jsonl").open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            record = json.loads(line)
            size = PARAGRAPHS[number % len(PARAGRAPHS)]
            if not paragraphs:
                title = record.get("title") or " ".join(record["text"].split()[:6])
            if text := " ".join(record["text"].split()):
                paragraphs.append(text)
            if len(paragraphs) >= size:
                yield Source(title, tuple(paragraphs))
                paragraphs = []


def make_pages(data: Path, per_collection: int) -> list[Page]:
    """Every template around the same texts."""
    sources = [
        source
        for name in COLLECTIONS
        for source in islice(read_sources(data, name), per_collection)
    ]
    return [
        make_page(template, source, seed)
        for template in (*WITH_BOILERPLATE, *ALL_CONTENT)
        for seed, source in enumerate(sources)
    ]


def words(text: str, title: str = "") -> Counter[str]:
    """The words of a text and how often they stand there, without lines that are the title."""
    lines = (line for line in text.split("\n") if " ".join(line.split(" ")).strip(" #") != title)
    return Counter(re.findall(r"\w+", "\n".join(lines)))


def precision_recall(text: str, page: Page) -> tuple[float, float]:
    """Precision and recall of the words that were kept of a page."""
    kept, content = words(text, page.title), words(page.content, page.title)
    common = (kept & content).total()
    return (common / kept.total() if kept else 0.0, common / content.total() if content else 1.0)


def measure(name: str, extract: Extract, pages: list[Page]) -> None:
    """Print a table row a kind of page, and the means."""
    extract(pages[0].html)
    start = time.process_time()
    texts = [extract(page.html) for page in pages]
    seconds = time.process_time() - start
    megabytes = sum(len(page.html.encode()) for page in pages) / 1e6
    by_kind: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for text, page in zip(texts, pages, strict=True):
        by_kind[page.kind].append(precision_recall(text, page))
    empty = sum(not text.strip() for text in texts)
    print(f"\n{name}: {megabytes / seconds:.2f} MB/s, {empty} of {len(pages)} pages empty")
    kinds = [template.__name__ for template in WITH_BOILERPLATE]
    pooled = [pair for kind in kinds for pair in by_kind[kind]]
    for kind, pairs in [*by_kind.items(), ("mean of pages with boilerplate", pooled)]:
        precision = sum(pair[0] for pair in pairs) / len(pairs)
        recall = sum(pair[1] for pair in pairs) / len(pairs)
        low = sum(pair[1] < 0.5 for pair in pairs)
        print(f"  {kind:32} precision {precision:.3f}  recall {recall:.3f}  recall < .5: {low}")


def _time_one(name: str, unit: str, answer: multiprocessing.Queue[float]) -> None:
    extract = extractors()[name]()
    extract("<p>a</p>")
    page = unit * (HOSTILE_BYTES // len(unit))
    start = time.process_time()
    extract(page)
    answer.put(time.process_time() - start)


def measure_hostile(name: str) -> None:
    """Print how long a megabyte of each unit takes; a process each, ended after a while."""
    slow, dead = [], []
    for unit in HOSTILE_UNITS:
        answer: multiprocessing.Queue[float] = multiprocessing.Queue()
        process = multiprocessing.Process(target=_time_one, args=(name, unit, answer))
        process.start()
        process.join(HOSTILE_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
            slow.append((float("inf"), unit))
        elif process.exitcode:
            dead.append((process.exitcode, unit))
        else:
            slow.append((answer.get(), unit))
    slow.sort(reverse=True)
    print(f"{name}: over {HOSTILE_SECONDS} s: {[unit for s, unit in slow if s == float('inf')]}")
    rest = [(round(seconds, 2), unit) for seconds, unit in slow if seconds != float("inf")]
    print(f"  slowest others (s): {rest[:5]}; ended by an error: {dead}", flush=True)


def _is_installed(extractor: str) -> bool:
    peer = extractor.partition(",")[0]
    return peer != "trafilatura" or find_spec(peer) is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=40, help="texts per collection")
    parser.add_argument("--only", action="append", help="an extractor of this name alone")
    parser.add_argument("--hostile", action="store_true", help="a megabyte of hostile HTML instead")
    arguments = parser.parse_args()
    names = arguments.only or [name for name in extractors() if _is_installed(name)]
    if arguments.hostile:
        for name in names:
            measure_hostile(name)
        return
    pages = make_pages(Path(os.environ["TAMIS_DATA"]), arguments.pages)
    for name in names:
        measure(name, extractors()[name](), pages)


if __name__ == "__main__":
    main()
