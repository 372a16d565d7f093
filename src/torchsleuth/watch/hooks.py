"""The places where torch's compiler is watched.

    Dynamo converts a frame            a failure is what leaves it, or what it swallowed because it was told to
      a graph meets its backend        sketched before, since backends change graphs
        a graph meets Inductor         the ATen graph, with everything Inductor was told beside it
    a compiled graph is called         with real inputs; those it writes are cloned before
    a backward compiles or runs        inside .backward(), linked to its forward by compile id

Each hook calls what was there before with what it was given, and returns or raises what that did.  What is raised
leaves a hook without the hook's own frame: programs print tracebacks.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from torchsleuth import torch_api
from torchsleuth.case.failure import Phase
from torchsleuth.torch_api import attaching, hook_table
from torchsleuth.watch import attach, steps
from torchsleuth.watch.capture import Record
from torchsleuth.watch.guarded import guarded
from torchsleuth.watch.observer import Observer
from torchsleuth.watch.session import Outbox
from torchsleuth.watch.tracebacks import forget_our_frames

_installed: Observer | None = None


def install(outbox: Outbox) -> Observer:
    """Hooks this process, once; modules that are not imported yet are hooked when they are.

    A process that is hooked already keeps the outbox it has: `Observer.report_to` gives it another.
    """
    global _installed
    if _installed is not None:
        return _installed
    observer = _installed = Observer(outbox, steps.install(outbox, outbox.options.log))
    for hook, wrap in (
        (hook_table.FRAMES, _watch_frames),
        (hook_table.BACKENDS, _watch_backends),
        (hook_table.INDUCTOR, _watch_inductor),
        (hook_table.OUTPUT_CODE_READY, _watch_output_code),
        (hook_table.OUTPUT_CODE_CALL, _watch_backward_runs),
        (hook_table.BACKWARD_COMPILERS, _watch_backward_compilers),
    ):
        attach.when_imported(hook, functools.partial(attaching.replace, hook, functools.partial(wrap, observer)))
    if outbox.options.numbers not in ("", "kinds") or outbox.options.draw_like_eager:
        attach.when_imported(hook_table.DRAW_LIKE_EAGER, torch_api.draw_like_eager)
        attach.when_imported(hook_table.DRAW_IN_ORDER, torch_api.draw_in_order)
    if outbox.options.numbers or outbox.options.leave_caches:
        for cache in (hook_table.GRAPH_CACHE, hook_table.AOT_CACHE):
            attach.when_imported(cache, functools.partial(torch_api.save_no_graphs, cache))
    observer.watch_the_end()
    return observer


def _watch_frames(observer: Observer, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def convert(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        attempt = observer.frame_began(args[0] if args else None) if observer.active else None
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            observer.frame_failed(attempt, error)
            forget_our_frames(error)
            raise
        observer.frame_done(attempt)
        return result

    return convert


def _watch_backends(observer: Observer, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile_graph(self: Any, graph: Any, inputs: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        record = observer.graph_began(graph, inputs, self) if observer.active else None
        try:
            compiled = original(self, graph, inputs, **kwargs)
        except BaseException as error:
            instead = observer.backend_failed(record, error, inputs)
            if instead is None:
                forget_our_frames(error)
                raise
            return instead
        finally:
            observer.graph_left(record)
        return observer.graph_compiled(record, compiled) or compiled

    return compile_graph


def _watch_inductor(observer: Observer, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile_inner(graph: Any, inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        record = observer.inner_began(graph, inputs, kwargs) if observer.active else None
        backward = bool(kwargs.get("is_backward"))
        try:
            return original(graph, inputs, *args, **kwargs)
        except BaseException as error:
            instead = observer.inner_failed(record, error, backward, graph)
            if instead is None:
                forget_our_frames(error)
                raise
            return instead
        finally:
            observer.inner_left(record, backward)

    return compile_inner


def _watch_output_code(observer: Observer, prepare: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(prepare)
    def post_compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        if observer.active:
            observer.output_code_ready(self)
        try:
            return prepare(self, *args, **kwargs)
        except BaseException as error:
            forget_our_frames(error)
            raise

    return post_compile


def _watch_backward_runs(observer: Observer, run: Callable[..., Any]) -> Callable[..., Any]:
    """Runs of Inductor's backward graphs; its forward graphs run inside a call that is watched already."""

    @functools.wraps(run)
    def call(self: Any, inputs: Sequence[Any]) -> Any:
        __tracebackhide__ = True
        record = observer.backward_of(self) if observer.active else None
        try:
            return run(self, inputs) if record is None else _run_backward(observer, record, lambda: run(self, inputs))
        except BaseException as error:
            forget_our_frames(error)
            raise

    return call


def _watch_backward_compilers(observer: Observer, original: Callable[..., Any]) -> Callable[..., Any]:
    """Backward compilers of every other backend.  Inductor's must stay the object it is, for its cache."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile_both(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if observer.active:
            args, kwargs = _with_watched_backward(observer, signature, args, kwargs) or (args, kwargs)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            forget_our_frames(error)
            raise

    return compile_both


@guarded
def _with_watched_backward(
    observer: Observer, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    bound = signature.bind(*args, **kwargs)
    compiler = bound.arguments.get("bw_compiler") or bound.arguments["fw_compiler"]
    if not torch_api.is_cacheable_compiler(compiler):
        bound.arguments["bw_compiler"] = _watched_compiler(observer, compiler)
    return bound.args, bound.kwargs


def _watched_compiler(observer: Observer, compiler: Callable[..., Any]) -> Callable[..., Any]:
    if getattr(compiler, "_torchsleuth_watched", False):
        return compiler

    @functools.wraps(compiler, updated=())
    def compile_backward(graph: Any, inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        record = observer.record_now() if observer.active else None
        observer.stage(record, Phase.COMPILE_BACKWARD)
        try:
            compiled = compiler(graph, inputs, *args, **kwargs)
        except BaseException as error:
            instead = observer.inner_failed(record, error, True, graph)
            if instead is None:
                forget_our_frames(error)
                raise
            return instead
        finally:
            observer.unstage()
        return _watched_backward(observer, record, compiled) if record is not None else compiled

    compile_backward._torchsleuth_watched = True  # type: ignore[attr-defined]
    return compile_backward


def _watched_backward(observer: Observer, record: Record, compiled: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compiled, updated=())
    def call(*args: Any) -> Any:
        __tracebackhide__ = True
        try:
            return _run_backward(observer, record, lambda: compiled(*args)) if observer.active else compiled(*args)
        except BaseException as error:
            forget_our_frames(error)
            raise

    call._boxed_call = getattr(compiled, "_boxed_call", False)  # type: ignore[attr-defined]
    return call


def _run_backward(observer: Observer, record: Record, run: Callable[[], Any]) -> Any:
    __tracebackhide__ = True
    observer.stage(record, Phase.RUN_BACKWARD)
    try:
        return run()
    except BaseException as error:
        observer.run_failed(record, error, Phase.RUN_BACKWARD, None)
        forget_our_frames(error)
        raise
    finally:
        observer.unstage()
