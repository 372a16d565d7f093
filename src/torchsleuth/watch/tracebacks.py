"""Exceptions as a program raises them: what led to what, and the frames that are ours taken out again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchsleuth.watch.guarded import guarded


def leads_to(outer: BaseException, inner: BaseException) -> bool:
    """Whether `inner` is `outer`, or what it wraps, or what it came from."""
    return any(link is inner for link in chain(outer))


def chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        now = todo.pop()
        if now is None or id(now) in seen:
            continue
        seen.add(id(now))
        yield now
        wrapped = getattr(now, "inner_exception", None)
        todo += [wrapped if isinstance(wrapped, BaseException) else None, now.__cause__, now.__context__]


def hide_our_frames(error: BaseException) -> None:
    for link in chain(error):
        forget_our_frames(link)


@guarded
def forget_our_frames(error: BaseException) -> None:
    """To be called before `raise`: a bare one (Python 3.11 and newer) goes on with what is left."""
    error.__traceback__ = _without_ours(error.__traceback__)


_OUR_FOLDER = str(Path(__file__).parent)


def _without_ours(trace: Any) -> Any:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OUR_FOLDER):
        trace = trace.tb_next
    link = trace
    while link is not None and link.tb_next is not None:
        if link.tb_next.tb_frame.f_code.co_filename.startswith(_OUR_FOLDER):
            link.tb_next = link.tb_next.tb_next
        else:
            link = link.tb_next
    return trace
