"""String transduction: pronunciation, transliteration, spelling and inflection."""
