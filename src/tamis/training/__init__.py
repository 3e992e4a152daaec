"""Training: losses, recipes, samplers and the one loop that turns examples into a model."""
