"""What a program, a notebook or a test may call: `torchsleuth.check`, `explain`, `watching`."""
