"""Studies: cells of a matrix, measured in rounds, compared and reported."""
