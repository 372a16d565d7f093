"""The referee, which judges while a Case is reduced, and the assertion of the finished script say the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torchsleuth.case.failure import Phase, of_assertion
from torchsleuth.referee import structure
from torchsleuth.referee.referee import referee
from torchsleuth.referee.values import flatten

NAN, INF = float("nan"), float("inf")


def tensor(*values: Any) -> torch.Tensor:
    return torch.tensor(values)


PAIRS: list[tuple[Any, Any, str]] = [
    # eager, compiled, how they differ
    (tensor(1.0, NAN), tensor(1.0, NAN), ""),
    (tensor(1.0, NAN), tensor(1.0, 2.0), "nan"),
    (tensor(1.0, 2.0), tensor(1.0, NAN), "nan"),
    (tensor(1.0, NAN), tensor(3.0, NAN), "values"),
    (tensor(1.0, NAN), tensor(3.0, 2.0), "nan"),
    (tensor(INF, 1.0), tensor(INF, 1.0), ""),
    (tensor(INF, 1.0), tensor(NAN, 1.0), "nan"),
    (tensor(1 + 1j, complex(NAN, 1)), tensor(1 + 1j, complex(NAN, 1)), ""),
    (tensor(1 + 1j, complex(NAN, 1)), tensor(1 + 1j, 1 + 1j), "nan"),
    (NAN, NAN, ""),
    (NAN, 3.0, "nan"),
    (3.0, NAN, "nan"),
    (3.0, 4.0, "values"),
    (complex(NAN, 0), complex(NAN, 0), ""),
    (complex(NAN, 0), 1 + 0j, "nan"),
    (tensor(1.0, INF), tensor(1.0, 2.0), "nan"),
    (tensor(1.0, INF), tensor(1.0, -INF), "nan"),
    (INF, 3.0, "nan"),
    (INF, -INF, "nan"),
    (INF, INF, ""),
    ((tensor(1.0), NAN), (tensor(1.0), 3.0), "nan"),
    ({"a": [NAN]}, {"a": [NAN]}, ""),
    (tensor(1.0), tensor(1.0).double(), "dtype"),
    (tensor(1.0), tensor(1.0, 1.0), "shape"),
    ([tensor(1.0)], [tensor(1.0), tensor(1.0)], "type"),
    ({"a": tensor(1.0)}, {"b": tensor(1.0)}, "type"),
]


def by_referee(eager: Any, compiled: Any) -> str:
    report = referee(lambda: list(flatten(eager, "out")), lambda: list(flatten(compiled, "out")))
    assert not report.excused
    return report.how if report.wrong else ""


def by_assertion(eager: Any, compiled: Any) -> str:
    try:
        torch.testing.assert_close(compiled, eager, equal_nan=True)
    except AssertionError as error:
        return of_assertion(error, Phase.RUN_FORWARD).fingerprint.message
    return ""


@pytest.mark.parametrize(("eager", "compiled", "how"), PAIRS)
def test_both_say_how_two_results_differ(eager: Any, compiled: Any, how: str) -> None:
    assert by_referee(eager, compiled) == how
    assert by_assertion(eager, compiled) == how


def test_an_infinity_against_a_value_counts_without_a_float64_reference() -> None:
    def bits(value: float) -> list[Any]:
        return list(flatten(torch.tensor([1.0]).view(torch.int32).float() * 0 + value, "out"))

    report = referee(lambda: bits(INF), lambda: bits(3.0))
    assert "no float64 reference" in report.notes[0]
    assert [d.how for d in report.wrong] == ["nan"]
    assert not referee(lambda: bits(INF), lambda: bits(INF)).wrong
    assert not referee(lambda: bits(INF), lambda: bits(torch.finfo(torch.float32).max)).wrong


def test_nans_of_eager_are_told_also_where_strides_alone_are_wrong() -> None:
    """The script's assertion needs equal_nan for them: it would fail with compilation switched off."""
    values = torch.tensor([[1.0, NAN], [2.0, 3.0]])
    report = referee(
        lambda: list(flatten(values, "out")), lambda: list(flatten(values.t().contiguous().t(), "out")), strides=True
    )
    assert report.how == "stride"
    assert report.nans


def test_a_mark_that_torch_puts_on_a_tensor_is_no_difference() -> None:
    """nn.Buffer sets `persistent`; the copy that eager is given has no such attribute."""
    marked = torch.ones(2)
    marked.persistent = False  # type: ignore[attr-defined]
    assert [item.path for item in structure.walk(marked, "x")] == ["x"]
