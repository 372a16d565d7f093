"""A graph inside a running program, refereed with the program's own inputs, none of which is touched."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.referee import upcast
from torchsleuth.referee.referee import Report, referee
from torchsleuth.referee.values import Seen, flatten, tensors_in

Function = Callable[..., Any]


def check_graph(
    eager: Function, compiled: Function, inputs: Sequence[Any], *, backward: bool, same_kernels: bool = False
) -> Report:
    """Outputs, what is left in inputs, and gradients where `backward` asks for them and there are any."""

    def run(function: Function) -> list[Seen]:
        return observe(function, inputs, backward=backward)

    with untouched_generators():
        return referee(lambda: run(eager), lambda: run(compiled), same_kernels=same_kernels)


@dataclass(frozen=True)
class Before:
    """What a call is given: copies of its inputs, and the states of the generators that it draws from."""

    inputs: list[Any]
    states: Sequence[torch.Tensor]

    @staticmethod
    def of(inputs: Sequence[Any]) -> Before:
        return Before(copies(inputs), [torch.get_rng_state(), *_on_devices()])

    def let_go(self, inputs: Sequence[Any]) -> None:
        """Copies of what the call left as it was: the program's own will do, as long as the call is looked at."""
        for family in _families(inputs):
            if all(_same_bits(self.inputs[i], inputs[i]) for i in family):
                for i in family:
                    self.inputs[i] = _like(inputs[i].detach(), inputs[i])

    def reset(self) -> None:
        torch.set_rng_state(self.states[0])
        if len(self.states) > 1:
            torch.cuda.set_rng_state_all(list(self.states[1:]))


def _on_devices() -> list[torch.Tensor]:
    return torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else []


def check_call(
    eager: Function,
    before: Before,
    outputs: Any,
    inputs: Sequence[Any],
    *,
    same_kernels: bool = False,
    strides: bool = False,
) -> Report:
    """A call that was made: what it gave, and what it left in its inputs."""
    got = list(flatten(outputs, "out", copied=False))
    for i, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            got += flatten(value, f"inputs[{i}]", copied=False)
    before.let_go(inputs)
    with untouched_generators():
        return referee(
            lambda: observe(eager, before.inputs, backward=False),
            lambda: got,
            reset=before.reset,
            same_kernels=same_kernels,
            strides=strides,
        )


def observe(function: Function, inputs: Sequence[Any], *, backward: bool) -> list[Seen]:
    given = _borrowed_or_copied(inputs)
    outputs = _with_copied_attributes(function)(*given)
    seen = list(flatten(outputs, "out"))
    if backward:
        run_backward(outputs)
    with torch_api.modes_off():  # one would make another dtype of what is only borrowed
        for i, value in enumerate(given):
            if isinstance(value, torch.Tensor):
                seen += flatten(value, f"inputs[{i}]", copied=False)
                if backward and value.requires_grad:
                    seen += flatten(value.grad, f"inputs[{i}].grad", copied=False)
    return seen


def _borrowed_or_copied(inputs: Sequence[Any]) -> list[Any]:
    borrower = upcast.borrower()
    if borrower is None:
        return copies(inputs)
    return [borrower.borrow(v) if isinstance(v, torch.Tensor) else v for v in inputs]


def _with_copied_attributes(function: Function) -> Function:
    """Of a graph that holds tensors itself (parameters, where they are frozen): run on copies of these, too.

    A float64 run needs them wide, and none may write to those of the program.
    """
    module = getattr(function, "__self__", None)
    if not isinstance(module, torch.fx.GraphModule):
        return function
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    if not held:
        return function
    own = dict(zip(held, copies(list(held.values())), strict=True))

    def run(*args: Any) -> Any:
        with torch_api.holding(module, own):  # torch.func.functional_call would print what the graph raises
            return function(*args)

    return run


def run_backward(outputs: Any, into: Sequence[torch.Tensor] | None = None) -> bool:
    """With weights that differ from element to element: a sum would hide what adds up to nothing.

    `into` which tensors gradients go; None: all that ask for one.  Returns whether there was anything to run.
    """
    ends = [o for o in tensors_in(outputs) if o.requires_grad]
    if not ends or (into is not None and not into):
        return False
    weights = [torch.linspace(0.5, 1.5, o.numel(), device=o.device).to(o.dtype).view(o.shape) for o in ends]
    with contextlib.ExitStack() as stack:
        for device in {o.device.type for o in ends}:
            # Programs leave autocast before they call backward().
            stack.enter_context(torch.autocast(device, enabled=False))
        torch.autograd.backward(ends, weights, inputs=into)
    return True


def copies(inputs: Sequence[Any]) -> list[Any]:
    """Fresh inputs that share memory among themselves as the given ones do."""
    found = list(inputs)
    for family in _families(inputs):
        with torch_api.modes_off():
            plain = [torch_api.without_lazy_bits(inputs[i].detach()) for i in family]
        for i, copy in zip(family, _copied(plain), strict=True):
            with torch_api.modes_off():
                marked = torch_api.with_lazy_bits_of(copy, inputs[i])
            found[i] = _like(marked, inputs[i])
    for i, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
            found[i] = _like(value.detach().clone(), value)
    return found


def _families(inputs: Sequence[Any]) -> list[list[int]]:
    """Places of those that share a memory."""
    found: dict[int, list[int]] = {}
    for i, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            found.setdefault(value.untyped_storage().data_ptr() or -i - 1, []).append(i)
    return list(found.values())


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape or one.stride() != other.stride():
        return False
    return torch.equal(_bits(one), _bits(other))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """As whole numbers: a nan equals no nan."""
    plain = torch_api.without_lazy_bits(tensor.detach())
    real = torch.view_as_real(plain) if plain.dtype.is_complex else plain
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return real.view(whole[real.element_size()])


def _copied(family: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    first = family[0]
    if len(family) == 1 and not _overlaps_itself(first):
        # A mode may make another dtype of it; it need not make a wide copy to copy from.
        fresh = torch.empty_strided(first.shape, first.stride(), dtype=first.dtype, device=first.device)
        with torch_api.modes_off():
            return [fresh.copy_(first)]
    size = min(t.element_size() for t in family)
    with torch_api.modes_off():  # one that made another dtype of a view would lose what the view looks into
        plain = next(t for t in family if t.element_size() == size)
        whole = torch.as_strided(plain, (plain.untyped_storage().nbytes() // size,), (1,), 0).clone()
    whole = whole.clone()
    return [
        (whole if t.dtype == plain.dtype else whole.view(t.dtype)).as_strided(t.shape, t.stride(), t.storage_offset())
        for t in family
    ]


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    return any(size > 1 and step == 0 for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def _like(copy: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    if given.requires_grad:
        copy = copy.requires_grad_()
        if not given.is_leaf:
            copy.retain_grad()
    return copy


@contextlib.contextmanager
def untouched_generators() -> Iterator[None]:
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() and torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=list(devices)):
        yield
