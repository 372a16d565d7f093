"""The Case: one graph with all that is needed to run it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from torchsleuth.case.failure import Failure, Phase
from torchsleuth.case.ir import Graph

SCHEMA = 1


class Level(str, Enum):
    """Where the graph was taken."""

    DYNAMO = "dynamo"  # as Dynamo hands it to the backend: torch functions
    ATEN = "aten"  # as AOTAutograd hands it to Inductor: ATen operators


class Role(str, Enum):
    """What a tensor was in the program; parameters and buffers compile differently from arguments."""

    ARGUMENT = "argument"
    PARAMETER = "parameter"
    BUFFER = "buffer"


@dataclass(frozen=True)
class Tensor:
    """A tensor by what it looks like; its bytes, if they were kept, are those of its storage."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0  # in elements, from the start of what was kept of the storage
    device: str = "cpu"
    storage: int = 0  # tensors with the same number share memory
    requires_grad: bool = False
    leaf: bool = True
    role: Role = Role.ARGUMENT
    flags: tuple[str, ...] = ()  # conj, neg, zero: bits that no bytes hold
    low: int | float | None = None  # range of the values, where it was looked at
    high: int | float | None = None
    source: str = ""  # how the frame reached it
    dynamic: tuple[int, ...] = ()  # dimensions that were symbolic
    fill: str = ""  # what it is made of where its bytes are not used: "", ones, zeros, arange, nan, literal
    literal: tuple[int | float | bool, ...] = ()  # its elements, where `fill` says so
    unknown: str = ""  # not a plain strided tensor: what it was
    distinct: bool = False  # a row of integers, none of them twice: as places to write to they are in no order
    nans: bool = False  # some of it is

    def of_nans(self) -> Tensor:
        """Made of what matters of it where a nan was lost."""
        return replace(self, fill="nan") if self.nans and not self.fill else self


@dataclass(frozen=True)
class Scalar:
    """A number that the graph takes as an input."""

    value: int | float | bool
    symbol: str = ""
    source: str = ""
    as_tensor: bool = False  # Dynamo passes a Python float as a 0-d tensor


@dataclass(frozen=True)
class Opaque:
    """An input that cannot be kept."""

    what: str
    source: str = ""


Input = Tensor | Scalar | Opaque


@dataclass(frozen=True)
class Storage:
    """Memory that one or more tensors look into."""

    nbytes: int
    kept: bool = False
    digest: str = ""  # of the bytes, where they were too many to keep


@dataclass(frozen=True)
class Code:
    """A piece of the user's own source that a Case needs: a backend, an operator, a kernel."""

    what: str  # "backend", "operator mylib::foo"
    name: str  # the expression that is it, once the source has run
    source: str = ""
    imports: tuple[str, ...] = ()
    stands_alone: bool = True
    why_not: str = ""

    @property
    def is_users(self) -> bool:
        """Whether it came from the program: a step that locates adds code of its own."""
        return self.what not in ("switchboard", "workaround")


@dataclass(frozen=True)
class Backend:
    name: str = "inductor"
    registered: bool = True  # torch knows it by this name; otherwise `code` says how to get it
    options: Mapping[str, Any] = field(default_factory=dict)
    mode: str | None = None
    code: Code | None = None

    @property
    def tunes(self) -> bool:
        """Whether kernels are compiled in many versions and timed: it may honestly take minutes."""
        return "max-autotune" in (self.mode or "") or any("max_autotune" in k and v for k, v in self.options.items())

    @property
    def runs_eagers_kernels(self) -> bool:
        """Whether it computes as eager does, operator by operator: then it may differ by next to nothing."""
        return self.registered and self.name in ("eager", "aot_eager", "sleuth_eager", "sleuth_aot")


@dataclass(frozen=True)
class Autocast:
    device: str
    dtype: str
    cache: bool = True


@dataclass(frozen=True)
class Surroundings:
    """What else the compilation depended on."""

    backend: Backend = Backend()
    dynamic: bool | None = None
    grad: bool = True
    inference: bool = False
    autocast: tuple[Autocast, ...] = ()
    configs: tuple[tuple[str, str, Any], ...] = ()  # module, entry, value: those that differ from the default
    environment: Mapping[str, str] = field(default_factory=dict)
    switches: Mapping[str, Any] = field(default_factory=dict)  # default_dtype, deterministic, matmul_precision, threads
    code: tuple[Code, ...] = ()
    unknown: tuple[str, ...] = ()  # what could not be kept, by name
    cache_hit: bool = False


@dataclass(frozen=True)
class Check:
    """Of a failure that nobody raises: what is compared with eager after the call, and how."""

    only: tuple[str, ...] = ()  # "out", "out[1]", "x", "x.grad"; nothing: all that a caller can see
    tangents: str = "varied"  # what the backward starts from: "ones", or "varied" from element to element
    rtol: float | None = None  # None: what torch.testing takes for the dtype
    atol: float | None = None
    nans: bool = True  # whether eager's results may hold any, which must then be called equal
    strides: bool = False  # of the results, too
    inputs: bool = False  # what is left in them, too, although the graph itself writes to none


@dataclass(frozen=True)
class Case:
    level: Level
    graph: Graph
    inputs: tuple[Input, ...]  # one a placeholder
    constants: tuple[Tensor, ...] = ()  # tensors that are attributes of the graph
    storages: tuple[Storage, ...] = ()
    surroundings: Surroundings = Surroundings()
    phase: Phase = Phase.COMPILE_FORWARD
    failure: Failure | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    compile_id: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)  # ATEN: kwargs of the inner compile, symbols, strides
    check: Check | None = None  # None: it fails by itself

    @property
    def wrong_gradients(self) -> bool:
        return self.check is not None and self.phase.backward

    @property
    def by_nans(self) -> bool:
        """Whether what is wrong is where nans are."""
        return self.check is not None and self.failure is not None and self.failure.fingerprint.message == "nan"

    @property
    def devices(self) -> frozenset[str]:
        tensors = [t for t in (*self.inputs, *self.constants) if isinstance(t, Tensor)]
        made = {n.value.device for g in self.graph.all_graphs() for n in g.nodes if n.value}
        return frozenset(d.split(":")[0] for d in {t.device for t in tensors} | made)

    @property
    def whole(self) -> bool:
        """Whether every value was kept."""
        return all(s.kept for s in self.storages)
