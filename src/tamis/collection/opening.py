"""The former name of `readers`, for the package `fit` alone."""

from tamis.collection.readers import PYDOCS, open_collection, read_queries, with_files

__all__ = ["PYDOCS", "open_collection", "read_queries", "with_files"]
