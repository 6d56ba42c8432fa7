"""Small helpers without knowledge of ratings or models."""
