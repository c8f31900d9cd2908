"""Causal language models to judge text by: from a folder, a GGUF file or the Hugging Face Hub.

Weights are read as safetensors or GGUF, never as pickles, and code that comes with a model is never run.
"""

import io
import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from vadd.data.download import data_directory
from vadd.errors import UserError
from vadd.files import checksum
from vadd.progress import Progress, silent

HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
CAUSALITY_TOLERANCE = 1e-4
"""How much the logits of earlier tokens may change with a later one, relative to the largest: rounding."""


@dataclass(frozen=True)
class CausalModel:
    name: str
    """The name of the folder or file, or the name on the hub."""
    network: Any
    """A transformers model in float32: token ids (B, L) and their attention mask to logits (B, L, V)."""
    tokenizer: Any


def load_causal_model(source: str, progress: Progress = silent) -> CausalModel:
    """The model in the folder or GGUF file ``source``; where there is neither, of that name on the hub.

    A GGUF file is converted once and kept, see :func:`converted`.
    """
    transformers = _library()
    path = Path(source).expanduser()
    progress(f"the judge {path.name}")
    if path.is_dir():
        _check_folder(path)
        model = _read(transformers, path.resolve().name, str(path), local_files_only=True)
    elif path.is_file():
        if path.suffix.lower() != ".gguf":
            raise UserError(f"a judge is a folder, a .gguf file or a name on the hub; {path} is another kind of file")
        model = _read(transformers, path.stem, str(converted(path, progress)), local_files_only=True)
    elif (
        HUB_NAME.fullmatch(source) is None
        or path.suffix.lower() == ".gguf"
        or (path.parent.name and path.parent.exists())
    ):
        raise UserError(f"there is no judge {source}: no such file or folder")
    else:
        model = _read(transformers, source, source)
    _check_causal(model)
    return model


def converted(file: Path, progress: Progress = silent) -> Path:
    """A GGUF file as a folder of safetensors in float32, made once: unpacking takes much longer than loading."""
    transformers = _library()
    try:
        import gguf  # noqa: F401  # transformers reads these files with it
    except ImportError:
        raise UserError("GGUF files need the package gguf: pip install 'vadd[text]'") from None
    with file.open("rb") as content:
        if content.read(4) != b"GGUF":
            raise UserError(f"{file} is not a GGUF file")
    kept = data_directory("judges") / checksum(file)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(kept.with_name(f"{kept.name}.lock")):
        if not kept.is_dir():
            progress(f"unpacking {file.name}, once")
            partial_folder = kept.with_name(f"{kept.name}.partial")
            shutil.rmtree(partial_folder, ignore_errors=True)
            # The library counts the tensors on the terminal.
            with _reading(transformers, file.name), redirect_stderr(io.StringIO()):
                _unpack(transformers, file, partial_folder)
            partial_folder.rename(kept)
    return kept


def _unpack(transformers: Any, file: Path, folder: Path) -> None:
    settings: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(file.parent), **settings)
    if hasattr(transformers, "GgufConfig"):  # releases that could leave the weights packed
        settings["quantization_config"] = transformers.GgufConfig(dequantize=True)
    packed = transformers.AutoModelForCausalLM.from_pretrained(str(file.parent), **settings)
    # What is loaded from a GGUF cannot be saved in some releases: a plain model takes its weights over.
    config = type(packed.config).from_dict(
        {key: value for key, value in packed.config.to_dict().items() if key != "quantization_config"}
    )
    plain = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False).float()
    plain.load_state_dict(packed.state_dict())
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _library() -> Any:
    try:
        import transformers
    except ImportError:
        raise UserError("a judge of text needs the package transformers: pip install 'vadd[text]'") from None
    return transformers


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} is not a language model: it has no config.json")
    if not any(folder.glob("*.safetensors")):
        pickles = any(folder.glob("*.bin")) or any(folder.glob("*.pt"))
        reason = "its weights are pickles, which are not read; save them as safetensors" if pickles else "no weights"
        raise UserError(f"{folder} has no .safetensors: {reason}")


def _read(transformers: Any, name: str, source: str, **settings: Any) -> CausalModel:
    with _reading(transformers, name):
        network, found = transformers.AutoModelForCausalLM.from_pretrained(
            source, use_safetensors=True, trust_remote_code=False, output_loading_info=True, **settings
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False, **settings)
    if found["missing_keys"]:
        # The library would go on with random numbers in their place.
        missing = sorted(found["missing_keys"])
        raise UserError(f"the judge {name} lacks {len(missing)} of its weights, the first is {missing[0]}")
    if not tokenizer.encode("text", add_special_tokens=False):  # it makes an empty one where there are no files
        raise UserError(f"the judge {name} has no tokenizer")
    return CausalModel(name, network.float().eval().requires_grad_(False), tokenizer)


@contextmanager
def _reading(transformers: Any, name: str) -> Iterator[None]:
    """Without the library's messages and bars; whatever goes wrong is one line."""
    messages, hub = transformers.utils.logging, logging.getLogger("huggingface_hub")
    verbosity, bars, hub_level = messages.get_verbosity(), messages.is_progress_bar_enabled(), hub.level
    messages.set_verbosity(logging.CRITICAL)
    messages.disable_progress_bar()
    hub.setLevel(logging.CRITICAL)
    try:
        yield
    except Exception as error:  # the library, the hub's client and the readers of files have many of their own
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"the judge {name} cannot be loaded: {reason}") from None
    finally:
        messages.set_verbosity(verbosity)
        hub.setLevel(hub_level)
        if bars:
            messages.enable_progress_bar()


@torch.no_grad()
def _check_causal(model: CausalModel) -> None:
    """Some models that the library loads as causal look ahead, as BERT does; their perplexity means nothing."""
    ids = torch.tensor([[0, 1, 0, 0], [0, 1, 0, 1]])
    first, second = model.network(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, :-1]
    if float((first - second).abs().max()) > CAUSALITY_TOLERANCE * float(first.abs().max()):
        raise UserError(
            f"the judge {model.name} is not a causal language model: what it predicts depends on what follows"
        )
