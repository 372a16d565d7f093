"""report.html."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def explain_page(data: Mapping[str, Any]) -> str:
    return ""


def explain_fragment(data: Mapping[str, Any]) -> str:
    return ""
