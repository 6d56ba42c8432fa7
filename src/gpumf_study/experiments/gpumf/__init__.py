"""Experiments of this study: what none of the publications asks."""
