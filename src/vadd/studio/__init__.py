"""The studio: a page on this machine on which trained models are drawn from, completed, walked through, compared and
trained. It calls what the command line calls.
"""
