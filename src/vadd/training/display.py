"""What a person sees while a model trains: a progress bar on a terminal, a line now and then elsewhere."""

from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from vadd.progress import console


class TrainingDisplay:
    def __init__(self, title: str, first: int, last: int, *, silent: bool = False) -> None:
        """``silent`` for all processes but the main one."""
        self.title, self.first, self.last, self.silent = title, first, last, silent
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[losses]}"),
            console=console,
            disable=silent or not console.is_terminal,
        )
        self._task = self._progress.add_task(title, total=last, completed=first, speed="", losses="")

    def __enter__(self) -> "TrainingDisplay":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, step: int) -> None:
        self._progress.update(self._task, completed=step)

    def show(self, speed: float, reconstruction: float, kl: float) -> None:
        """The newest means of the training loss, in nats per example."""
        self._progress.update(
            self._task, speed=f"{speed:.0f} it/s", losses=f"reconstruction {reconstruction:.3f} + KL {kl:.3f} nats"
        )

    def note(self, step: int, speed: float, test_reconstruction: float, test_kl: float, latent: str) -> None:
        """After an evaluation; a bar shows enough on a terminal, a log file wants lines."""
        if not self.silent and not console.is_terminal:
            left = (self.last - step) / max(speed, 1e-9)
            console.print(
                f"{self.title}: {step}/{self.last} steps, {speed:.0f} it/s, {left:.0f} s left, "
                f"test reconstruction {test_reconstruction:.3f} + KL {test_kl:.3f} nats"
                + (f", {latent}" if latent else ""),
                soft_wrap=True,
            )
