"""Tables on their way into the PDF: the HTML that pandas writes, to Typst."""

import pandas as pd
from bs4 import BeautifulSoup
from report_tables import cells_of, lines_of, table


def parsed(html):
    return BeautifulSoup(html, "html.parser").table


def test_colours_of_a_styled_table_are_kept():
    styled = pd.DataFrame({"a": [1, 2]}).style.highlight_max(color="gold").set_properties(color="rgb(1, 2, 3)")
    code = table(parsed(styled.set_uuid("t").to_html()), None)
    assert code.count('fill: rgb("#ffd700")') == 1 and code.count("fill: rgb(1, 2, 3)") == 2


def test_a_cell_that_spans_rows_moves_those_below_to_the_right():
    index = pd.MultiIndex.from_product([["Encoder", "Decoder"], [0, 1]], names=["part", "layer"])
    cells = cells_of(parsed(pd.DataFrame({"drop": [0.1, 0.2, 0.3, 0.4]}, index=index).to_html()), None)
    tall = [cell for cell in cells if cell.text in ("Encoder", "Decoder")]
    assert [(cell.column, cell.rowspan) for cell in tall] == [(0, 2), (0, 2)]
    assert [cell.column for cell in cells if cell.text.startswith("0.")] == [2, 2, 2, 2]


def test_names_of_the_index_stand_in_the_row_of_the_columns():
    frame = pd.DataFrame({"accuracy": [1.0]}, index=pd.Index(["learned"], name="encoding"))
    code = table(parsed(frame.to_html()), None)
    assert "columns: 2" in code and code.count("table.header(") == 1
    header = code.split("table.header(")[1].split("table.hline")[0]
    assert header.count("table.cell(") == 2 and '#"encoding"' in header and '#"accuracy"' in header


def test_long_texts_are_broken_before_their_brackets():
    assert lines_of("accuracy (mean of ten seeds)", 20) == ["accuracy", "(mean of ten seeds)"]
    assert lines_of("accuracy", 4) == ["accuracy"] and lines_of("", 4) == [""]
