"""What each run of a check is given: copies of the model and its inputs, as a whole, and what it closes over, lent."""

from __future__ import annotations

import contextlib
import copy
import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.library.closed_over import closed_over
from torchsleuth.library.held import Leaf, Tree, explored, leaves
from torchsleuth.library.lending import Lent, is_plain
from torchsleuth.referee import arrays
from torchsleuth.referee.graph import copies

_CONTAINERS = (dict, list, tuple, set, frozenset, deque)


@dataclass(frozen=True)
class Call:
    """A model and what it is called with."""

    model: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    @property
    def named(self) -> dict[str, Any]:
        return {"model": self.model, **self.inputs}

    @property
    def inputs(self) -> dict[str, Any]:
        return {**{f"args[{i}]": v for i, v in enumerate(self.args)}, **self.kwargs}

    def of_inputs(self) -> Iterator[Leaf]:
        for name, value in self.inputs.items():
            yield from leaves(value, name)

    def of_model(self) -> Iterator[Leaf]:
        owner = self.model.__self__ if isinstance(self.model, types.MethodType) else self.model
        for leaf in leaves(owner, ""):
            if isinstance(leaf.value, torch.Tensor):
                yield replace(leaf, path=leaf.path.removeprefix("."))


@dataclass(frozen=True)
class Given:
    """What a check was called with, none of which a run may change."""

    call: Call
    tree: Tree  # of what is copied
    whole: frozenset[int]  # of that, what belongs to modules, which are copied with all they have
    lent: Lent

    @staticmethod
    def of(call: Call) -> Given:
        tree = explored(call.named.values())
        modules = [v for v in tree.objects.values() if isinstance(v, torch.nn.Module)]
        given = Given(call, tree, frozenset(explored(modules).objects), Lent.of({}))
        unwilling = {name: value for name, value in call.named.items() if not given._can_be_copied(value)}
        return replace(given, lent=Lent.of({**closed_over(call.model), **unwilling}))

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [*self.tree.tensors, *self.lent.tensors]

    @contextlib.contextmanager
    def for_a_run(self) -> Iterator[Call]:
        copied = [t for t in self.tree.tensors if id(t) not in self.lent.objects and is_plain(t)]
        copied += [t for t in self.lent.tensors if id(t) in self.lent.copied]
        # All in one: what shares memory with what is closed over does so in the run, too.
        fresh = {id(t): c for t, c in zip(copied, copies(copied), strict=True)}
        with self.lent.with_own(fresh):
            yield self._copied(fresh)

    def _copied(self, fresh: Mapping[int, torch.Tensor]) -> Call:
        memo = self._memo(fresh)
        with torch_api.modes_off():
            call = Call(
                copy.deepcopy(self.call.model, memo),
                [copy.deepcopy(value, memo) for value in self.call.args],
                {name: copy.deepcopy(value, memo) for name, value in self.call.kwargs.items()},
            )
        for leaf in (*call.of_inputs(), *call.of_model()):
            if isinstance(leaf.value, torch.Tensor) and leaf.value.is_leaf and id(leaf.value) not in self.lent.objects:
                leaf.value.grad = None  # copy.deepcopy copies it
        return call

    def _memo(self, fresh: Mapping[int, torch.Tensor]) -> dict[int, Any]:
        """What copy.deepcopy is told beforehand: what is lent stays itself, and tensors share memory as they do."""
        memo = dict(self.lent.objects)
        with torch_api.modes_off():
            for place, value in self.tree.objects.items():
                if place not in memo and (own := self._own(place, value, fresh)) is not None:
                    memo[place] = own
        return memo

    def _can_be_copied(self, value: Any) -> bool:
        """Tried without the tensors: a class of the user's may raise whatever it likes."""
        try:
            copy.deepcopy(value, self._memo({id(t): t for t in self.tree.tensors}))
        except Exception:
            return False
        return True

    def _own(self, place: int, value: Any, fresh: Mapping[int, torch.Tensor]) -> Any:
        """What a run is given in its place; None where copy.deepcopy finds that."""
        if isinstance(value, torch.Tensor):
            return _own_tensor(value, fresh.get(place))
        if isinstance(value, torch.Generator):
            return value.clone_state()
        if isinstance(value, types.ModuleType):
            return value
        if arrays.is_array(value):
            return None
        # Configurations, locks, process groups: what holds no tensor is what it is, but for plain containers.
        stays = place not in self.tree.holders and place not in self.whole and not isinstance(value, _CONTAINERS)
        return value if stays else None


def _own_tensor(tensor: torch.Tensor, fresh: torch.Tensor | None) -> torch.Tensor | None:
    if fresh is not None and type(tensor) is torch.Tensor:
        vars(fresh).update(vars(tensor))  # that a size is dynamic, among what else it may be marked with
        return fresh
    if fresh is not None:
        return torch.nn.Parameter(fresh.detach(), requires_grad=tensor.requires_grad)
    if tensor.is_leaf and tensor.layout is torch.strided and not tensor.is_quantized:
        return None  # of a class that knows how it is copied
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
