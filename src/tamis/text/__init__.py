"""From text to terms, sentences and passages."""
