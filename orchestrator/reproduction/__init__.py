"""Runs that can be cited: exported to an archive, repeated from it on another cluster, and compared.

==========  =====================================================================
archive     one file with all of a run: written with equal bytes, read within limits
gather      content of the archive · citation: how to cite the run, and how to repeat it
redaction   what never goes into it: passwords, tokens, keys
load        a run read from its files, in an archive or in the state directory
comparison  two runs: fields that differ, weights, scores
rerun       start the run of an archive again
==========  =====================================================================
"""
