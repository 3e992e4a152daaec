"""The service: sieves and models behind HTTP, in the shapes that applications speak.

Nothing here is imported unless `tamis serve` runs, or a program asks for it.
"""
