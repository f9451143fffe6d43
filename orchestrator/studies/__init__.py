"""Studies: cells of a matrix, measured in rounds, compared and reported.

==========  =====================================================================
statistics  medians and ratios of launches, with 95 % intervals
==========  =====================================================================
"""
