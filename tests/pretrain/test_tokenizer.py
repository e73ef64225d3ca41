"""The miniature's tokenizer and chat template, and that pre-training reads exactly what the template writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from trainer.pretrain.documents import (
    HINT_KINDS,
    WORD_IDS,
    Document,
    Source,
    answer_ids,
    document_ids,
    draw_document,
    learned_positions,
    prompt_ids,
    question_pool,
)
from trainer.pretrain.tokenizer import VOCABULARY, build_tokenizer

# One hint of each kind and its token ids, as they stand in the prompt for `a b c d` under `reverse`.
GOLDEN = {
    "none": ("", []),
    "rule": ("rule reverse", [50, 27]),
    "alias": ("rule mirror", [50, 39]),
    "either": ("either reverse sort", [51, 27, 37]),
    "maybe25": ("maybe25 reverse", [52, 27]),
    "maybe50": ("maybe50 reverse", [53, 27]),
    "maybe75": ("maybe75 reverse", [54, 27]),
    "demo1": ("demo e f g h gives h g f e", [55, 10, 11, 12, 13, 56, 13, 12, 11, 10]),
    "demo2": (
        "demo e f g h gives h g f e demo b d a c gives c a d b",
        [55, 10, 11, 12, 13, 56, 13, 12, 11, 10, 55, 7, 9, 6, 8, 56, 8, 6, 9, 7],
    ),
    "demo3": (
        "demo e f g h gives h g f e demo b d a c gives c a d b demo i a t b gives b t a i",
        [
            *(55, 10, 11, 12, 13, 56, 13, 12, 11, 10),
            *(55, 7, 9, 6, 8, 56, 8, 6, 9, 7),
            55,
            14,
            6,
            25,
            7,
            56,
            7,
            25,
            6,
            14,
        ],
    ),
    "half_demo": ("demo e f g h gives half h g", [55, 10, 11, 12, 13, 56, 58, 13, 12]),
    "answer": ("answer d c b a", [57, 9, 8, 7, 6]),
    "half": ("half d c", [58, 9, 8]),
    "tried": ("tried a b c d", [59, 6, 7, 8, 9]),
    "note": ("note grey river seven window", [60, 61, 62, 63, 64]),
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerBase:
    """As a user gets it: written to disk and read back by `AutoTokenizer`."""
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    build_tokenizer().save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def messages(hint: str, question: str) -> list[dict[str, str]]:
    system = [{"role": "system", "content": hint}] if hint else []
    return [*system, {"role": "user", "content": question}]


def rendered_ids(tokenizer: PreTrainedTokenizerBase, chat: list[dict[str, str]], *, prompt: bool) -> list[int]:
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=prompt, return_dict=False)
    return [int(token) for token in ids]


@pytest.mark.parametrize("kind", list(GOLDEN))
def test_a_prompt_with_each_hint_keeps_its_token_ids(tokenizer: PreTrainedTokenizerBase, kind: str) -> None:
    hint, hint_ids = GOLDEN[kind]
    ids = rendered_ids(tokenizer, messages(hint, "a b c d"), prompt=True)
    assert ids == [1, *hint_ids, 4, 6, 7, 8, 9, 5]


def test_every_hint_kind_has_a_golden_prompt() -> None:
    assert set(GOLDEN) == set(HINT_KINDS)


@pytest.mark.parametrize("kind", list(HINT_KINDS))
def test_pre_training_reads_what_the_chat_template_writes(tokenizer: PreTrainedTokenizerBase, kind: str) -> None:
    source = Source(np.random.default_rng(7), question_pool(held_out=False))
    for _ in range(20):
        document = draw_document(source, kind)
        chat = messages(document.hint, document.question)
        assert rendered_ids(tokenizer, chat, prompt=True) == prompt_ids(document)
        answered = [*chat, {"role": "assistant", "content": document.answer}]
        assert rendered_ids(tokenizer, answered, prompt=False) == document_ids(document)


def test_a_completion_decodes_to_symbols_with_single_spaces(tokenizer: PreTrainedTokenizerBase) -> None:
    ids = [*answer_ids(Document(hint="", question="a b c d", answer="d c b a")), tokenizer.eos_token_id]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "d c b a"
    assert tokenizer.batch_decode([ids], skip_special_tokens=True) == ["d c b a"]


def test_a_rendered_prompt_survives_the_way_through_text(tokenizer: PreTrainedTokenizerBase) -> None:
    text = tokenizer.apply_chat_template(
        messages("rule reverse", "a b c d"), tokenize=False, add_generation_prompt=True
    )
    assert text == "<bos> rule reverse <q> a b c d <a>"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text


def test_special_tokens_are_apart_and_unknown_words_are_marked(tokenizer: PreTrainedTokenizerBase) -> None:
    special = [tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id]
    assert special == [0, 1, 2, 3]
    assert len(tokenizer) == len(VOCABULARY) == len(WORD_IDS)
    assert tokenizer("banana", add_special_tokens=False)["input_ids"] == [3]


def test_only_answers_are_learned_and_demonstrated_ones_are_too() -> None:
    document = Document(
        hint="demo a b c d gives d c b a demo e f g h gives half h g", question="c a d b", answer="b d a c"
    )
    ids = document_ids(document)
    learned = [VOCABULARY[token] for token, is_learned in zip(ids, learned_positions(ids), strict=True) if is_learned]
    assert learned == [*"dcba", "half", *"hg", *"bdac", "<eos>"]
