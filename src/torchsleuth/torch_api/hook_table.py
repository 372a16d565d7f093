"""HOOKS: every place of torch that torchsleuth replaces, sets or registers with, in one table.

Hooks are installed through the rows of this table (`attaching`), and `torchsleuth doctor` probes the same rows.  A row
that finds nothing in the installed torch is reported with what is lost, by doctor and by each run.

Standard library alone, and no import of this package: doctor runs this file in interpreters without torchsleuth.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Use(str, Enum):
    """The part of torchsleuth that needs a row."""

    RUN = "run"  # required: without it, failures are not seen
    NUMBERS = "comparing numbers"
    LOG = "--log"
    EXPLAIN = "explain"
    LOCATE = "locate"
    JUDGE = "judging"


class Action(str, Enum):
    """What is done at a place."""

    REPLACED = "replaced"
    SET = "set"
    CALLED = "called"
    READ = "read"


@dataclass(frozen=True)
class Hook:
    """One place of torch."""

    place: str  # "module:attribute.path"
    action: Action
    use: Use
    does: str  # what torchsleuth does there
    lost: str  # what does not work where the place is missing
    takes: tuple[str, ...] = ()  # parameters that the function must have
    older: str = ""  # the attribute path in older versions of torch
    versions: str = ""  # of torch that have the place, where known; empty: all that torchsleuth supports

    @property
    def module(self) -> str:
        return self.place.partition(":")[0]

    @property
    def attribute(self) -> str:
        return self.place.partition(":")[2]

    @property
    def name(self) -> str:
        """The dotted name."""
        return self.place.replace(":", ".")

    @property
    def required(self) -> bool:
        return self.use is Use.RUN


class PlaceMissing(Exception):
    """The installed torch does not have a place of the table, or not in the form that is needed."""

    def __init__(self, hook: Hook, why: str) -> None:
        super().__init__(f"torch has no usable {hook.name} ({why}): {hook.lost}")
        self.hook = hook


def find(hook: Hook) -> tuple[Any, str]:
    """The object that holds the place, and the attribute there; raises PlaceMissing."""
    try:
        module: Any = importlib.import_module(hook.module)
    except ImportError as error:
        raise PlaceMissing(hook, f"{type(error).__name__}: {error}") from error
    for path in filter(None, (hook.attribute, hook.older)):
        *holders, last = path.split(".")
        holder = module
        for name in holders:
            holder = getattr(holder, name, None)
        if holder is not None and hasattr(holder, last):
            _check_parameters(hook, getattr(holder, last))
            return holder, last
    raise PlaceMissing(hook, "no such attribute")


def _check_parameters(hook: Hook, function: Any) -> None:
    if not hook.takes:
        return
    known = inspect.signature(function).parameters
    absent = [name for name in hook.takes if name not in known]
    if absent:
        raise PlaceMissing(hook, f"it takes no {', '.join(absent)}")


def probe(hook: Hook) -> str:
    """Why the installed torch does not have the place; empty if it has."""
    try:
        find(hook)
    except PlaceMissing as error:
        return str(error)
    return ""


FRAMES = Hook(
    "torch._dynamo.convert_frame:CatchErrorsWrapper.__call__", Action.REPLACED, Use.RUN,
    "sees each conversion of a frame, and what it raises",
    "failures in Dynamo and failures of compiled graphs that are suppressed are not seen; explain counts nothing",
)  # fmt: skip
BACKENDS = Hook(
    "torch._dynamo.repro.after_dynamo:WrapBackendDebug.__call__", Action.REPLACED, Use.RUN,
    "sees each graph with the backend that compiles it, and wraps the compiled graph",
    "no graph is seen, and no failure of one",
)  # fmt: skip
INDUCTOR = Hook(
    "torch._inductor.compile_fx:_compile_fx_inner", Action.REPLACED, Use.RUN,
    "sees each ATen graph that Inductor compiles",
    "failures in the compilation of backward graphs by Inductor are not seen",
)  # fmt: skip
OUTPUT_CODE_READY = Hook(
    "torch._inductor.output_code:CompiledFxGraph.post_compile", Action.REPLACED, Use.RUN,
    "links the compiled backward graph to the graph of its forward",
    "failures of Inductor's backward graphs at run time are not seen",
)  # fmt: skip
OUTPUT_CODE_CALL = Hook(
    "torch._inductor.output_code:CompiledFxGraph.__call__", Action.REPLACED, Use.RUN,
    "sees each run of a backward graph that Inductor compiled",
    "failures of Inductor's backward graphs at run time are not seen",
)  # fmt: skip
BACKWARD_COMPILERS = Hook(
    "torch._functorch.aot_autograd:aot_stage2_compile", Action.REPLACED, Use.RUN,
    "sees the backward graphs of backends other than Inductor",
    "failures in the backward graphs of backends other than Inductor are not seen",
    takes=("fw_compiler", "bw_compiler"),
)  # fmt: skip
CACHEABLE_COMPILER = Hook(
    "torch._functorch._aot_autograd.schemas:SerializableAOTDispatchCompiler", Action.READ, Use.RUN,
    "tells Inductor's own compilers, which its cache must recognise, from those of other backends",
    "failures in the backward graphs of backends other than Inductor are not seen",
)  # fmt: skip

DRAW_LIKE_EAGER = Hook(
    "torch._inductor.config:fallback_random", Action.SET, Use.NUMBERS,
    "lets compiled code draw the random numbers of eager",
    "graphs that draw random numbers are told to be wrong",
)  # fmt: skip
DRAW_IN_ORDER = Hook(
    "torch._inductor.graph:GraphLowering._update_scheduler", Action.REPLACED, Use.NUMBERS,
    "lets compiled code draw random numbers in the order of eager",
    "graphs that draw random numbers more than once may be told to be wrong",
)  # fmt: skip
GRAPH_CACHE = Hook(
    "torch._inductor.codecache:FxGraphCache._save_graph", Action.REPLACED, Use.NUMBERS,
    "keeps graphs that were compiled for a comparison out of the user's cache",
    "a comparison with eager leaves entries in the user's cache of compiled graphs",
)  # fmt: skip
AOT_CACHE = Hook(
    "torch._functorch._aot_autograd.autograd_cache:AOTAutogradCache.save", Action.REPLACED, Use.NUMBERS,
    "keeps graphs that were compiled for a comparison out of the user's cache",
    "a comparison with eager leaves entries in the user's cache of AOTAutograd",
)  # fmt: skip
EAGER_STANCE = Hook(
    "torch.compiler:set_stance", Action.CALLED, Use.NUMBERS,
    "reruns the program with compilation off",
    "whether the program fails without torch.compile is not found out",
)  # fmt: skip

STEP_BEGINS = Hook(
    "torch._dynamo.utils:ChromiumEventLogger.log_event_start", Action.REPLACED, Use.LOG,
    "writes a line when a stage of the compilation begins", "--log steps shows no stages", takes=("event_name",),
)  # fmt: skip
STEP_ENDS = Hook(
    "torch._dynamo.utils:ChromiumEventLogger.log_event_end", Action.REPLACED, Use.LOG,
    "writes a line when a stage of the compilation ends", "--log steps shows no stages", takes=("event_name",),
)  # fmt: skip
INSTRUCTIONS = Hook(
    "torch._dynamo.symbolic_convert:InstructionTranslatorBase.step", Action.REPLACED, Use.LOG,
    "writes a line for each instruction that Dynamo traces", "--log debug shows no instructions",
)  # fmt: skip

BYTECODE = Hook(
    "torch._dynamo.convert_frame:register_bytecode_hook", Action.CALLED, Use.EXPLAIN,
    "adds a counter to the bytecode that Dynamo generates",
    "explain does not know how often a graph break is hit",
)  # fmt: skip
TRACE = Hook(
    "torch._logging._internal:trace_log", Action.CALLED, Use.EXPLAIN,
    "receives the records of torch's structured trace",
    "torchsleuth.explain knows no graph breaks and recompilations",
)  # fmt: skip
FUSION_LOOPS = Hook(
    "torch._inductor.scheduler:Scheduler.fuse_nodes", Action.REPLACED, Use.EXPLAIN,
    "keeps Inductor's loops before and after fusion", "explain --ir shows no loops",
)  # fmt: skip

SUBSYSTEMS = Hook(
    "torch._inductor.compiler_bisector:CompilerBisector.disable_subsystem", Action.REPLACED, Use.LOCATE,
    "leaves out single decompositions, lowerings, or CUDA graphs",
    "the lowering or decomposition that fails is not found",
)  # fmt: skip
BISECTION = Hook(
    "torch._inductor.compiler_bisector:CompilerBisector.bisection_enabled", Action.SET, Use.LOCATE,
    "makes Inductor ask before it lowers, and bypass its cache",
    "the lowering or decomposition that fails is not found",
)  # fmt: skip
PASS_BEGINS = Hook(
    "torch.fx.passes.graph_transform_observer:GraphTransformObserver._check_disable_pass", Action.REPLACED, Use.LOCATE,
    "leaves out single passes", "the pass that fails is not found",
)  # fmt: skip
PASS_ENDS = Hook(
    "torch.fx.passes.graph_transform_observer:GraphTransformObserver.__exit__", Action.REPLACED, Use.LOCATE,
    "sees the end of each pass", "the graph after a pass is not shown",
)  # fmt: skip
PATTERNS = tuple(
    Hook(
        f"torch._inductor.pattern_matcher:{kind}.apply", Action.REPLACED, Use.LOCATE,
        "leaves out single patterns", "the pattern that fails is not found",
    )
    for kind in ("LoweringPatternEntry", "GraphPatternEntry", "ReplacementPatternEntry")
)  # fmt: skip
FUSION = Hook(
    # The inner function, where there is one: the outer reverts what was tried of loops if the answer is no.
    "torch._inductor.scheduler:Scheduler._can_fuse_impl", Action.REPLACED, Use.LOCATE,
    "leaves out single fusions", "the fusion that fails is not found", older="Scheduler.can_fuse",
)  # fmt: skip

RUN_REPRO = tuple(
    Hook(
        f"torch._dynamo.repro.{module}:run_repro", Action.REPLACED, Use.JUDGE,
        "runs scripts that torch's own minifier wrote", "scripts of torch's own minifier cannot be minimized",
    )
    for module in ("after_aot", "after_dynamo")
)  # fmt: skip
DYNAMO_CACHE = Hook(
    "torch._dynamo.package:DynamoCache.path_prefix", Action.SET, Use.JUDGE,
    "gives each judged process a cache folder of its own",
    "judged processes share the user's cache of precompiled code",
)  # fmt: skip

HOOKS: tuple[Hook, ...] = (
    FRAMES, BACKENDS, INDUCTOR, OUTPUT_CODE_READY, OUTPUT_CODE_CALL, BACKWARD_COMPILERS, CACHEABLE_COMPILER,
    DRAW_LIKE_EAGER, DRAW_IN_ORDER, GRAPH_CACHE, AOT_CACHE, EAGER_STANCE,
    STEP_BEGINS, STEP_ENDS, INSTRUCTIONS,
    BYTECODE, TRACE, FUSION_LOOPS,
    SUBSYSTEMS, BISECTION, PASS_BEGINS, PASS_ENDS, *PATTERNS, FUSION,
    *RUN_REPRO, DYNAMO_CACHE,
)  # fmt: skip
