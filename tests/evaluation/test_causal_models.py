"""Judges from folders and GGUF files: the same numbers, nothing unpickled, and one line for what cannot be one."""

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.judges import save_judge, tiny_network
from vadd.errors import UserError
from vadd.evaluation import language_models as causal_models
from vadd.evaluation.language_models import converted, load_causal_model

IDS = torch.tensor([[0, 3, 2, 5, 1, 1, 4]])


@pytest.fixture(autouse=True)
def _kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADD_DATA", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tests read it; whoever damages takes a copy."""
    return save_judge(tmp_path_factory.mktemp("judges") / "tiny")


def tiny_llama() -> Any:
    transformers = pytest.importorskip("transformers")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=8,
            hidden_size=32,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=64,
            initializer_range=0.5,
            rms_norm_eps=1e-6,
            bos_token_id=6,
            eos_token_id=7,
        )
        return transformers.LlamaForCausalLM(config).eval()


def as_gguf_orders(weight: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """GGUF pairs the two coordinates of a rotation beside each other, transformers half a head apart."""
    width = weight.shape[0] // heads
    paired: np.ndarray[Any, Any] = weight.reshape(heads, 2, width // 2, -1).swapaxes(1, 2).reshape(weight.shape)
    return paired


def write_gguf(file: Path, network: Any) -> Path:
    gguf = pytest.importorskip("gguf")
    config = network.config
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["a", "b", "c", "ab", "d", "e", "<s>", "</s>"])
    writer.add_token_types([1, 1, 1, 1, 1, 1, 3, 3])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(6)
    writer.add_eos_token_id(7)
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    block = "model.layers.0."
    named = {
        "token_embd.weight": weights["model.embed_tokens.weight"],
        "output_norm.weight": weights["model.norm.weight"],
        "output.weight": weights["lm_head.weight"],
        "blk.0.attn_norm.weight": weights[block + "input_layernorm.weight"],
        "blk.0.ffn_norm.weight": weights[block + "post_attention_layernorm.weight"],
        "blk.0.attn_q.weight": as_gguf_orders(weights[block + "self_attn.q_proj.weight"], 2),
        "blk.0.attn_k.weight": as_gguf_orders(weights[block + "self_attn.k_proj.weight"], 1),
        "blk.0.attn_v.weight": weights[block + "self_attn.v_proj.weight"],
        "blk.0.attn_output.weight": weights[block + "self_attn.o_proj.weight"],
        "blk.0.ffn_gate.weight": weights[block + "mlp.gate_proj.weight"],
        "blk.0.ffn_up.weight": weights[block + "mlp.up_proj.weight"],
        "blk.0.ffn_down.weight": weights[block + "mlp.down_proj.weight"],
    }
    for name, value in named.items():
        writer.add_tensor(name, np.ascontiguousarray(value, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def test_a_folder_is_read_as_it_was_saved(folder: Path) -> None:
    model = load_causal_model(str(folder))
    assert model.name == "tiny"
    assert model.tokenizer.bos_token == "<s>"
    with torch.no_grad():
        assert torch.equal(model.network(IDS).logits, tiny_network()(IDS).logits)
    assert all(weight.dtype == torch.float32 and not weight.requires_grad for weight in model.network.parameters())


def test_a_gguf_is_unpacked_once_and_says_what_its_weights_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    original = tiny_llama()
    file = write_gguf(tmp_path / "small.Q.gguf", original)
    model = load_causal_model(str(file))
    assert model.name == "small.Q"
    assert model.tokenizer.bos_token == "<s>"
    with torch.no_grad():
        torch.testing.assert_close(model.network(IDS).logits, original(IDS).logits, atol=1e-5, rtol=1e-5)
    assert capfd.readouterr().err == ""
    kept = converted(file)
    assert kept.parent == tmp_path / "data" / "judges"
    assert (kept / "model.safetensors").is_file()
    assert not list(kept.parent.glob("*.partial"))
    monkeypatch.setattr(causal_models, "_unpack", lambda *_: pytest.fail("unpacked again"))
    assert load_causal_model(str(file)).name == "small.Q"


def test_an_interrupted_unpacking_leaves_nothing_that_could_be_taken_for_a_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_gguf(tmp_path / "small.gguf", tiny_llama())
    with monkeypatch.context() as patched:

        def killed(transformers: Any, file: Path, folder: Path) -> None:
            folder.mkdir()
            (folder / "config.json").write_text("{}")
            raise KeyboardInterrupt

        patched.setattr(causal_models, "_unpack", killed)
        with pytest.raises(KeyboardInterrupt):
            converted(file)
    assert (converted(file) / "model.safetensors").is_file()


def damaged(folder: Path, place: Path, kind: str) -> Path:
    copy = shutil.copytree(folder, place / kind)
    if kind == "no config":
        (copy / "config.json").unlink()
    elif kind == "pickles":
        (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    elif kind == "no weights":
        (copy / "model.safetensors").unlink()
    elif kind == "cut weights":
        (copy / "model.safetensors").write_bytes((copy / "model.safetensors").read_bytes()[:-1000])
    elif kind == "no tokenizer":
        for file in copy.glob("tokenizer*"):
            file.unlink()
    else:
        from safetensors.torch import load_file, save_file

        weights = load_file(copy / "model.safetensors")
        del weights["transformer.h.1.mlp.c_fc.weight"]
        save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    return copy


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("no config", "cannot be loaded"),
        ("pickles", "cannot be loaded"),
        ("no weights", "cannot be loaded"),
        ("cut weights", "cannot be loaded"),
        ("no tokenizer", "has no tokenizer"),
        ("lacks a weight", "lacks 1 of its weights"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(folder: Path, tmp_path: Path, kind: str, told: str) -> None:
    with pytest.raises(UserError) as error:
        load_causal_model(str(damaged(folder, tmp_path, kind)))
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_model_that_looks_ahead_is_no_judge(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=9,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        initializer_range=0.5,
    )
    save_judge(tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").unlink()
    transformers.BertLMHeadModel(config).save_pretrained(tmp_path / "bert")
    with pytest.raises(UserError, match="is not a causal language model"):
        load_causal_model(str(tmp_path / "bert"))


@pytest.mark.parametrize("content", [b"", b"no such thing", b"GGUF", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64])
def test_a_broken_gguf_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("gguf")
    file = tmp_path / "broken.gguf"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"broken\.gguf (is not a GGUF file|cannot be loaded)") as error:
        load_causal_model(str(file))
    assert "\n" not in str(error.value)
    assert not [kept for kept in (tmp_path / "data" / "judges").glob("*") if kept.suffix not in {".lock", ".partial"}]


@pytest.mark.parametrize("source", ["{}/nowhere", "{}/none.gguf", "none.gguf", "not a name", "a/b/c"])
def test_what_is_not_there_is_not_looked_for_on_the_hub(tmp_path: Path, source: str) -> None:
    with pytest.raises(UserError, match="no such file or folder"):
        load_causal_model(source.format(tmp_path))


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"pickle")
    with pytest.raises(UserError, match="is another kind of file"):
        load_causal_model(str(tmp_path / "weights.bin"))


@pytest.mark.parametrize("package", ["transformers", "gguf"])
def test_a_missing_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    pytest.importorskip("transformers")
    file = tmp_path / "some.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"the package {package}: pip install 'vadd\[text\]'"):
        load_causal_model(str(file))
