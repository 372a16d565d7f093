"""The table of passes, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torchsleuth.case.model import Case
from torchsleuth.reduce.passes import (
    arguments,
    block_masks,
    constants,
    device,
    dynamic,
    forward_only,
    in_place,
    inputs,
    names,
    numbers,
    operands,
    operators,
    outputs,
    rank,
    shapes,
    shared_memory,
    surroundings,
)

Propose = Callable[[Case], Iterator[Case]]


@dataclass(frozen=True)
class Pass:
    name: str
    does: str
    propose: Propose
    bold: bool = True  # its first proposal usually still fails: worth judging together with those of others
    resizes: bool = False  # not for graphs that call kernels of the user's, which trust the sizes they are told


PASSES = (
    Pass("surroundings", "configs, environment, switches, modes and options to default", surroundings.propose, False),
    Pass("device", "everything on the CPU", device.propose, False),
    Pass("forward", "the forward alone instead of forward and backward", forward_only.propose, False),
    Pass("gradients", "requires_grad off", inputs.without_gradients),
    Pass("roles", "parameters and buffers become plain arguments", inputs.plain_arguments),
    Pass("static", "dynamic dimensions become static", dynamic.propose, False),
    Pass("block masks", "flex_attention with one block for everything", block_masks.propose, False),
    Pass("shapes", "sizes become 2, and constants that equal them", shapes.propose, resizes=True),
    Pass("layout", "strided, aliasing and flagged inputs become plain", inputs.contiguous),
    Pass("shared memory", "inputs that share memory become smaller in it", shared_memory.propose, False, resizes=True),
    Pass("dtypes", "floating dtypes become float32", inputs.float32, False),
    Pass("shared inputs", "two inputs that look alike become one", inputs.shared),
    Pass("outputs", "one output where several are", outputs.propose),
    Pass("operands", "higher-order operators without operands that no body reads", operands.propose),
    Pass("one result", "one of the values compared with eager where several are", numbers.one_result, False),
    Pass("tangents", "a backward that begins with ones", numbers.plain_tangents),
    Pass("in-place", "operators give a new value instead of changing one", in_place.propose, False),
    Pass("names", "ATen operators by their public names", names.propose),
    Pass("arguments", "keyword arguments and trailing constants to their defaults", arguments.propose),
    Pass("constants", "numbers become 1 or 0", constants.propose),
    Pass("rank", "fewer dimensions", rank.propose, False, resizes=True),
    Pass("operators", "one operator or region fewer", operators.propose, False),
    Pass("values", "inputs of ones, zeros or counted numbers", numbers.made_inputs, False),
)
