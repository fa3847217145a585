"""Tables of a notebook on their way into the PDF: the HTML that pandas writes, with its spans and colours, to Typst."""

import re
import textwrap
from dataclasses import dataclass, field

from bs4 import Tag
from matplotlib.colors import is_color_like, to_hex
from report_text import markdown, numbered, string, to_typst

LINE_BREAKS = (  # so many characters in a row at most: if there are more, break headers, labels, numbers after so many
    (112, 99, 99, 99),
    (112, 14, 99, 99),
    (112, 14, 40, 32),
    (140, 14, 40, 20),  # the letters of the table shrink to hold them
    (140, 12, 24, 14),
    (999, 10, 16, 10),
)


@dataclass
class Cell:
    text: str
    column: int
    colspan: int
    rowspan: int
    in_header: bool
    is_label: bool  # of a column or of a row
    style: dict[str, str]
    lines: list[str] = field(default_factory=list)


def table(html: Tag, chapter: int | None) -> str:
    """An HTML table as a Typst table that fits the page and repeats its header on the next one."""
    move_index_names_up(html)
    cells = cells_of(html, chapter)
    break_lines(cells)
    header = ", ".join(typst_cell(cell, cells) for cell in cells if cell.in_header)
    body = ", ".join(typst_cell(cell, cells) for cell in cells if not cell.in_header)
    columns = max(cell.column + cell.colspan for cell in cells)
    rule = "table.hline(stroke: 0.6pt)"
    return f"fitted(table(columns: {columns}, {rule}, table.header({header}), {rule}, {body}, {rule}))"


def move_index_names_up(html: Tag) -> None:
    """pandas writes the names of the index in a row of their own; if the row above has room, they move there."""
    rows = html.select("thead tr")
    above, names = (row.find_all("th") for row in rows[-2:]) if len(rows) > 1 else ([], [])
    texts = [[cell.get_text(strip=True) for cell in row] for row in (above, names)]
    if names and len(above) == len(names) and not any(upper and lower for upper, lower in zip(*texts, strict=True)):
        for cell, upper, lower in zip(above, *texts, strict=True):
            cell.string = upper or lower
        rows[-1].decompose()


def cells_of(html: Tag, chapter: int | None) -> list[Cell]:
    """All cells in reading order; a cell that spans rows moves the cells of the rows below to the right."""
    cells: list[Cell] = []
    taken: set[tuple[int, int]] = set()
    styles = styles_by_id(html)
    for row, line in enumerate(html.find_all("tr")):
        column = 0
        for tag in line.find_all(["th", "td"]):
            while (row, column) in taken:
                column += 1
            colspan, rowspan = (int(attribute(tag, name, "1")) for name in ("colspan", "rowspan"))
            taken |= {(row + down, column + right) for down in range(rowspan) for right in range(colspan)}
            text = numbered(tag.get_text(" ", strip=True), chapter)
            style = styles.get(attribute(tag, "id"), {}) | declarations(attribute(tag, "style"))
            in_header = line.find_parent("thead") is not None
            cells.append(Cell(text, column, colspan, rowspan, in_header, tag.name == "th", style))
    return cells


def attribute(tag: Tag, name: str, otherwise: str = "") -> str:
    return str(tag.get(name, otherwise))


def styles_by_id(html: Tag) -> dict[str, dict[str, str]]:
    """What a pandas Styler says about single cells."""
    sheet = "".join(style.get_text() for style in html.find_all_previous("style"))
    styles: dict[str, dict[str, str]] = {}
    for selectors, style in re.findall(r"([^{}]+)\{([^{}]*)\}", sheet):
        for name in re.findall(r"#([\w-]+)\s*(?:,|$)", selectors.strip()):
            styles[name] = styles.get(name, {}) | declarations(style)
    return styles


def declarations(style: str) -> dict[str, str]:
    return {name.strip(): value.strip() for name, _, value in (part.partition(":") for part in style.split(";"))}


def break_lines(cells: list[Cell]) -> None:
    """Break the texts into lines, as little as lets a row fit the page."""
    for in_a_row, in_header, in_label, in_body in LINE_BREAKS:
        widths: dict[int, int] = {}
        for cell in cells:
            cell.lines = lines_of(cell.text, in_header if cell.in_header else in_label if cell.is_label else in_body)
            if cell.colspan == 1:
                widths[cell.column] = max(widths.get(cell.column, 0), *map(len, cell.lines))
        if sum(widths.values()) + 2 * len(widths) <= in_a_row:
            break


def lines_of(text: str, width: int) -> list[str]:
    """A long text is broken before its brackets, and between words where that is not enough."""
    parts = [text] if len(text) <= width else re.split(r" (?=\()", text)
    wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False).wrap
    return [line for part in parts for line in wrap(part)] or [""]


def typst_cell(cell: Cell, cells: list[Cell]) -> str:
    column = [other for other in cells if other.column == cell.column and not other.in_header]
    numeric = all(re.match(r"-?\d|nan$|$", other.text) and not other.is_label for other in column)
    across = "center" if cell.colspan > 1 else "right" if numeric else "left"
    options = [f"align: {across} + {'bottom' if cell.in_header else 'top'}"]
    options += [f"colspan: {cell.colspan}", f"rowspan: {cell.rowspan}"]
    options += [f"fill: {colour}" for colour in typst_colour(cell.style.get("background-color", ""))]
    letters = [f"fill: {colour}" for colour in typst_colour(cell.style.get("color", ""))]
    if cell.in_header or cell.style.get("font-weight") == "bold":
        letters.append('weight: "bold"')
    if re.search(r"\$[^$]+\$", cell.text):
        words = to_typst(markdown(cell.text, None)).strip()
    else:
        words = r" \ ".join(f"#{string(line)}" for line in cell.lines)
    return f"table.cell({', '.join(options)}, text({', '.join([*letters, f'[{words}]'])}))"


def typst_colour(colour: str) -> list[str]:
    """`#ffcc00`, `rgb(255, 204, 0)` or `gold` as Typst; nothing for a colour that only a browser knows."""
    if parts := re.match(r"rgba?\((\d+), *(\d+), *(\d+)", colour):
        return [f"rgb({', '.join(parts.groups())})"]
    return [f'rgb("{to_hex(colour)}")'] if is_color_like(colour) else []
