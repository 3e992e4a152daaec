"""The main job, and the demo that runs it on Python's own documentation."""
