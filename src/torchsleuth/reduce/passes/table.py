"""The table of passes, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torchsleuth.case.model import Case
from torchsleuth.reduce.passes import arguments, inputs, numbers, outputs, shapes, surroundings

Propose = Callable[[Case], Iterator[Case]]


@dataclass(frozen=True)
class Pass:
    name: str
    does: str
    propose: Propose


PASSES = (
    Pass("surroundings", "configs, environment, switches, modes and options back to default", surroundings.propose),
    Pass("gradients", "requires_grad off", inputs.without_gradients),
    Pass("roles", "parameters and buffers become plain arguments", inputs.plain_arguments),
    Pass("static", "dynamic dimensions become static", inputs.static),
    Pass("shapes", "sizes become 2, and constants that equal them", shapes.propose),
    Pass("layout", "strided, aliasing and flagged inputs become plain", inputs.contiguous),
    Pass("dtypes", "floating dtypes become float32", inputs.float32),
    Pass("shared inputs", "two inputs that look alike become one", inputs.shared),
    Pass("outputs", "one output where several are", outputs.propose),
    Pass("one result", "one of the values compared with eager where several are", numbers.one_result),
    Pass("tangents", "a backward that begins with ones", numbers.plain_tangents),
    Pass("values", "inputs of ones, zeros or counted numbers", numbers.made_inputs),
    Pass("arguments", "keyword arguments and constants to their defaults", arguments.propose),
)
