"""Finds the pages in a folder that answer a question.

    pip install tokenizers
    python samples/search_docs.py [QUESTION [FOLDER]]

The package tokenizers splits texts into tokens, as for language models. In this sample, it learns the tokens from the
pages themselves. The model is a table that says how much each token tells about each page (tf-idf). It takes any number
of tokens from a question, and returns a score for each page. A page is a file that ends in .md, .txt or .py. By
default, the sample searches the docs in a checkout, or the samples if there are no docs.
"""

import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from winml_py import LearningModel, LearningModelSession, TensorKind
from winml_py.experimental import LearningModelBuilder, LearningModelOperator

ROOT = Path(__file__).parent.parent
QUESTION = "How do I draw the boxes of a detector on a video?"
UNKNOWN = "?"
ENDINGS = (".md", ".txt", ".py")


def trained(texts: list[str]) -> Tokenizer:
    """A tokenizer with a token for each frequent word, and with parts of words for the others."""
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=4000, special_tokens=[UNKNOWN], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def weights(pages: list[list[int]], tokens: int) -> np.ndarray:
    """Tokens x pages. A token counts more if a page has it often, and if few pages have it."""
    counts = np.stack([np.bincount(page, minlength=tokens) for page in pages], axis=1)
    rarity = np.log((1 + len(pages)) / (1 + (counts > 0).sum(axis=1, keepdims=True)))
    table = np.log1p(counts) * rarity
    return (table / np.maximum(np.linalg.norm(table, axis=0), 1e-9)).astype(np.float32)


def searcher(table: np.ndarray) -> LearningModel:
    """A model of the table, which adds up the rows of the tokens."""
    describe = LearningModelBuilder.create_tensor_feature_descriptor
    rows = LearningModelOperator("Gather").set_constant("data", table).set_input("indices", "tokens")
    total = LearningModelOperator("ReduceSum").set_input("data", "rows").set_constant("axes", np.int64([0]))
    return (
        LearningModelBuilder.create(17)
        .inputs.add(describe("tokens", TensorKind.INT64, ["length"]))
        .outputs.add(describe("scores", TensorKind.FLOAT, [1, table.shape[1]]))
        .operators.add(rows.set_output("output", "rows"))
        .operators.add(total.set_output("reduced", "scores"))
        .create_model()
    )


def main() -> None:
    question = sys.argv[1] if len(sys.argv) > 1 else QUESTION
    docs = ROOT / "docs"
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else docs if docs.is_dir() else Path(__file__).parent
    files = sorted(path for path in folder.rglob("*") if path.suffix in ENDINGS and "index" not in path.name)
    texts = [path.read_text("utf-8") for path in files]
    tokenizer = trained(texts)
    table = weights([tokenizer.encode(text).ids for text in texts], tokenizer.get_vocab_size())

    session = LearningModelSession(searcher(table))
    result = session.evaluate_features({"tokens": np.array(tokenizer.encode(question).ids, np.int64)})
    for found in result.top_k(3, [path.relative_to(folder).as_posix() for path in files]):
        print(f"{found.score:.2f} {found.label}")


if __name__ == "__main__":
    main()
