"""Can torchsleuth work here?  Questions to an interpreter, each answered in a process of its own."""
