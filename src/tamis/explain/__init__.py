"""Why a document stands where it stands, and why a ranking got worse."""
