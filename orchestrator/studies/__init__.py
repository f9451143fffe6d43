"""Studies: cells of a matrix, measured in rounds, compared and reported.

=============  =====================================================================
model          the study file
files          study files: read, found by name; ``shipped/`` has those that ship
matrix         cells and their base cases
settings       configuration and command of a cell's launches
schedule       order of launches, and when there are enough of them
journal        directory of a study, safe against a kill at any instant
launching      one launch: started, awaited, fetched, measured
machine_facts  facts of the machine, for the report
runner         a study from where its journal ends to its last launch
estimate       cells, order, time, cost and ratios, for tables
statistics     medians and ratios of launches, with 95 % intervals
=============  =====================================================================
"""
