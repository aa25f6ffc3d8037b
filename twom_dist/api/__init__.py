"""Routines, plans, prepared products and jobs on files, as users call them."""
