"""Pictures of results: SVG first, PNG and terminal text beside it. Knows no model: plain values in, a Picture out."""
