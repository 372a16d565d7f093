"""Which component is to blame, asked of a Judge: the Case with one layer of the compiler more at each rung."""
