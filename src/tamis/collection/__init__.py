"""Collections: one reader or writer a format, the document store, and the demo collection."""
