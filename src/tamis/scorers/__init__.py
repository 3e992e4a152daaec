"""Pairs to scores: target words, cross-encoder, bi-encoder, alignment, lexical."""
