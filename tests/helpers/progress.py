"""Progress that is written down."""


class Told(list[tuple[str, int, int | None]]):
    """A :class:`vadd.progress.Progress` that keeps what it was told."""

    def __call__(self, what: str, done: int = 0, total: int | None = None) -> None:
        self.append((what, done, total))
