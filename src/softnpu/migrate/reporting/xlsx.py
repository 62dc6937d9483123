"""A worksheet as .xlsx: a table with a bold first line, written with zipfile alone."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_MAX_TEXT = 32767  # what a cell may hold

_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_SHEET}.sheet.main+xml"/>'
    f'<Override PartName="/xl/styles.xml" ContentType="{_SHEET}.styles+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_SHEET}.worksheet+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="rId1" Type="{_DOCUMENT}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="rId1" Type="{_DOCUMENT}/worksheet" Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="rId2" Type="{_DOCUMENT}/styles" Target="styles.xml"/></Relationships>',
    "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><fonts count="2"><font><sz val="11"/><name val="Calibri"/></font>'
    '<font><b/><sz val="11"/><name val="Calibri"/></font></fonts><fills count="1"><fill><patternFill patternType="none"/>'
    '</fill></fills><borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>'
    '<cellXfs count="2"><xf/><xf fontId="1" applyFont="1"/></cellXfs></styleSheet>',
}


def write_xlsx(path: Path, title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table; whole numbers become numbers, everything else text."""
    workbook = (
        f'<workbook xmlns="{_MAIN}" xmlns:r="{_DOCUMENT}"><sheets>'
        f'<sheet name="{_clean(title)[:31]}" sheetId="1" r:id="rId1"/></sheets></workbook>'
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**_PARTS, "xl/workbook.xml": workbook}.items():
            archive.writestr(name, _HEAD + content)
        archive.writestr("xl/worksheets/sheet1.xml", "".join(_sheet(header, rows)))


def _sheet(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    widths = "".join(
        f'<col min="{number}" max="{number}" width="{max(12, min(60, 4 * len(name)))}" customWidth="1"/>'
        for number, name in enumerate(header, 1)
    )
    yield (
        f'{_HEAD}<worksheet xmlns="{_MAIN}"><sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" '
        f'activePane="bottomLeft" state="frozen"/></sheetView></sheetViews><cols>{widths}</cols><sheetData>'
    )
    yield _row(1, header, ' s="1"')
    for number, row in enumerate(rows, 2):
        yield _row(number, row, "")
    yield "</sheetData></worksheet>"


def _row(number: int, values: Sequence[object], style: str) -> str:
    cells = []
    for column, value in enumerate(values):
        name = f"{chr(ord('A') + column)}{number}"
        if isinstance(value, int):
            cells.append(f'<c r="{name}"{style}><v>{value}</v></c>')
        else:
            text = f'<is><t xml:space="preserve">{_clean(str(value))}</t></is>'
            cells.append(f'<c r="{name}"{style} t="inlineStr">{text}</c>')
    return f'<row r="{number}">{"".join(cells)}</row>'


def _clean(text: str) -> str:
    return escape(_FORBIDDEN.sub("?", text)[:_MAX_TEXT], {'"': "&quot;"})
