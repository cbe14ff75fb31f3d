"""Syntax trees of source files, for tests that check rules of the code."""

import ast
import gc
from pathlib import Path


def source_tree(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file.

    Garbage collection is off meanwhile: Python before 3.11.8 counts the depth of all trees of a process in one
    variable. A finalizer that prints a traceback, or lets another thread do so, ends this call with `SystemError: AST
    constructor recursion depth mismatch` (python/cpython#106905).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    finally:
        if collects:
            gc.enable()
