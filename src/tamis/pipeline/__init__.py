"""Stages: what turns one run into another."""
