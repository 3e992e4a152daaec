"""Why a document stands where it stands, and why a ranking got worse."""

from tamis.explain.result import explain_result

__all__ = ["explain_result"]
