"""Cells of CSV files that no spreadsheet takes for a formula (CWE-1236). Pure."""

from __future__ import annotations

from typing import Final

FORMULA_STARTS: Final = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "|",
    "%",
    *"\uff1d\uff0b\uff0d\uff20",
)
"""The last four are the full-width forms, which are formulas to spreadsheets of East Asia."""
SKIPPED: Final = " \u00a0\ufeff"
"""What spreadsheets leave out before they look for a formula."""


def harmless(cell: str) -> str:
    """The cell, with a `'` in front when a spreadsheet could take it for a formula."""
    return f"'{cell}" if cell.lstrip(SKIPPED).startswith(FORMULA_STARTS) else cell
