"""The main job: from a collection to a tested ranking, and the demo that runs it."""
