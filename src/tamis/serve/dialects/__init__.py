"""The shapes that applications speak: request bodies to requests, answers and errors to bodies."""
