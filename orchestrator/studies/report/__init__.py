"""Report of a study: one page for a browser, CSV, and tables in Markdown and LaTeX.

=================  ===============================================================================
load               a study's directory, with what is missing or damaged named
cells              medians, ratios and intervals of each cell
printed_numbers    numbers as papers print them: how exact they are, what a text can mean
contradictions     numbers of a published table that cannot all be true
comparison         published numbers compared with the measured ones
facts number_text  facts that a reader of the numbers must know · numbers as text
report             all of it, before it has a format
tables             tables of text, for all formats
drawings page      drawings of each group of cells · the page, with its style in ``page.css``
markup             Markdown and LaTeX
spreadsheet        CSV
formats            the formats by name
=================  ===============================================================================
"""
