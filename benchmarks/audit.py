"""Is anything left in a repro that could go?  `python benchmarks/audit.py REPRO.py|OUTPUT-FOLDER...`

Knows nothing of the reducer: it edits the text of the script.  One statement of a compiled function left out (what it
gave is read from one of its own operands), one size halved, one keyword argument or one config dropped; each edit is
run in a process of its own, with empty caches.  What still fails in the same way, and passes with compilation off, is
listed: the reducer should have found it.  Exit status 1 where there is any.

Some things stand there on purpose and are not tried: an element of a tuple (no operator), seeds, how numbers are
compared, the backend (the first that fails), the dtype of autocast, though it is the default, and that what is true or
false is a bool.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torchsleuth.judge import ForkedJudge, Judge, Trial, Verdict, judge_environment

LIMIT = 300.0
MAKERS = {"randn", "rand", "randint", "zeros", "ones", "full", "empty", "arange", "_efficientzerotensor"}

ON_PURPOSE = {
    ("torch.testing.assert_close", "equal_nan"),
    ("torch.compile", "backend"),
    ("torch.autocast", "dtype"),
}


@dataclass(frozen=True)
class End:
    """How a script failed with compilation on: enough to tell one failure from another."""

    kind: str
    error: str = ""
    message: str = ""


def run(source: str, judge: Judge, folder: Path) -> End | None:
    """None where it passes, or fails with compilation off as well."""
    outcome = judge.judge(Trial(source, folder, deadline=LIMIT))
    if outcome.verdict is not Verdict.FAILED or outcome.failure is None:
        return None
    return End(outcome.failure.kind.value, *_last_error(outcome.failure.text))


def _last_error(text: str) -> tuple[str, str]:
    complaint = re.search(r"\berror: (.*)", text) if "CppCompileError" in text else None
    found = re.findall(r"^([A-Za-z_][\w.]*(?:Error|Exception|Failed|Unsupported)): ?(.*)$", text, re.M)
    error, message = found[-1] if found else ("", "")
    said = complaint.group(1) if complaint else message
    return error, re.sub(r"\d+", "0", re.sub(r"(\[[^\]]*\]|\([\d, ]*\))", "SIZES", said))


# --- edits ------------------------------------------------------------------------------------------------------------


def edits(source: str) -> Iterator[tuple[str, str]]:
    """(what was done, the script after it)."""
    tree = ast.parse(source)
    for make in (without_statements, with_smaller_sizes, without_keywords, without_settings):
        yield from make(tree)


def without_statements(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for place, function in enumerate(_functions(tree)):
        for number, statement in enumerate(function.body):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and not _is_seed(statement):
                changed = copy.deepcopy(tree)
                del _functions(changed)[place].body[number]
                yield f"without `{ast.unparse(statement)}`", ast.unparse(changed)
            returned = statement.value if isinstance(statement, ast.Return) else None
            if isinstance(returned, (ast.Call, ast.BinOp, ast.Subscript)) and not _is_element(returned, function):
                for operand in dict.fromkeys(_operands(returned, function)):
                    changed = copy.deepcopy(tree)
                    _functions(changed)[place].body[number] = ast.Return(ast.Name(operand, ast.Load()))
                    yield f"`{ast.unparse(statement)}` replaced by {operand}", ast.unparse(changed)
            target = _assigned(statement)
            if target is None or not isinstance(statement, ast.Assign) or _is_element(statement.value, function):
                continue
            for operand in dict.fromkeys(_operands(statement.value, function)):
                changed = copy.deepcopy(tree)
                body = _functions(changed)[place].body
                del body[number]
                for later in body[number:]:
                    _Rename(target, operand).visit(later)
                yield f"`{ast.unparse(statement)}` replaced by {operand}", ast.unparse(changed)


def with_smaller_sizes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for place, number in enumerate(_sizes(tree)):
        changed = copy.deepcopy(tree)
        constant = _sizes(changed)[place]
        constant.value = max(2, number.value // 2)  # type: ignore[operator]
        yield f"line {number.lineno}: size {number.value!r} halved", ast.unparse(changed)


def without_keywords(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for place, call in enumerate(_calls(tree)):
        for number, keyword in enumerate(call.keywords):
            if (ast.unparse(call.func), keyword.arg) in ON_PURPOSE or ast.unparse(keyword.value) == "torch.bool":
                continue
            changed = copy.deepcopy(tree)
            del _calls(changed)[place].keywords[number]
            yield f"line {call.lineno}: without {keyword.arg}={ast.unparse(keyword.value)}", ast.unparse(changed)


def without_settings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Configs, environment, and what stands in a `with`."""
    for number, statement in enumerate(tree.body):
        changed = copy.deepcopy(tree)
        text = ast.unparse(statement)
        if isinstance(statement, ast.With):
            changed.body[number : number + 1] = statement.body
        elif _is_setting(statement, text):
            del changed.body[number]
        else:
            continue
        yield f"without `{text.splitlines()[0]}`", ast.unparse(changed)


def _is_setting(statement: ast.stmt, text: str) -> bool:
    if isinstance(statement, ast.Assign):
        return isinstance(statement.targets[0], (ast.Attribute, ast.Subscript))
    return isinstance(statement, ast.Expr) and bool(re.match(r"torch\.(set_|use_|_dynamo\.)", text))


def _is_element(value: ast.expr, function: ast.FunctionDef) -> bool:
    """`getitem = cummin[0]`, of what a call gave; an input is a tensor, and a part of it takes an operator."""
    if not (isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant)):
        return False
    return isinstance(value.value, ast.Name) and value.value.id not in {a.arg for a in function.args.args}


def _is_seed(statement: ast.Expr) -> bool:
    return "manual_seed" in ast.unparse(statement)


class _Rename(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self.new, node.ctx), node) if node.id == self.old else node


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name != "__init__"]


def _assigned(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


def _operands(value: ast.expr, function: ast.FunctionDef) -> Iterator[str]:
    known = {a.arg for a in function.args.args} | {name for s in function.body if (name := _assigned(s))}
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and node.id in known:
            yield node.id


def _sizes(tree: ast.Module) -> list[ast.Constant]:
    """Whole numbers above 2 in calls that make tensors: 2 is small, and 1 means something else to a compiler."""
    makers = [c for c in _calls(tree) if isinstance(c.func, ast.Attribute) and c.func.attr in MAKERS]
    return [
        n for c in makers for a in c.args for n in ast.walk(a)
        if isinstance(n, ast.Constant) and type(n.value) is int and n.value > 2
    ]  # fmt: skip


def _calls(tree: ast.Module) -> list[ast.Call]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.Call)]


# --- the audit --------------------------------------------------------------------------------------------------------


def audit(path: Path, judge: Judge) -> list[str]:
    """What could go; a line that says so where the script itself does not fail."""
    source = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="audit-") as name:
        folder = Path(name)
        was = run(source, judge, folder)
        if was is None:
            return ["the script does not fail"]
        found: list[str] = []
        seen = {ast.unparse(ast.parse(source))}
        for what, text in edits(source):
            if text in seen:
                continue
            seen.add(text)
            if run(text, judge, folder) == was:
                found.append(what)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repros", nargs="+", type=Path, help="repro.py files, or folders that hold one")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    total = 0
    environment = judge_environment({k: v for k, v in os.environ.items() if not k.startswith("TORCH")})
    with (
        tempfile.TemporaryDirectory(prefix="audit-") as scratch,
        ForkedJudge(options.python, environment, jobs=1, scratch=Path(scratch)) as judge,
    ):
        for path in options.repros:
            script = path / "repro.py" if path.is_dir() else path
            if not script.is_file():
                print(f"{script}: there is none", flush=True)
                continue
            found = audit(script, judge)
            total += len(found)
            print(f"{script}: {'nothing can go' if not found else f'{len(found)} could go'}", flush=True)
            for line in found:
                print(f"    {line}", flush=True)
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
