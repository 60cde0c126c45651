"""The paper's experiments on top of the library `dbsurf`, and the command that runs them."""

__version__ = "0.2.0"
