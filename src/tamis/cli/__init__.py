"""The command line: one short function a verb, no logic of its own."""

from tamis.cli.app import main

__all__ = ["main"]
