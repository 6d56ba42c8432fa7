"""The study of five publications, measured again with `gpumf`. It is not part of the wheel."""
