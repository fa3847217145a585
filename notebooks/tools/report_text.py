"""Words of a notebook on their way into the PDF: numbers of figures by chapter, Markdown to Typst."""

import json
import re
from pathlib import Path

import pypandoc

NOTEBOOKS = sorted(Path(__file__).resolve().parents[1].glob("*.ipynb"))  # their order is that of the chapters
MARKDOWN = "gfm+raw_attribute-gfm_auto_identifiers"  # what Jupyter shows, and pieces of Typst

NUMBER = r"\d+(?!\.?\d)"  # not the 1 of "Figure 1.10"
RANGE = rf"{NUMBER}(?:(?: to |\u2013){NUMBER})?"
RANGES = rf"{RANGE}(?:(?:, {RANGE})*,? (?:and|or) {RANGE})?"
REFERENCE = re.compile(
    r"(?:\bproblem (?P<chapter_before>\d)(?:'s|,)? )?"
    rf"\b(?:(?:figure|table|section) {NUMBER}|(?:figures|tables|sections) {RANGES})"
    r"(?: (?:of|in) problem (?P<chapter_after>\d))?",
    re.IGNORECASE,
)

TAGS = {"<br>": "#linebreak()", "<sub>": "#sub[", "</sub>": "]", "<sup>": "#super[", "</sup>": "]"}  # pandoc drops them


def chapter_of(stem: str, otherwise: int) -> int:
    """The number of a notebook's chapter: its place among all notebooks, whichever of them are printed."""
    stems = [path.stem for path in NOTEBOOKS]
    return stems.index(stem) + 1 if stem in stems else otherwise


def numbered(text: str, chapter: int | None) -> str:
    """Each notebook counts from 1, so in a book its "Figure 10" becomes "Figure 1.10"; tables and sections, too.

    "Problem 1, Figure 10" and "Figure 10 of problem 1" keep that number in every chapter.
    """

    def with_chapter(match: re.Match[str]) -> str:
        of = match["chapter_before"] or match["chapter_after"] or chapter
        return re.sub(rf"(?<!problem ){NUMBER}", rf"{of}.\g<0>", match[0], flags=re.IGNORECASE)

    return REFERENCE.sub(with_chapter, text) if chapter else text


def mathematics(match: re.Match[str]) -> str:
    """pandoc sets the letters of \\mathrm{word} one by one, and has a wrong idea of \\! and \\;"""
    words = re.sub(r"\\mathrm\{([A-Za-z]+)\}", r"\\text{\1}", match[0])
    return words.replace(r"\!", "").replace(r"\;", r"\ ")


def markdown(text: str, chapter: int | None) -> str:
    """A Markdown cell or output as pandoc should read it."""
    text = re.sub(r"(?<!\$)(\\begin\{(equation|align|gather)\*?\}.*?\\end\{\2\*?\})(?!\$)", r"$$\1$$", text, flags=re.S)
    text = re.sub(r"\$\$.+?\$\$|(?<![\\$])\$[^$]+\$", mathematics, text, flags=re.S)
    text = re.sub(  # a link to another chapter
        r"(?<!!)\[([^\]]+)\]\([^)]*?(\w+)\.ipynb[^)]*\)",
        lambda link: numbered(link[1], chapter and chapter_of(link[2], chapter)),
        text,
    )
    text = re.sub(r"(?<!!)\[([^\]]+)\]\(#[^)]*\)", r"\1", text)  # a link within a notebook leads nowhere on paper
    for tag, typst in TAGS.items():
        text = text.replace(tag, f"`{typst}`{{=typst}}")
    if chapter:
        text = re.sub(r"^(##+) (\d+)\. ", rf"\1 {chapter}.\2 ", text, flags=re.M)
    return numbered(text, chapter)


def to_typst(text: str, source: str = MARKDOWN) -> str:
    return pypandoc.convert_text(text, "typst", source, ["--syntax-highlighting=idiomatic", "--wrap=none"])


def raw(typst: str) -> str:
    """Typst in Markdown, which pandoc passes on as it is."""
    return f"````{{=typst}}\n{typst}\n````"


def string(text: str) -> str:
    """A Typst string: nothing in it is markup."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\t", "    ")
    return json.dumps("".join(c for c in text if c.isprintable() or c == "\n"), ensure_ascii=False)
