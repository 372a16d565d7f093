"""Variables that carried source reads are known by name; secrets are not."""

from __future__ import annotations

import pytest

from torchsleuth.case.environment_read import read_by

SET = {"FAULT": "wrong", "OTHER": "1", "HF_TOKEN": "abc", "LONG": "x" * 1000}


@pytest.mark.parametrize(
    "source",
    [
        'import os\nif os.environ["FAULT"] == "wrong": pass',
        'from os import environ\nx = environ.get("FAULT", "none")',
        'import os\nx = os.getenv("FAULT")',
        'from os import getenv\nx = getenv("FAULT", "")',
        'import os\nx = "FAULT" in os.environ',
    ],
)
def test_each_way_to_read_one(source: str) -> None:
    assert read_by([source], SET) == {"FAULT": "wrong"}


def test_what_is_not_set_secret_or_long_is_left_out() -> None:
    sources = ["os.getenv(name)", *(f'os.getenv("{name}")' for name in ("UNSET", "HF_TOKEN", "LONG"))]
    assert read_by(sources, SET) == {}


def test_other_dictionaries_and_what_is_no_python_say_nothing() -> None:
    assert read_by(['d["FAULT"]; d.get("OTHER")', "def ("], SET) == {}
