"""Tiny sentence-embedding models with random weights, in the architectures and file layouts of real ones.

    python models.py DIR

| directory | as | tokenizer | graph |
|---|---|---|---|
| xlm-roberta | BGE-M3 | Unigram | onnx/model.onnx with weights in model.onnx_data, CLS pooling, 1,024 dimensions, no token types |
| bert-mean, bert-cls, bert-max, bert-last | BERT encoders | WordPiece | model.onnx with a pooler output that must not be taken |
| pooled | graphs that pool | WordPiece | output sentence_embedding |
| named-output | other names | WordPiece | output dense_vecs, named by pml.json |
| quantised | model_quantized.onnx | WordPiece | bert-mean with 8-bit weights, named by pml.json |
| prefixed | E5 | WordPiece | bert-mean with a default prompt |
"""

import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS = "copy read write send the a file files letter picture query passage bonjour fichier und datei".split()
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
INNER = 8


class Graph:
    """An encoder with one layer of attention; its weights follow from the seed."""

    def __init__(self, vocabulary, dimensions, seed, roberta=False, quantised=False):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.quantised = [], [], quantised
        self.vocabulary, self.dimensions, self.roberta = vocabulary, dimensions, roberta

    def weight(self, name, *shape):
        self.weights.append(numpy_helper.from_array((self.random.standard_normal(shape) * 0.5).astype(np.float32), name))
        return name

    def constant(self, name, value):
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, operator, inputs, output, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def product(self, value, name, rows, columns):
        """A product with a weight, in 8 bits where the model is quantised."""
        if not self.quantised:
            return self.node("MatMul", [value, self.weight(name, rows, columns)], f"{name}_product")
        weight = (self.random.standard_normal((rows, columns)) * 0.5).astype(np.float32)
        scale = np.float32(np.abs(weight).max() / 127)
        self.constant(f"{name}_q", np.round(weight / scale).astype(np.int8))
        self.constant(f"{name}_zero", np.int8(0))
        self.constant(f"{name}_scale", scale)
        outputs = [f"{name}_in", f"{name}_in_scale", f"{name}_in_zero"]
        self.nodes.append(helper.make_node("DynamicQuantizeLinear", [value], outputs))
        whole = self.node("MatMulInteger", [outputs[0], f"{name}_q", outputs[2], f"{name}_zero"], f"{name}_whole")
        real = self.node("Cast", [whole], f"{name}_real", to=TensorProto.FLOAT)
        both = self.node("Mul", [outputs[1], f"{name}_scale"], f"{name}_both")
        return self.node("Mul", [real, both], f"{name}_product")

    def embeddings(self):
        words = self.node("Gather", [self.weight("words", self.vocabulary, self.dimensions), "input_ids"], "word")
        # Positions count the tokens that are not padding, as RoBERTa does; BERT differs by a constant.
        places = self.node("CumSum", ["attention_mask", self.constant("axis", np.int64(1))], "places")
        place = self.node("Gather", [self.weight("positions", 600, self.dimensions), places], "place")
        total = self.node("Add", [words, place], "embedded")
        if not self.roberta:
            kind = self.node("Gather", [self.weight("types", 2, self.dimensions), "token_type_ids"], "kind")
            total = self.node("Add", [total, kind], "typed")
        return total

    def encoder(self):
        value = self.embeddings()
        query, key, content = (self.product(value, name, self.dimensions, INNER) for name in ("query", "key", "value"))
        turned = self.node("Transpose", [key], "turned", perm=[0, 2, 1])
        # Small, so that every token is attended to a little, whatever the weights are.
        scores = self.node("Mul", [self.node("MatMul", [query, turned], "products"), self.constant("small", np.float32(0.02))], "scores")
        # What is padding is attended to by nobody.
        mask = self.node("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
        missing = self.node("Mul", [self.node("Sub", [self.constant("one", np.float32(1)), mask], "hole"), self.constant("far", np.float32(-1e4))], "missing")
        missing = self.node("Unsqueeze", [missing, self.constant("middle", np.array([1], np.int64))], "missing_wide")
        attention = self.node("Softmax", [self.node("Add", [scores, missing], "masked"), ], "attention", axis=-1)
        mixed = self.node("MatMul", [attention, content], "mixed")
        back = self.product(mixed, "back", INNER, self.dimensions)
        summed = self.node("Add", [value, back], "summed")
        ones, zeros = self.constant("ones", np.ones(self.dimensions, np.float32)), self.constant("zeros", np.zeros(self.dimensions, np.float32))
        return self.node("LayerNormalization", [summed, ones, zeros], "last_hidden_state", axis=-1)

    def mean(self, tokens, output):
        wide = self.node("Unsqueeze", ["mask", self.constant("end", np.array([2], np.int64))], "mask_wide")
        kept = self.node("Mul", [tokens, wide], "kept")
        return self.node("ReduceSum", [kept, self.constant("second", np.array([1], np.int64))], output, keepdims=0)

    def first(self, tokens, output):
        return self.node("Gather", [tokens, self.constant("zero", np.int64(0))], output, axis=1)

    def model(self, outputs):
        names = ["input_ids", "attention_mask"] + ([] if self.roberta else ["token_type_ids"])
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in names]
        shapes = {"last_hidden_state": ["batch", "length", self.dimensions]}
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes.get(name, ["batch", self.dimensions])) for name in outputs]
        graph = helper.make_graph(self.nodes, "encoder", inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.checker.check_model(model)
        return model


def template(begin, end):
    both = {begin[0]: {"id": begin[0], "ids": [begin[1]], "tokens": [begin[0]]}, end[0]: {"id": end[0], "ids": [end[1]], "tokens": [end[0]]}}
    parts = [{"SpecialToken": {"id": begin[0], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end[0], "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": parts, "pair": parts, "special_tokens": both}


def added(*names):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [{"id": number, "content": name, **flags} for number, name in enumerate(names)]


def wordpiece():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = special + WORDS + LETTERS + [f"##{letter}" for letter in LETTERS] + [":"]
    return len(vocabulary), {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added(*special),
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template(("[CLS]", 2), ("[SEP]", 3)),
        "decoder": None,
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {word: number for number, word in enumerate(dict.fromkeys(vocabulary))},
        },
    }


def unigram():
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [(word, 0.0) for word in special] + [("\u2581", -4.0)]
    pieces += [(f"\u2581{word}", -3.0) for word in WORDS] + [(letter, -6.0) for letter in LETTERS + ["\u00e9", "\u6587", "\u4ef6"]]
    return len(pieces), {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added(*special),
        "normalizer": {"type": "NFKC"},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        "post_processor": template(("<s>", 0), ("</s>", 2)),
        "decoder": None,
        "model": {"type": "Unigram", "unk_id": 3, "vocab": pieces, "byte_fallback": False},
    }


def write(directory, files):
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, ensure_ascii=False))


def pooling(mode, dimensions):
    modes = ["cls_token", "mean_tokens", "max_tokens", "lasttoken"]
    return {"word_embedding_dimension": dimensions, **{f"pooling_mode_{one}": one.startswith(mode) for one in modes}}


def bert(directory, quantised=False, outputs=("last_hidden_state", "pooler_output"), seed=1):
    size, tokenizer = wordpiece()
    graph = Graph(size, 32, seed, quantised=quantised)
    tokens = graph.encoder()
    for output in outputs:
        if output == "pooler_output":
            graph.node("Tanh", [graph.first(tokens, "first")], output)
        elif output != "last_hidden_state":
            graph.mean(tokens, output)
    write(directory, {"tokenizer.json": tokenizer})
    return graph.model(outputs)


def main(root):
    for mode in ("mean", "cls", "max", "last"):
        directory = root / f"bert-{mode}"
        model = bert(directory)
        onnx.save(model, directory / "model.onnx")
        write(directory, {"1_Pooling/config.json": pooling(mode, 32), "sentence_bert_config.json": {"max_seq_length": 64, "do_lower_case": False}})
    onnx.save(bert(root / "pooled", outputs=("last_hidden_state", "sentence_embedding")), root / "pooled/model.onnx")
    onnx.save(bert(root / "named-output", outputs=("dense_vecs",)), root / "named-output/model.onnx")
    write(root / "named-output", {"pml.json": {"output": "dense_vecs"}})

    (root / "quantised/onnx").mkdir(parents=True)
    onnx.save(bert(root / "quantised", quantised=True), root / "quantised/onnx/model_quantized.onnx")
    write(root / "quantised", {"pml.json": {"graph": "onnx/model_quantized.onnx", "pooling": "mean"}})

    onnx.save(bert(root / "prefixed"), root / "prefixed/model.onnx")
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": "query"}
    write(root / "prefixed", {"1_Pooling/config.json": pooling("mean", 32), "config_sentence_transformers.json": prompts})

    size, tokenizer = unigram()
    graph = Graph(size, 1024, 2, roberta=True)
    graph.encoder()
    directory = root / "xlm-roberta"
    kinds = ["Transformer", "Pooling", "Normalize"]
    modules = [{"idx": at, "name": str(at), "path": "", "type": f"sentence_transformers.models.{kind}"} for at, kind in enumerate(kinds)]
    write(directory, {
        "tokenizer.json": tokenizer, "modules.json": modules, "1_Pooling/config.json": pooling("cls", 1024),
        "sentence_bert_config.json": {"max_seq_length": 8192, "do_lower_case": False},
    })
    (directory / "onnx").mkdir()
    target = directory / "onnx/model.onnx"
    onnx.save_model(graph.model(["last_hidden_state"]), target, save_as_external_data=True, location="model.onnx_data", size_threshold=64)


main(pathlib.Path(sys.argv[1]))
