"""Pages as the web has them, around a text that is known: what `boilerplate.py` extracts from.

Every template was written for this benchmark. `Page.content` is what a reader came for; all other
words of a page are boilerplate.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

TOPICS = (
    "Home About Contact Products Services Pricing Careers Press Blog Help Support Account Login "
    "Register Basket Checkout Newsletter Events Partners Research Health Science Sport Travel "
    "Culture Opinion Business Technology Weather Video Gallery Archive Forum Community Download "
    "Tutorials Guides Reference Changelog Roadmap Security Privacy Terms Imprint Accessibility"
).split()
TEASERS = (
    "Ten ways to spend a rainy weekend in the city",
    "Why our readers are switching to a smaller kitchen",
    "Minister promises faster trains by the end of the year",
    "What we learned from moving the office twice",
    "Local team wins in the last minute of the game",
    "Five mistakes everybody makes with a new bicycle",
    "The quiet return of the neighbourhood bakery",
    "How to choose a desk lamp that lasts",
    "Survey: half of all commuters would rather walk",
    "A beginner's guide to repairing old radios",
)
COOKIES = (
    "We and our 842 partners store and access information on your device, such as cookies, and "
    "process personal data, such as identifiers, to show you personalised advertising and content, "
    "to measure performance and to learn about our audience. You may accept or manage your choices "
    "at any time, also by the link at the foot of each page. Your choices apply to this site only. "
    "Some partners rely on a legitimate interest, to which you may object."
)
FOOT = (
    "All rights reserved. Reproduction in whole or in part without permission is prohibited. "
    "Prices include tax and exclude delivery unless stated otherwise."
)


@dataclass(frozen=True)
class Page:
    """A page, the title it shows, and the text that a reader came for."""

    kind: str
    html: str
    title: str
    content: str


@dataclass(frozen=True)
class Source:
    """A title and paragraphs that a page is made of."""

    title: str
    paragraphs: Sequence[str]

    @property
    def text(self) -> str:
        return "\n".join(self.paragraphs)


def _links(draw: random.Random, count: int, item: str = "<li><a href='/{0}'>{0}</a></li>") -> str:
    return "\n".join(item.format(name) for name in draw.choices(TOPICS, k=count))


def _teasers(draw: random.Random, count: int, item: str) -> str:
    return "\n".join(item.format(teaser) for teaser in draw.sample(TEASERS, k=count))


def _tags(name: str, texts: Sequence[str]) -> str:
    return "\n".join(f"<{name}>{escape(text)}</{name}>" for text in texts)


def blog(source: Source, draw: random.Random) -> tuple[str, str]:
    """HTML5 elements used as they are meant."""
    return (
        f"""<body><header class="site-header"><a href="/">The Daily Walk</a>
<nav><ul>{_links(draw, 7)}</ul></nav></header>
<main><article><header><h1>{escape(source.title)}</h1></header>
{_tags("p", source.paragraphs)}</article>
<section class="related"><h2>You may also like</h2><ul>
{_teasers(draw, 4, "<li><a href='#'>{}</a></li>")}</ul></section></main>
<aside><h3>Newsletter</h3><form><p>Get the best of our blog once a week in your inbox.</p>
<label>Your e-mail</label><input name="mail"><button>Subscribe now</button></form>
<h3>Categories</h3><ul>{_links(draw, 9)}</ul></aside>
<footer><p>© 2026 The Daily Walk. {FOOT}</p><ul>{_links(draw, 6)}</ul></footer></body>""",
        source.text,
    )


def documentation(source: Source, draw: random.Random) -> tuple[str, str]:
    """A long tree of links beside a text with headings and code."""
    code = (
        "import drum\nsieve = drum.Sieve(mesh=2)\nfor grain in sieve.sift(flour):\n    grain.save()"
    )
    paragraphs = list(source.paragraphs)
    heads = [
        f"<h2 id='s{n}'>Section {n}<a class='headerlink' href='#s{n}'>¶</a></h2>" for n in (1, 2)
    ]
    middle = (len(paragraphs) + 1) // 2
    return (
        f"""<body><div class="wy-grid"><div class="wy-side-scroll"><div role="search"><input
placeholder="Search docs"></div><div class="wy-menu" role="navigation"><p class="caption">Getting
started</p><ul>{_links(draw, 14)}</ul><p class="caption">Reference</p><ul>{_links(draw, 22)}</ul>
</div></div><section class="wy-content-wrap"><ul class="breadcrumbs"><li><a href="/">Docs</a> »</li>
<li>{draw.choice(TOPICS)}</li><li><a href="/edit">Edit on GitHub</a></li></ul>
<div role="main" class="document"><div itemprop="articleBody"><h1>{escape(source.title)}</h1>
{heads[0]}{_tags("p", paragraphs[:middle])}
<div class="highlight"><pre>{escape(code)}</pre></div>
{heads[1]}{_tags("p", paragraphs[middle:])}</div></div>
<div class="toc"><p>On this page</p><ul><li><a href="#s1">Section 1</a></li></ul></div>
<footer><div class="rst-footer-buttons"><a href="#">« Previous</a><a href="#">Next »</a></div>
<p>Built with a theme provided by Read The Manual. Last updated on 3 May.</p></footer>
</section></div></body>""",
        f"Section 1\n{source.text}\n{code}\nSection 2",
    )


def shop(source: Source, draw: random.Random) -> tuple[str, str]:
    """A product: few paragraphs, a table of facts, more words around than within."""
    facts = [
        ("Weight", "1.2 kg"),
        ("Diameter", "28 cm"),
        ("Material", "beech, steel"),
        ("Mesh", "2 mm"),
    ]
    rows = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in facts)
    cards = _teasers(
        draw,
        5,
        "<div class='card'><a href='#'>{}</a><span>€ 19.90</span><button>Add to basket</button>"
        "</div>",
    )
    return (
        f"""<body><div id="cookie-consent" class="cookie-banner"><p>{COOKIES}</p><button>Accept all
</button><button>Manage choices</button></div><div class="topbar">Free delivery from € 50 | 30 days
return | Hotline 0800 123456</div><div class="menu"><ul>{_links(draw, 16)}</ul></div>
<div class="breadcrumb"><a href="/">Home</a> / <a href="/k">Kitchen</a></div>
<div class="product"><div class="gallery"><img alt="front view" src="1.jpg"></div>
<h1>{escape(source.title)}</h1><div class="price">€ 34.50</div><button>Add to basket</button>
<div class="description" id="description">{_tags("p", source.paragraphs)}</div>
<table class="specification">{rows}</table></div>
<div class="carousel"><h2>Customers also bought</h2>{cards}</div>
<div class="foot"><div class="col"><h4>Service</h4><ul>{_links(draw, 6)}</ul></div>
<div class="col"><h4>Company</h4><ul>{_links(draw, 6)}</ul></div><p>{FOOT}</p></div></body>""",
        source.text + "\n" + "\n".join(f"{name} {value}" for name, value in facts),
    )


def news(source: Source, draw: random.Random) -> tuple[str, str]:
    """Nothing but div and span, teasers in the middle of the text."""
    first, rest = source.paragraphs[:1], source.paragraphs[1:]
    return (
        f"""<body><div class="masthead"><div class="logo">The Evening Courier</div>
<div class="nav-bar">
{_links(draw, 12, "<span class='nav-item'><a href='#'>{0}</a></span>")}</div></div>
<div class="breaking"><span>Live</span> <a href="#">{draw.choice(TEASERS)}</a></div>
<div class="story"><div class="headline"><h1>{escape(source.title)}</h1></div>
<div class="share-bar"><span>Share</span><span>Tweet</span><span>Mail</span><span>Print</span></div>
<div class="story-body">{_tags("p", first)}
<div class="teaser-inline"><span>Read more:</span><a href="#">{draw.choice(TEASERS)}</a></div>
{_tags("p", rest)}</div></div>
<div class="rail"><div class="rail-title">Most read</div><ol>
{_teasers(draw, 6, "<li><a href='#'>{}</a></li>")}</ol>
<div class="promo">Subscribe for only 1 Euro in the first month. Cancel at any time.</div></div>
<div class="bottom">{_links(draw, 18, "<a href='#'>{0}</a> | ")}<div>{FOOT}</div></div></body>""",
        source.text,
    )


def forum(source: Source, draw: random.Random) -> tuple[str, str]:
    """A question and its answers, each with the poster's card and buttons."""
    names = draw.sample(
        ["grainy", "mesh2mm", "old_miller", "sifter", "kitchen_kate", "drumroll"], 6
    )
    posts = "\n".join(
        f"""<div class="post" id="p{number}"><div class="postprofile"><a href="#">{name}</a>
<br>Posts: {draw.randrange(9000)}<br>Joined: Mon Mar 02, 2015</div>
<div class="postbody"><div class="content">
{escape(text)}</div><div class="buttons"><a href="#">Quote</a> <a href="#">Report</a></div>
<div class="signature">Measure twice, sift once.</div></div></div>"""
        for number, (name, text) in enumerate(zip(names, source.paragraphs, strict=False))
    )
    return (
        f"""<body><div id="wrap"><div class="headerbar"><p>The friendly forum for all who sift</p>
<ul class="linklist">{_links(draw, 8)}</ul></div><div id="page-body"><h2 class="topic-title">
{escape(source.title)}</h2><p class="notice">Forum rules: be kind, search before you ask.</p>
{posts}<div class="pagination">{len(source.paragraphs)} posts • Page 1 of 1</div>
<div class="jumpbox">Jump to: {_links(draw, 6, "<span>{0}</span> ")}</div></div>
<div class="page-footer"><p>Who is online: users browsing this forum: no registered users and 3
guests</p><p>Powered by a forum software. All times are UTC.</p></div></div></body>""",
        "\n".join(source.paragraphs[:6]),
    )


def table_layout(source: Source, draw: random.Random) -> tuple[str, str]:
    """A page of the nineties: tables for layout, line breaks for paragraphs."""
    body = "<br><br>\n".join(escape(text) for text in source.paragraphs)
    return (
        f"""<body bgcolor="#ffffff"><table width="100%"><tr><td colspan="2"><font size="6">
Welcome to the Institute</font></td></tr><tr><td width="150" valign="top">
{_links(draw, 10, "<a href='#'>{0}</a><br>")}</td><td valign="top"><font face="Arial"><b>
{escape(source.title)}</b><br><br>{body}</font></td></tr><tr><td colspan="2" align="center"><hr>
<a href="#">Home</a> | <a href="#">Back to top</a> | Webmaster | best viewed at 800 x 600</td></tr>
</table></body>""",
        source.text,
    )


def short_answer(source: Source, draw: random.Random) -> tuple[str, str]:
    """One paragraph under a banner that is longer than it."""
    return (
        f"""<body><div class="consent-overlay" role="dialog" aria-label="Privacy"><h2>Your privacy
matters to us</h2><p>{COOKIES}</p><p>{COOKIES}</p><button>Agree</button></div>
<div class="header"><ul>{_links(draw, 9)}</ul></div><div class="container"><h1>
{escape(source.title)}</h1><div class="answer"><p>{escape(source.paragraphs[0])}</p></div></div>
<div class="footer-links"><ul>{_links(draw, 14)}</ul><p>{FOOT}</p></div></body>""",
        source.paragraphs[0],
    )


def questions(source: Source, draw: random.Random) -> tuple[str, str]:
    """Frequent questions: a text in list items and definitions."""
    items = "\n".join(
        f"<dt>Question {number}: what is to be known?</dt><dd>{escape(text)}</dd>"
        for number, text in enumerate(source.paragraphs, 1)
    )
    asked = "\n".join(
        f"Question {number}: what is to be known?\n{text}"
        for number, text in enumerate(source.paragraphs, 1)
    )
    return (
        f"""<body><div class="page"><div class="top"><a class="skip" href="#c">Skip to content</a>
<form><input placeholder="Search"><button>Search</button></form><ul>{_links(draw, 8)}</ul></div>
<div id="c"><h1>{escape(source.title)}</h1><dl class="faq">{items}</dl>
<div class="feedback">Was this helpful? <button>Yes</button> <button>No</button></div></div>
<div class="bottom"><p>Still have questions? Call our team from Monday to Friday.</p><ul>
{_links(draw, 10)}</ul><small>{FOOT}</small></div></div></body>""",
        asked,
    )


def encyclopedia(source: Source, draw: random.Random) -> tuple[str, str]:
    """An article with a box of facts, links in the text, categories and tools around."""
    words = [text.split(" ") for text in source.paragraphs]
    linked = "\n".join(
        "<p>"
        + " ".join(
            f"<a href='#'>{escape(word)}</a>" if draw.random() < 0.12 else escape(word)
            for word in text
        )
        + "</p>"
        for text in words
    )
    return (
        f"""<body><div id="mw-page-base"></div><div id="content"><div class="sitenotice">Help us: a
small gift from every reader would keep us free of advertising.</div><h1 id="firstHeading">
{escape(source.title)}</h1><div id="siteSub">From the open encyclopedia</div>
<div class="mw-jump">Jump to navigation, search</div>
<table class="infobox"><tr><th>Founded</th><td>1874</td></tr>
<tr><th>Area</th><td>12 km²</td></tr></table>
{linked}<div class="catlinks">Categories: {_links(draw, 5, "<a href='#'>{0}</a> | ")}</div></div>
<div id="mw-panel"><h3>Navigation</h3><ul>{_links(draw, 8)}</ul><h3>Tools</h3><ul>{_links(draw, 9)}
</ul></div><div id="footer"><ul><li>This page was last edited on 2 May, at 11:20.</li><li>Text is
available under a free licence; additional terms may apply.</li></ul></div></body>""",
        source.text + "\nFounded 1874\nArea 12 km²",
    )


def recipe(source: Source, draw: random.Random) -> tuple[str, str]:
    """Content in lists: short items, then sentences, under links that are lists as well."""
    short = [" ".join(text.split()[:4]) for text in source.paragraphs]
    steps = [text for paragraph in source.paragraphs for text in paragraph.split(". ")]
    return (
        f"""<body><header><nav><ul>{_links(draw, 8)}</ul></nav></header><div class="content">
<h1>{escape(source.title)}</h1><h2>Ingredients</h2><ul>{_tags("li", short)}</ul>
<h2>Steps</h2><ol>{_tags("li", steps)}</ol></div><div class="sidebar"><h3>More</h3><ul>
{_teasers(draw, 5, "<li><a href='#'>{}</a></li>")}</ul></div>
<footer><ul>{_links(draw, 8)}</ul><p>{FOOT}</p></footer></body>""",
        "\n".join(["Ingredients", *short, "Steps", *steps]),
    )


def bare(source: Source, draw: random.Random) -> tuple[str, str]:
    """All content, without any element: nothing may be lost."""
    return f"<body>{escape(source.text)}</body>", source.text


def preformatted(source: Source, draw: random.Random) -> tuple[str, str]:
    """All content, as a text file put on the web."""
    return f"<body><pre>{escape(source.text)}</pre></body>", source.text


def bare_divs(source: Source, draw: random.Random) -> tuple[str, str]:
    """All content, in short lines that are one div each."""
    lines = [" ".join(chunk) for text in source.paragraphs for chunk in _chunks(text.split(), 8)]
    return f"<body>{_tags('div', lines)}</body>", source.text


def _chunks(words: list[str], size: int) -> list[list[str]]:
    return [words[start : start + size] for start in range(0, len(words), size)]


WITH_BOILERPLATE: tuple[Callable[[Source, random.Random], tuple[str, str]], ...] = (
    blog,
    documentation,
    shop,
    news,
    forum,
    table_layout,
    short_answer,
    questions,
    encyclopedia,
    recipe,
)
ALL_CONTENT = (bare, preformatted, bare_divs)


def make_page(
    template: Callable[[Source, random.Random], tuple[str, str]], source: Source, seed: int
) -> Page:
    """A page of one kind around a text."""
    body, content = template(source, random.Random(seed))
    title = escape(source.title)
    page = f"<!DOCTYPE html><html lang='en'><head><title>{title}</title></head>\n{body}</html>"
    return Page(template.__name__, page, source.title, content)
