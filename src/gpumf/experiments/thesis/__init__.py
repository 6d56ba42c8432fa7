"""Experiments of Kampffmeyer's master's thesis, Tromsø 2015, and on the questions that it leaves open."""
