"""What may be kept or dropped of a graph: single operators, and groups that mean nothing apart.

A region (autocast, a functorch level, a grad mode) is opened by one call and closed by another; a tensor that was
wrapped for a level must be unwrapped in it.  All calls of one region are one unit: dropped as a whole, what was inside
stays, outside any region.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torchsleuth.case.ir import Graph, Node, Ref, picks

Unit = frozenset[str]

# What opens a region -> what closes it; both by the last word of their name.
_PAIRS = {
    "_enter_autocast": "_exit_autocast",
    "_enter_inference_mode": "_exit_inference_mode",
    "_vmap_increment_nesting": "_vmap_decrement_nesting",
    "_grad_increment_nesting": "_grad_decrement_nesting",
    "_jvp_increment_nesting": "_jvp_decrement_nesting",
    "_func_increment_nesting": "_func_decrement_nesting",
    "_enter_dual_level": "_exit_dual_level",
    "_saved_tensors_hooks_disable": "_saved_tensors_hooks_enable",
}
_CLOSERS = {closer: opener for opener, closer in _PAIRS.items()}
# Calls that belong to the innermost open region of these kinds.
_BOUND = {
    "_add_batch_dim": ("_vmap_increment_nesting",),
    "_remove_batch_dim": ("_vmap_increment_nesting",),
    "_make_dual": ("_enter_dual_level",),
    "_unpack_dual": ("_enter_dual_level",),
    "_wrap_for_grad": ("_grad_increment_nesting", "_jvp_increment_nesting"),
    "_unwrap_for_grad": ("_grad_increment_nesting", "_jvp_increment_nesting"),
}
_SWITCHES = ("_set_grad_enabled", "_set_fwd_grad_enabled")  # one call switches, the next switches back


@dataclass
class _Region:
    opener: str
    names: set[str] = field(default_factory=set)


def units(graph: Graph) -> list[Unit]:
    """Every call of the graph in exactly one unit, in order of first calls; elements of tuples are in none."""
    free = picks(graph)
    regions: list[_Region] = []
    open_now: list[_Region] = []
    owner: dict[str, _Region] = {}
    for node in graph.nodes:
        if node.is_call and node.name not in free:
            region = _region(node, open_now, regions)
            if region is not None:
                region.names.add(node.name)
                owner[node.name] = region
    calls = [n.name for n in graph.nodes if n.is_call and n.name not in free]
    return list(dict.fromkeys(frozenset(owner[name].names) if name in owner else frozenset({name}) for name in calls))


def _region(node: Node, open_now: list[_Region], regions: list[_Region]) -> _Region | None:
    word = node.target.rpartition(".")[2]
    if word in _SWITCHES:
        return _switched(word, open_now, regions)
    if word in _PAIRS:
        regions.append(_Region(word))
        open_now.append(regions[-1])
        return regions[-1]
    wanted = (_CLOSERS[word],) if word in _CLOSERS else _BOUND.get(word, ())
    matching = [r for r in open_now if r.opener in wanted]
    if word in _CLOSERS and node.args and isinstance(node.args[0], Ref):
        opened = node.args[0].name
        matching = [r for r in matching if opened in r.names]
    if not matching:
        return None
    if word in _CLOSERS:
        open_now.remove(matching[-1])
    return matching[-1]


def _switched(word: str, open_now: list[_Region], regions: list[_Region]) -> _Region:
    for region in reversed(open_now):
        if region.opener == word:
            open_now.remove(region)
            return region
    regions.append(_Region(word))
    open_now.append(regions[-1])
    return regions[-1]


def has_levels(graph: Graph) -> bool:
    """Whether functorch wraps tensors in this graph: what such a value is cannot be told from outside."""
    return any(n.target.rpartition(".")[2] in _BOUND for n in graph.nodes)
