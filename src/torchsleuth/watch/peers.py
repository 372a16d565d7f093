"""Errors that a process gets because another one died: they say nothing about the process that raises them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torchsleuth.watch.session import Process

_PEER_IS_GONE = re.compile(
    r"(?:closed|reset|aborted) by (?:the )?(?:remote )?peer|remote process exited|ncclRemoteError|Broken pipe"
    r"|failed to recv, got 0 bytes|recvValue failed",
    re.IGNORECASE,
)
# What launchers raise once a process that they started has ended badly.
_OF_LAUNCHERS = re.compile(r"^(?:[\w.]+\.)?(?:ChildFailedError|ProcessRaisedException|ProcessExitedException)\b")


def is_peer_loss(message: str) -> bool:
    """Whether an error says only that another process is gone."""
    return _PEER_IS_GONE.search(message) is not None or _OF_LAUNCHERS.match(message) is not None


def is_peer_loss_event(event: Mapping[str, Any]) -> bool:
    """The same of a failure that a process reported."""
    failure = event["failure"]
    return is_peer_loss(f"{failure['fingerprint']['message']} {failure.get('summary', '')}")


def failed_by_itself(process: Process) -> bool:
    """Whether an error ended the process that is not the loss of another one."""
    failures = {e.get("number"): e for e in process.of("failure")}
    for ender in process.of("ended-by"):
        failure = failures.get(ender.get("number"))
        if failure is not None and not is_peer_loss_event(failure):
            return True
        if failure is None and not is_peer_loss(str(ender.get("error", ""))):
            return True
    return False
