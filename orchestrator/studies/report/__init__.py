"""Report of a study: one page for a browser, CSV, and tables in Markdown and LaTeX."""
