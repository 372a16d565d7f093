"""report.html: one file that needs nothing, escapes what it shows, and works in a browser."""

from __future__ import annotations

import html.parser
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import CHROMIUM, Page
from explained_by_hand import NASTY, a_break, a_frame, explained
from findings_by_hand import a_finding, a_repro, a_result

from torchsleuth.write.markup import render, tag
from torchsleuth.write.page_explain import explain_fragment, explain_page
from torchsleuth.write.page_run import run_page
from torchsleuth.write.repro_graph import nodes_of
from torchsleuth.write.result import RunVerdict, to_json

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here: apt-get install chromium")


class Parsed(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text += data

    def attributes(self, name: str) -> list[str]:
        return [str(a[name]) for _, a in self.tags if name in a]


def explain_text(folder: Path) -> str:
    return explain_page(explained())


def run_text(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    function = "def f(x):\n    y = torch.relu(x)\n    z = y + x\n    return (z,)\n"
    (folder / "repro.py").write_text(f"import torch\n\n{function}\ntorch.compile(f)(torch.ones(3))\n")
    (folder / "issue.md").write_text(f"# {NASTY}\n")
    result = a_result(a_finding(folder, repro=a_repro(folder)), notes=(NASTY,))
    return run_page(to_json(result, folder), folder)


PAGES = pytest.mark.parametrize("made", [explain_text, run_text], ids=["explain", "run"])


@PAGES
def test_it_is_one_file_that_fetches_nothing(made: Callable[[Path], str], tmp_path: Path) -> None:
    parsed = Parsed(made(tmp_path))
    assert parsed.open == []
    assert not {"link", "img", "iframe", "object"} & {name for name, _ in parsed.tags}
    assert parsed.attributes("src") == []
    assert all("://" not in target for target in parsed.attributes("href"))
    policy = next(a["content"] for name, a in parsed.tags if name == "meta" and "http-equiv" in a)
    assert "default-src 'none'" in str(policy)


@PAGES
def test_what_it_shows_is_escaped(made: Callable[[Path], str], tmp_path: Path) -> None:
    parsed = Parsed(made(tmp_path))
    assert sum(name == "script" for name, _ in parsed.tags) == 1
    assert NASTY in parsed.text


@PAGES
def test_its_own_links_lead_somewhere(made: Callable[[Path], str], tmp_path: Path) -> None:
    parsed = Parsed(made(tmp_path))
    names = parsed.attributes("id")
    assert len(names) == len(set(names))
    inner = [t[1:] for t in parsed.attributes("href") if t.startswith("#")]
    assert inner
    assert set(inner) <= set(names)


def test_explain_says_everything() -> None:
    text = Parsed(explain_page(explained())).text
    for said in ("print()", "train.py:16 in toy", "hit 3 times", "Take the print out.", "scale == 0.5", "0.5, 1.5"):
        assert said in text
    assert "runs uncompiled" not in Parsed(explain_page(explained(breaks=[], frames=[]))).text.partition("Words")[0]


def test_a_clean_program_is_told_so() -> None:
    frames = [a_frame(outcome="compiled"), a_frame("grow", outcome="compiled")]
    clean = Parsed(explain_page(explained(breaks=[], recompiles=[], break_count=0, frames=frames))).text
    assert "None: every function was captured whole." in clean
    assert "None: what was compiled first served every call." in clean
    nothing = explained(graphs=0, frames=[], graphs_=[], breaks=[], recompiles=[], steps={})
    assert "No compilation was seen." in Parsed(explain_page({**nothing, "graphs": []})).text


def test_a_function_that_is_lost_is_named() -> None:
    loop = a_break(in_loop=True, uncompiled=[{"function": "toy", "source": "train.py:13"}], uncompiled_itself=True)
    assert (
        "It is inside a loop, so the whole function runs uncompiled."
        in Parsed(explain_page(explained(breaks=[loop]))).text
    )
    outer = a_break(in_loop=True, uncompiled=[{"function": "outer", "source": "train.py:30"}])
    assert "outer (train.py:30) comes to it in a loop" in Parsed(explain_page(explained(breaks=[outer]))).text


def test_a_notebook_gets_tables_without_script() -> None:
    parsed = Parsed(explain_fragment(explained()))
    assert not {"script", "style"} & {name for name, _ in parsed.tags}
    assert "print()" in parsed.text


@pytest.mark.parametrize("verdict", list(RunVerdict))
def test_every_verdict_has_a_page(verdict: RunVerdict, tmp_path: Path) -> None:
    findings = [a_finding(tmp_path, why_not="it ended well")] if verdict is RunVerdict.NOT_REPRODUCED else []
    text = Parsed(run_page(to_json(a_result(*findings, verdict=verdict), tmp_path), tmp_path)).text
    assert "Verdict" in text
    assert ("it ended well" in text) == bool(findings)


def test_run_says_what_others_found(tmp_path: Path) -> None:
    data = to_json(a_result(a_finding(tmp_path, repro=a_repro(tmp_path))), tmp_path)
    plain = Parsed(run_page(data, tmp_path)).text
    assert "Nearest program that passes" not in plain
    data["failures"][0] |= {
        "workaround": "torch._inductor.config.epilogue_fusion = False",
        "needed": ["the size 3", "float16"],
        "varies": ["The size may be any."],
        "nearest_passing": "-torch.ones(3)\n+torch.ones(4)",
        "divergence": [{"op": "relu", "error": 0.5}, {"op": "mul", "error": 0.1}],
    }
    told = Parsed(run_page(data, tmp_path)).text
    for said in ("epilogue_fusion", "float16", "+torch.ones(4)", "relu", "The size may be any."):
        assert said in told


def test_the_curve_is_that_of_the_journal(tmp_path: Path) -> None:
    data = to_json(a_result(a_finding(tmp_path, repro=a_repro(tmp_path))), tmp_path)
    journal = tmp_path / "cases" / "f1" / "journal.jsonl"
    journal.parent.mkdir(parents=True)
    judged, broken = '{"verdict": "failed"}\n', '{"verd\n'
    journal.write_text(f'{judged}{{"smaller": 40}}\n{judged}{broken}{judged}{{"smaller": 1}}\n', encoding="utf-8")
    titles = [text for text in run_page(data, tmp_path).split("<title>") if " operators after " in text]
    assert [t.partition("<")[0] for t in titles] == [
        "412 operators after 0", "40 operators after 1", "1 operators after 3", "1 operators after 9",
    ]  # fmt: skip


def test_the_graph_is_read_from_the_repro() -> None:
    source = "import torch\n\ndef f(x, w):\n    a = torch.relu(x)\n    b = a @ w\n    return (b,)\n"
    assert nodes_of(source) == [("x", "x", ()), ("w", "w", ()), ("a", "relu()", ("x",)), ("b", "a @ w", ("a", "w"))]
    assert nodes_of("this is no python") == []
    writes = "def f(x, y):\n    y[0:] = x\n    x.add_(1)\n    return (x,)\n"
    assert nodes_of(writes)[2:] == [("line 2", "y[0:] = x", ("x", "y")), ("line 3", "x.add_()", ("x",))]
    assert nodes_of("import torch\n") == []


def test_tags_escape_and_name_attributes() -> None:
    assert tag("a", "<", href='"', class_="b", data_x="1", hidden=True, id=None) == (
        '<a href="&quot;" class="b" data-x="1" hidden>&lt;</a>'
    )
    assert render(["a", None, [tag("b", "c")]]) == "a<b>c</b>"


# --- in a browser -------------------------------------------------------------------------------------------------


@needs_browser
@pytest.mark.slow
@PAGES
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_opens_without_a_complaint(made: Callable[[Path], str], width: int, dark: bool, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(made(tmp_path), encoding="utf-8")
    with Page(path, width, dark) as page:
        assert page.complaints() == []
        assert page.fetched() == [path.as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(20, 23, 26)" if dark else "rgb(251, 251, 249)")
        page.evaluate("document.getElementById('theme').click()")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background


@needs_browser
@pytest.mark.slow
def test_the_button_copies_the_repro(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(run_text(tmp_path), encoding="utf-8")
    with Page(path) as page:
        page.allow_clipboard()
        page.evaluate("document.querySelector('button.copy').click()")
        said = "new Promise(done => setTimeout(() => done(document.querySelector('button.copy').textContent), 300))"
        assert page.evaluate(said) == "Copied"
        assert page.evaluate("navigator.clipboard.readText()") == (tmp_path / "repro.py").read_text()
        assert page.complaints() == []


@needs_browser
@pytest.mark.slow
def test_a_thousand_graphs_can_be_searched(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(explain_page(explained(graphs=1000)), encoding="utf-8")
    with Page(path) as page:
        shown = "document.querySelectorAll('#all-graphs tbody tr:not(.hidden)').length"
        assert page.evaluate(shown) == 1000
        page.evaluate(
            "{const f = document.querySelector('input'); f.value = 'toy_77'; f.dispatchEvent(new Event('input'))}"
        )
        assert page.evaluate(shown) == 11  # toy_77 and toy_770 to toy_779
        page.evaluate("document.querySelectorAll('.icicle .box')[2].click()")
        assert page.complaints() == []
