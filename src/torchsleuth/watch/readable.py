"""Bytecode as Python that a person can read: what Dynamo generated runs in place of the user's function.

Generated code is mostly straight: call the graph, take its results apart, put back what it changed, go on after a
break.  Expressions are put together again from the stack; a list, which may be changed later, gets a name; both ways of
a branch are followed.  An instruction that is not known stands as a comment, so that nothing is made up.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Sequence
from types import CodeType

_NULL, _SELF = "<null>", "<self>"
_SKIPPED = {"RESUME", "NOP", "CACHE", "PRECALL", "MAKE_CELL", "COPY_FREE_VARS", "EXTENDED_ARG", "GEN_START"}
_INDENT = "    "
_DEEPEST = 12
_GROWS = {
    "LIST_EXTEND": "extend", "LIST_APPEND": "append", "SET_UPDATE": "update", "DICT_UPDATE": "update",
    "DICT_MERGE": "update",
}  # fmt: skip
_UNARY = {"UNARY_NOT": "not ", "UNARY_NEGATIVE": "-", "UNARY_INVERT": "~", "UNARY_POSITIVE": "+"}
_OLD_BINARY = {
    "ADD": "+", "SUBTRACT": "-", "MULTIPLY": "*", "TRUE_DIVIDE": "/", "FLOOR_DIVIDE": "//", "MODULO": "%",
    "POWER": "**", "MATRIX_MULTIPLY": "@", "AND": "&", "OR": "|", "XOR": "^", "LSHIFT": "<<", "RSHIFT": ">>",
}  # fmt: skip
_LONGEST = 200
_BOOKKEEPING = "record_pregraph_bytecode"  # for torch's profiler; nothing of the user's


def as_python(code: CodeType, name: str | None = None) -> str:
    count = code.co_argcount + code.co_kwonlyargcount
    arguments = ", ".join(code.co_varnames[:count])
    body = _Reader(code).block(0, [], 1, frozenset())
    return "\n".join([f"def {name or code.co_name}({arguments}):", *(body or [f"{_INDENT}pass"])]) + "\n"


class _Reader:
    def __init__(self, code: CodeType) -> None:
        self._constants = code.co_consts
        self._all = list(dis.get_instructions(code))
        self._at = {each.offset: i for i, each in enumerate(self._all)}

    def block(self, start: int, stack: list[str], depth: int, seen: frozenset[int]) -> list[str]:
        lines: list[str] = []
        pad = _INDENT * depth
        keywords: tuple[str, ...] = ()
        i = start
        while i < len(self._all):
            each = self._all[i]
            name = each.opname
            if i in seen and i != start:
                return [*lines, f"{pad}# goes on as above"]
            if name.startswith("JUMP") and "_IF_" not in name:
                if self._at[each.argval] <= i:  # Python 3.10 has no word of its own for a jump backwards
                    return [*lines, f"{pad}# and again from the top of the loop"]
                i = self._at[each.argval]
                continue
            if "JUMP" in name and "_IF_" in name and depth < _DEEPEST:
                return lines + self._branch(i, stack, depth, seen | {i})
            if name == "KW_NAMES":
                keywords = self._constants[each.arg or 0]
            elif name in ("RETURN_VALUE", "RETURN_CONST"):
                value = _short(repr(each.argval)) if name == "RETURN_CONST" else _pop(stack)
                return [*lines, f"{pad}return {value}"]
            elif name == "RAISE_VARARGS":
                return [*lines, f"{pad}raise {', '.join(_pops(stack, each.arg or 0))}"]
            elif name.startswith("CALL") and name not in ("CALL_FUNCTION_EX", "CALL_INTRINSIC_1"):
                _call(each, stack, keywords)
                keywords = ()
            elif name not in _SKIPPED:
                lines += [f"{pad}{line}" for line in _step(each, stack) if _BOOKKEEPING not in line]
            i += 1
        return lines

    def _branch(self, i: int, stack: list[str], depth: int, seen: frozenset[int]) -> list[str]:
        each = self._all[i]
        value = stack[-1] if "OR_POP" in each.opname and stack else _pop(stack)
        test = f"{value} is {'not ' * ('NOT_NONE' in each.opname)}None" if "NONE" in each.opname else value
        jumps = self._at[each.argval]
        # What follows is taken when the jump is not.
        stays = f"not {test}" if "IF_TRUE" in each.opname or "NONE" in each.opname else test
        pad = _INDENT * depth
        here = self.block(i + 1, list(stack), depth + 1, seen)
        there = self.block(jumps, list(stack), depth + 1, seen)
        nothing = [f"{pad}{_INDENT}pass"]
        return [f"{pad}if {stays}:", *(here or nothing), f"{pad}else:", *(there or nothing)]


def _call(each: dis.Instruction, stack: list[str], keywords: Sequence[str]) -> None:
    if each.opname in ("CALL_KW", "CALL_FUNCTION_KW"):
        keywords = tuple(part.strip("'\" ") for part in _pop(stack).strip("()").split(",") if part.strip())
    values = _pops(stack, each.arg or 0)
    if each.opname in ("CALL_FUNCTION", "CALL_FUNCTION_KW"):
        function = _pop(stack)
    else:
        second, first = _pop(stack), _pop(stack)
        function = next((f for f in (first, second) if f not in (_NULL, _SELF)), "?")
        if _NULL not in (first, second) and _SELF not in (first, second):
            values.insert(0, second)
    plain = len(values) - len(keywords)
    words = [*values[:plain], *(f"{k}={v}" for k, v in zip(keywords, values[plain:], strict=False))]
    stack.append(f"{function}({', '.join(words)})")


def _step(each: dis.Instruction, stack: list[str]) -> list[str]:
    """Does to `stack` what the instruction does; gives the statements that this makes."""
    name, value, number = each.opname, each.argval, each.arg or 0
    if name in ("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"):
        stack.extend(map(str, value))
    elif name == "LOAD_CONST":
        stack.append(value.co_name if isinstance(value, CodeType) else _short(repr(value)))
    elif name == "LOAD_GLOBAL" or (name == "LOAD_ATTR" and "NULL" in each.argrepr):
        with_null = "NULL" in each.argrepr
        if name == "LOAD_ATTR":
            stack.extend([f"{_pop(stack)}.{value}", _SELF])
        else:
            stack.extend([_NULL, str(value)] if with_null else [str(value)])
    elif name == "LOAD_METHOD":
        stack.extend([f"{_pop(stack)}.{value}", _SELF])
    elif name == "LOAD_ATTR":
        stack.append(f"{_pop(stack)}.{value}")
    elif name.startswith("LOAD_"):
        stack.append(str(value))
    elif name == "PUSH_NULL":
        stack.append(_NULL)
    elif name in ("STORE_FAST", "STORE_GLOBAL", "STORE_DEREF", "STORE_NAME"):
        return _assign(str(value), _pop(stack))
    elif name == "STORE_FAST_STORE_FAST":
        first, second = map(str, value)
        return _assign(first, _pop(stack)) + _assign(second, _pop(stack))
    elif name == "STORE_FAST_LOAD_FAST":
        first, second = map(str, value)
        done = _assign(first, _pop(stack))
        stack.append(second)
        return done
    elif name == "STORE_ATTR":
        target = _pop(stack)
        return [f"{target}.{value} = {_pop(stack)}"]
    elif name == "STORE_SUBSCR":
        index, holder = _pop(stack), _pop(stack)
        return [f"{holder}[{index}] = {_pop(stack)}"]
    elif name == "DELETE_SUBSCR":
        index, holder = _pop(stack), _pop(stack)
        return [f"del {holder}[{index}]"]
    elif name.startswith("DELETE_"):
        return [] if name == "DELETE_FAST" else [f"del {value}"]
    elif name == "POP_TOP":
        dropped = _pop(stack)
        return [dropped] if dropped.endswith(")") else []
    elif name == "UNPACK_SEQUENCE":
        whole = _pop(stack)
        if not whole.isidentifier():
            stack.extend(f"parts[{i}]" for i in reversed(range(number)))
            return [f"parts = {whole}"]
        stack.extend(f"{whole}[{i}]" for i in reversed(range(number)))
    elif name == "BUILD_LIST":
        inside = ", ".join(_pops(stack, number))
        stack.append(f"list_{each.offset}")
        return [f"list_{each.offset} = [{inside}]"]
    elif name in ("BUILD_TUPLE", "BUILD_SET"):
        inside = ", ".join(_pops(stack, number)) + ("," if name == "BUILD_TUPLE" and number == 1 else "")
        stack.append(f"({inside})" if name == "BUILD_TUPLE" else "{" + inside + "}")
    elif name == "BUILD_MAP":
        pairs = _pops(stack, 2 * number)
        stack.append("{" + ", ".join(f"{k}: {v}" for k, v in zip(pairs[::2], pairs[1::2], strict=True)) + "}")
    elif name == "BUILD_SLICE":
        stack.append(f"slice({', '.join(_pops(stack, number))})")
    elif name in _GROWS and len(stack) > number > 0:
        added = _pop(stack)
        return [f"{stack[-number]}.{_GROWS[name]}({added})"]
    elif name == "BINARY_SUBSCR":
        index, holder = _pop(stack), _pop(stack)
        if not holder.startswith(("list_", "item_")):
            stack.append(f"{holder}[{index}]")
            return []
        stack.append(f"item_{each.offset}")  # the list may be another one by the time this is used
        return [f"item_{each.offset} = {holder}[{index}]"]
    elif name == "BINARY_SLICE":
        end, start, holder = _pop(stack), _pop(stack), _pop(stack)
        stack.append(f"{holder}[{start}:{end}]")
    elif name == "STORE_SLICE":
        end, start, holder, stored = _pop(stack), _pop(stack), _pop(stack), _pop(stack)
        return [f"{holder}[{start}:{end}] = {stored}"]
    elif name in ("BINARY_OP", "COMPARE_OP"):
        right, left = _pop(stack), _pop(stack)
        sign = re.sub(r"bool\((.*)\)", r"\1", each.argrepr or str(value))  # Python 3.13 writes bool(>)
        stack.append(f"({left} {sign} {right})")
    elif name.startswith(("BINARY_", "INPLACE_")) and name.partition("_")[2] in _OLD_BINARY:
        right, left = _pop(stack), _pop(stack)
        stack.append(f"({left} {_OLD_BINARY[name.partition('_')[2]]} {right})")
    elif name in ("IS_OP", "CONTAINS_OP"):
        right, left = _pop(stack), _pop(stack)
        word = {"IS_OP": ("is", "is not"), "CONTAINS_OP": ("in", "not in")}[name][number]
        stack.append(f"({left} {word} {right})")
    elif name in _UNARY:
        stack.append(f"({_UNARY[name]}{_pop(stack)})")
    elif name == "COPY" and len(stack) >= number > 0:
        stack.append(stack[-number])
    elif name == "SWAP" and len(stack) >= number > 0:
        stack[-1], stack[-number] = stack[-number], stack[-1]
    elif name == "DUP_TOP" and stack:
        stack.append(stack[-1])
    elif name in ("ROT_TWO", "ROT_THREE", "ROT_FOUR") and stack:
        stack.insert(-{"ROT_TWO": 1, "ROT_THREE": 2, "ROT_FOUR": 3}[name], stack.pop())
    elif name == "CALL_FUNCTION_EX":
        named = _pop(stack) if number & 1 else ""
        places = _pop(stack)
        function = next((f for f in (_pop(stack), _pop(stack)) if f != _NULL), "?")
        stack.append(f"{function}(*{places}{', **' + named if named else ''})")
    elif name == "MAKE_FUNCTION":
        stack.append(f"<function {_pop(stack)}>")
    else:
        return [f"# {name} {each.argrepr}".rstrip()]
    return []


def _assign(name: str, value: str) -> list[str]:
    return [] if name == value else [f"{name} = {value}"]


def _pop(stack: list[str]) -> str:
    return stack.pop() if stack else "?"


def _pops(stack: list[str], count: int) -> list[str]:
    return [_pop(stack) for _ in range(count)][::-1]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
