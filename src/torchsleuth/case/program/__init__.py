"""A Case as a script that needs only torch.

What is judged is this text, and what the user gets is this text with a docstring on top: nothing can fail in the judge
and pass in the repro because the two were built differently.  Three forms, best first: `torch.compile` over a plain
function or module; `backend`, the graph handed to the backend as it is; `inner`, the ATen graph handed to Inductor.
"""

from torchsleuth.case.program.compiled import observed
from torchsleuth.case.program.render import CannotRender, Form, Rendering, render

__all__ = ["CannotRender", "Form", "Rendering", "observed", "render"]
