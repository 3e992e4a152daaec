"""Research tasks that rank sentences and facts to answer questions; each names its measures."""
