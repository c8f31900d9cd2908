"""A run on disk: its layout, checkpoints, lock and status; loading it, and exporting it as a folder to share.

:mod:`~vadd.runs.layout` and :mod:`~vadd.runs.status` do without torch. Import from the modules.
"""
