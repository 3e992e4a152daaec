"""The colours of pages: text is readable on what it stands on, in light and in dark."""

from __future__ import annotations

import re
from importlib import resources

import pytest

MIN_CONTRAST = 4.5
"""WCAG 2.2, success criterion 1.4.3, level AA, text of normal size."""


def themes() -> list[dict[str, str]]:
    """The colours by name, in light and in dark."""
    style = resources.files("tamis.pages").joinpath("templates/chart.css").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", style, re.S)
    colours = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", part)) for part in (light, dark)]
    return [colours[0], colours[0] | colours[1]]


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("theme", themes(), ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "raised"])
@pytest.mark.parametrize("text", ["ink", "soft", "better", "worse", "even"])
def test_text_is_readable(theme: dict[str, str], ground: str, text: str) -> None:
    assert contrast(theme[text], theme[ground]) >= MIN_CONTRAST


@pytest.mark.parametrize("theme", themes(), ids=["light", "dark"])
def test_a_grade_is_readable_in_its_box(theme: dict[str, str]) -> None:
    assert contrast(theme["paper"], theme["better"]) >= MIN_CONTRAST
