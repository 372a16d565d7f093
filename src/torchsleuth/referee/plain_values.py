"""Values that have no parts and are compared by ==."""

from __future__ import annotations

import datetime
import decimal
import fractions
import re
import types
import uuid
from enum import Enum
from pathlib import PurePath
from typing import Any

import torch

from torchsleuth import torch_api

_PLAIN = (
    bool, int, float, complex, str, bytes, bytearray, Enum, type, types.ModuleType, types.BuiltinFunctionType, range,
    type(Ellipsis), type(NotImplemented), type(None),
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal, fractions.Fraction, PurePath,
    uuid.UUID, re.Pattern, torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip


def is_plain_value(value: Any) -> bool:
    return isinstance(value, _PLAIN) or torch_api.is_symbolic(value)
