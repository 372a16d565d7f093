"""Lookups in the caches of compiled graphs (FX graph cache, AOTAutograd cache): hit, miss or bypass, as traced."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum

from torchsleuth.explain.records import Record

_NAME = re.compile(r"^(fx_graph|aotautograd)_cache_(hit|miss|bypass|disabled)$")


class Cache(Enum):
    FX_GRAPH = "fx_graph"
    AOTAUTOGRAD = "aotautograd"


class State(Enum):
    HIT = "hit"
    MISS = "miss"
    BYPASS = "bypass"
    DISABLED = "disabled"


@dataclass(frozen=True)
class Lookup:
    """One graph that was looked for in one cache."""

    cache: Cache
    state: State
    reason: str = ""  # of a bypass, in torch's words; "" where the trace does not tell


def lookup_of(record: Record) -> Lookup | None:
    found = _NAME.match(record.name)
    if found is None:
        return None
    return Lookup(Cache(found[1]), State(found[2]), _reason(record.payload))


def _reason(payload: str) -> str:
    try:
        data = json.loads(payload)
    except ValueError:
        return ""
    return " ".join(str(data.get("cache_bypass_reason") or "").split()) if isinstance(data, dict) else ""
