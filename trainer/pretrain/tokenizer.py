"""The miniature's tokenizer: one token per word, with a chat template, loadable by `AutoTokenizer`."""

from __future__ import annotations

from typing import Final

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from predictor.tasks.strings import ALIASES, RULES, SYMBOLS

PAD, BOS, EOS, UNK, QUESTION, ANSWER = "<pad>", "<bos>", "<eos>", "<unk>", "<q>", "<a>"
MARKERS: Final = (
    "rule",
    "either",
    "maybe25",
    "maybe50",
    "maybe75",
    "demo",
    "gives",
    "answer",
    "half",
    "tried",
    "note",
)
FILLERS: Final = ("grey", "river", "seven", "window", "quiet", "paper", "winter", "lemon")
VOCABULARY: Final = (
    *(PAD, BOS, EOS, UNK, QUESTION, ANSWER),
    *SYMBOLS,
    *RULES,
    *ALIASES.values(),
    *MARKERS,
    *FILLERS,
)
MAX_LENGTH: Final = 128

CHAT_TEMPLATE: Final = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ ' ' + message['content'] }}"
    "{% elif message['role'] == 'user' %}{{ ' <q> ' + message['content'] }}"
    "{% elif message['role'] == 'assistant' %}{{ ' <a> ' + message['content'] + ' ' + eos_token }}"
    "{% else %}{{ raise_exception('the miniature knows the roles system, user and assistant') }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ ' <a>' }}{% endif %}"
)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A word-level tokenizer whose decoded completions are symbols with single spaces between them."""
    words = {word: index for index, word in enumerate(VOCABULARY)}
    backend = Tokenizer(models.WordLevel(words, unk_token=UNK))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNK,
        additional_special_tokens=[QUESTION, ANSWER],
        clean_up_tokenization_spaces=False,
        model_max_length=MAX_LENGTH,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
