"""Feeds one reader a megabyte of its own punctuation, within a limit on processor time.

Run as a script by the test beside it: `python megabyte.py READER`. Everything linear takes a few
seconds at most; anything that takes the square of a megabyte is ended by the system.
"""

from __future__ import annotations

import resource
import string
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

SIZE = 1_000_000
PROCESSOR_SECONDS = 300
COMMON = [
    *string.punctuation,
    *("a", "1", "A. ", "a ", "1. ", "a-", "a'", '"a" ', "é", "。", "。a", "？」", "…", "\u200d"),
    *(" ", "\t", "\n", "\r", " \n", "\n\n", "a\n", "A\n\n", "\x85", "\u2028a", "\x1c"),
]
MARKUP = [
    *("<!--", "<!-- a", "<!", "<?", "<![CDATA[", "<a", "<a ", "<a>", "</a", "</a ", "</a>", "</"),
    *("< ", "<a b=", '<a b="', "<a b='", "<a b='>", '<a "', "-->", "--", "<!-->", "<a<", "<a=>"),
    *("&amp", "&amp;", "&#", "&#1", "&#1;", "&#x", "&#xf", "&a", "<a/>", "<script>", "</script>"),
    *("<style>a", "<h1>", "<h1> </h1>", "<svg>", "<svg></p>", "<pre>", "<title>", "<head>"),
]
MARKDOWN = [
    *("[", "[a", "[a]", "[a](", "[a][", "![", "](", "*a ", "**a ", "__a ", "`a ", "``", "# ", "#"),
    *(" #", "## #", "```\n", "---\n", "===\n", "> ", "- ", "1) ", "| ", "a: ", "title: a  "),
]


def repeated(unit: str) -> str:
    """A megabyte of one unit."""
    return unit * (SIZE // len(unit.encode()))


def numbered(unit: str) -> str:
    """A megabyte of one unit with a number in it, every one another."""
    return "".join(unit.format(number) for number in range(SIZE // (len(unit) + 4)))


def texts(units: Iterable[str], *forms: str) -> Iterable[str]:
    """Megabytes of punctuation, each in the middle of each form."""
    for unit in units:
        for form in forms or ("{}",):
            yield form.replace("{}", repeated(unit))


def read_files(name: str, read: Callable[[Path], object], contents: Iterable[str]) -> None:
    """Read a file of each of these contents; that it is refused is as good."""
    from tamis.collection.file_content import Unreadable
    from tamis.errors import TamisError

    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        for content in contents:
            path.write_bytes(content.encode("utf-8", "surrogatepass"))
            try:
                read(path)
            except (TamisError, Unreadable):
                continue


def _documents(path: Path) -> None:
    from tamis.collection.readers import open_collection

    for on_error in ("raise", "skip"):
        list(open_collection(path, on_error=on_error).documents)


def _queries(path: Path) -> None:
    from tamis.collection.base import Faults
    from tamis.collection.readers import read_queries

    read_queries(path, faults=Faults(skip=True))


def _as(format: str) -> Callable[[Path], None]:
    from tamis.collection.readers import open_collection

    def read(path: Path) -> None:
        list(open_collection(path, format=format, on_error="skip").documents)

    return read


def trec_documents() -> None:
    """TREC documents, whole and with everything on one line, and tags each of its own name."""
    forms = (
        "<DOC><DOCNO>1</DOCNO><TEXT>{}</TEXT></DOC>",
        "<DOC>\n<DOCNO>1</DOCNO>\n{}\n</DOC>",
        "<DOC><DOCNO>1</DOCNO>a</DOC>{}",
    )
    units = ["<DOC>", "</DOC>", "<DOC></DOC>", "<DOC ", "</DOC ", "</TEXT", "<TEXT>", "<DOCNO>"]
    read_files("a", _documents, texts([*MARKUP, *units], *forms))
    distinct = [numbered("<a{}>"), numbered("</a{}>"), numbered("<a{0}>b</a{0}>")]
    read_files("a", _documents, [forms[0].replace("{}", text) for text in distinct])


def trec_topics() -> None:
    """Classic topics and topics in XML."""
    classic = ("<top><num> Number: 1 <title> {}</top>", "<top>\n<num> 1\n<title> a {}\n</top>")
    units = ["<top>", "</top>", "</title>", "</title> ", "<title>", "<num>"]
    read_files("a", _queries, texts([*MARKUP, *units], *classic))
    read_files("a", _queries, [classic[0].replace("{}", numbered("<a{}>"))])
    xml = ("<topics><topic number='1'><title>{}</title></topic></topics>", "<topics>{}</topics>")
    units = ["x<a/>", "x<a></a>", "<topic>", "<topic/>", "<topic number='1'>a</topic>", "]]>"]
    read_files("a", _queries, texts([*MARKUP, *units], *xml))
    read_files("a", _queries, texts("a<", "<topics><topic number='{}'/></topics>"))


def xml_entities() -> None:
    """Entities that stand for entities: ten to the twelfth letters, and a long one many times."""
    levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    laughs = f'<!DOCTYPE t [<!ENTITY l0 "{"a" * 10}">{levels}]>'
    long = f'<!DOCTYPE t [<!ENTITY l11 "{"a" * (SIZE // 2)}">]>'
    topic = "<topics><topic number='1'><title>{}</title></topic></topics>"
    bodies = [laughs + topic.format("&l11;"), long + topic.format("&l11;" * (SIZE // 10))]
    read_files("a", _queries, bodies)


def markdown() -> None:
    """Markdown headings and front matter."""
    from tamis.collection.filetexts import read_text

    forms = ("# a{}", "# {} a", "a {}\n===\n", "---\ntitle: a{}b\n---\nb", "---\na: {}")
    read_files("a.md", read_text, texts([*MARKDOWN, " ", "\t", "\n", "\\", "_", "~"], *forms))


def restructured() -> None:
    """Headings of reStructuredText."""
    from tamis.collection.filetexts import read_text

    forms = ("a\n{}\n", "{}\n====\n", "{} a\n----")
    read_files("a.rst", read_text, texts([*COMMON, "=\n", "a\n=\n"], *forms))


def plain() -> None:
    """Plain text."""
    from tamis.collection.filetexts import read_text

    read_files("a.txt", read_text, texts(COMMON, "{}a", "a{}"))


def html() -> None:
    """Pages."""
    from tamis.collection.filetexts import read_text

    forms = ("{}", "<a b='{}'>a", "<head>{}<body>a")
    read_files("a.html", read_text, texts(MARKUP, *forms))
    read_files("a.html", read_text, texts(COMMON, "<p>a{}</p>"))
    pairs = (repeated("<svg>")[: SIZE // 2] + repeated(tag) for tag in ("</p>", "</style>"))
    digits = (f"<p>&#{'1' * SIZE};", f"<p>&#{'0' * SIZE}65;", "<meta" * 100 + "charset= " * 100)
    read_files("a.html", read_text, [*pairs, *digits])


def jsonl() -> None:
    """JSON a line, in texts, in ids, in fields and broken."""
    forms = (
        '{"id": "1", "text": "a"}\n{}',
        '{"id": "1", "text": "a", "b": {}}',
        '{"id": "1", "text": "{}"}',
    )
    units = [
        "{",
        "[",
        "[[]],",
        '{"a":',
        '"',
        '\\"',
        "\\",
        "\\u0041",
        "\\ud800",
        ",",
        "\n",
        "1",
        " ",
    ]
    read_files("a", _as("jsonl"), texts(units, *forms))
    keys = ",".join(f'"a{number}":1' for number in range(SIZE // 12))
    deep = "[" * 500 + "]" * 500
    lines = [f'{{"id": "1", "text": "a", {keys}}}', f'{{"id": "1", "text": "a", "b": {deep}}}']
    read_files("a", _as("jsonl"), lines)


def tables() -> None:
    """CSV and TSV: headers, cells, rows."""
    units = [",", "\t", '"', '""', '",', ',"', '"\n', ";", "\n", "\r", "a,", "a\t", "=", "'"]
    forms = ("id,text\n1,{}", 'id,text\n1,"{}"', "id,text{}\n1,a", "{}\n1,a")
    for format, delimiter in (("csv", ","), ("tsv", "\t")):
        contents = (text.replace("id,text", f"id{delimiter}text") for text in texts(units, *forms))
        read_files("a", _as(format), contents)
        header = delimiter.join(["id", "text", *(f"a{number}" for number in range(SIZE // 7))])
        read_files("a", _as(format), [header + "\n1"])


def line_formats() -> None:
    """Query logs, MS MARCO's tables, candidates with texts, runs and judgements; and looking."""
    from tamis.collection.base import Faults
    from tamis.collection.judgements import read_qrels
    from tamis.collection.querylog import read_querylog
    from tamis.collection.runs import read_run

    units = ["1\t", "\t1", "1\ta\n", "\t", "\n", " ", '"', "-", "1", "q Q0 d 1 1 r ", "1 0 d 1 "]
    read_files("a", lambda path: list(read_querylog(path, Faults(skip=True))), texts(units))
    for format in ("id-text", "msmarco-docs", "reranking"):
        read_files("a", _as(format), texts(units, "1\t{}\n", "{}"))
    read_files("a", _documents, texts(units))
    read_files("a", read_run, texts(units, "q Q0 d 1 1 {}\n"))
    read_files("a", read_qrels, texts(units, "q 0 d {}\n"))


def sentences() -> None:
    """The sentence splitter."""
    from tamis.text.sentences import split_sentences

    units = [
        *COMMON,
        *(".)", ". (", ".[1]", ". A", "A.A.", "Dr. ", "-1. ", "\n1. ", "a\n", "a \n", "a\r", "; "),
        *("、", "a、", "a，", "。」", "。 ", "a" * 1600 + " ", "a " + "b" * 1600 + ". "),
    ]
    for text in texts(units, "a{}A"):
        split_sentences(text)


def passages() -> None:
    """Passages of words, of sentences and of tokens."""
    from tamis.text.passages import parse_spec, split
    from tamis.types import Document

    def letters(text: str) -> list[tuple[int, int]]:
        return [(at, at + 1) for at in range(0, len(text), 2)]

    for spec in ("words:100", "words:150:75", "words:150:75:30", "sentences:10:5", "tokens:8:4"):
        for text in texts(["a ", "a. ", "。a", "A.\n\n", "a-"]):
            split(Document("1", text, "a"), parse_spec(spec), tokens=letters)


def analyzers() -> None:
    """The terms of a text and where they stand."""
    from tamis.text.analysis import analyzer

    units = [*COMMON, "_a", "a_", "1,", "1.", "a.", "A's ", "\u0301", "\U0001f1e6", "1\ufe0f\u20e3"]
    for name in ("english", "whitespace"):
        for text in texts(units):
            analyzer(name).terms(text)
            analyzer(name).spans(text)
        analyzer(name).terms("".join("_" * 240 + f"{number} " for number in range(SIZE // 250)))


def snippets() -> None:
    """The stretch of a document that is shown."""
    from tamis.search.snippets import snippet
    from tamis.text.analysis import analyzer

    for text in texts(["cat-", "cat ", "cat, dog ", " ", "\n", "-"], "{}", "a " * 60 + "{}"):
        snippet(text, ["cat", "dog"], analyzer("english"))


def near_duplicates() -> None:
    """Queries that say nearly the same."""
    from tamis.text.near import near_duplicates as find

    for text in texts(COMMON):
        find([text, text[:-1]])


READERS = (
    trec_documents,
    trec_topics,
    xml_entities,
    markdown,
    restructured,
    plain,
    html,
    jsonl,
    tables,
    line_formats,
    sentences,
    passages,
    analyzers,
    snippets,
    near_duplicates,
)

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
    {reader.__name__: reader for reader in READERS}[sys.argv[1]]()
