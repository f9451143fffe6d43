"""Report of a study: one page for a browser, CSV, and tables in Markdown and LaTeX.

==============  ==========================================================================
printed         numbers as papers print them: how exact they are
contradictions  numbers of a published table that cannot all be true
==============  ==========================================================================
"""
