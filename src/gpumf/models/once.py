"""What is derived from arrays of a model and kept until these are other ones."""


class Once:
    """What is made of some arrays, made again only for other ones. Copies and pickles of it start without."""

    _kept = (), None  # one assignment of both: threads never see one without the other

    def __call__(self, make, *of):
        """`make()`, or what it gave the last time that this was called with the same objects, if it was."""
        before, made = self._kept
        if len(of) != len(before) or any(a is not b for a, b in zip(of, before, strict=True)):
            made = make()
            self._kept = of, made
        return made

    def forget(self):
        """Make it again at the next call."""
        self._kept = (), None

    def __reduce__(self):
        return Once, ()  # an array that comes out of a pickle can be written again
