"""Words, sentences and numbers of Korean and English."""
