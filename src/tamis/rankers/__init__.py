"""Learning to rank without transformers: text embeddings, features and rankers."""
