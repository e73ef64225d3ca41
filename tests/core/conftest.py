"""A real fast tokenizer, small enough to read: one id for each word, with a chat template that writes its own BOS."""

from __future__ import annotations

from typing import Any

import pytest

WORDS = ["a", "b", "c", "d", "rule", "reverse", "x", "y", ":", "system", "user", "assistant", "off", "on"]
TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "<turn> {{ message.role }} : {{ message.content | trim }} <end> "
    "{% endfor %}"
    "{% if add_generation_prompt %}<turn> assistant : {% if enable_thinking is defined and enable_thinking %}<think> "
    "{% else %}<think> </think> {% endif %}{% endif %}"
)


@pytest.fixture(scope="session")
def make_tokenizer() -> Any:
    """Make the tokenizer with another chat template."""
    from tokenizers import Tokenizer, pre_tokenizers, processors
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "</s>", "<unk>", "<turn>", "<end>", "<think>", "</think>"]

    def make(template: str = TEMPLATE, **options: Any) -> Any:
        core = Tokenizer(WordLevel({word: i for i, word in enumerate([*special, *WORDS])}, unk_token="<unk>"))
        core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        # As in Llama's tokenizer, plain text gets a BOS: a prompt encoded carelessly would have two.
        core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
        named = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", **options}
        fast = PreTrainedTokenizerFast(tokenizer_object=core, **named)
        fast.add_special_tokens({"additional_special_tokens": special[3:]})
        fast.chat_template = template
        return fast

    return make


@pytest.fixture(scope="session")
def tokenizer(make_tokenizer: Any) -> Any:
    """The tokenizer with its own chat template."""
    return make_tokenizer()
