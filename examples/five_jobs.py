"""Five common jobs, each with the code of a peer library."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import nn

import catena
from catena import TextClassifier, search
from catena.data.samples.corpus import load_sample, sample_path
from catena.structure import DependencyTree, LinearChain

torch.manual_seed(0)
lengths = torch.tensor([5, 3])

# 1 CRF loss on your own scores.
# pytorch-crf: crf = CRF(k, batch_first=True); loss = -crf(emissions, tags, mask=mask, reduction="mean")
emissions = torch.randn(2, 5, 4, requires_grad=True)
transitions = torch.randn(4, 4, requires_grad=True)
tags = torch.randint(4, (2, 5))
loss = -LinearChain(emissions, transitions, lengths=lengths).log_prob(tags).mean()
loss.backward()
print(f"CRF loss {loss.item():.3f}")

# 2 Marginals of dependency trees. arcs[b, h, m] is the score of the arc from head h to word m; node 0 is the root.
# SynJax: SpanningTreeCRF(scores, directed=True, projective=False, single_root_edge=True, lengths=n).marginals()
arcs = torch.randn(2, 6, 6)
marginals = DependencyTree(arcs, projective=False, single_root=True, lengths=lengths).marginals()
print(f"expected number of arcs {marginals.sum((1, 2)).tolist()}")

# 3 Classify texts.
# scikit-learn: make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(x, y).predict(z)
train, test = load_sample("train"), load_sample("test")
model = TextClassifier("loglinear", max_epochs=5).fit([e.text for e in train], [e.labels[0] for e in train])
print(model.predict([e.text for e in test[:3]]))

# 4 Load a run and use it.
# spaCy: nlp = spacy.load("model-best"); [(t.text, t.tag_) for t in nlp(text)]
with tempfile.TemporaryDirectory() as folder:
    tagger = catena.Tagger("features", max_epochs=5)
    lines = Path(sample_path("assistant/train.conll")).read_text(encoding="utf-8").split("\n\n")[:100]
    rows = [[row.split("\t") for row in block.splitlines() if not row.startswith("#")] for block in lines]
    sentences = [sentence for sentence in rows if sentence]
    tagger.fit([[row[0] for row in s] for s in sentences], [[row[-1] for row in s] for s in sentences])
    tagger.save(Path(folder) / "run")
    predictor = catena.load(Path(folder) / "run")
    print(predictor.predict([["wake", "me", "at", "six"]])[0].tags)

# 5 Beam search over any model.
# Hugging Face: model.generate(ids, num_beams=4, max_new_tokens=80), for its own model classes only
network = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 50))
best = search.beam(search.from_logits(network, v=50, begin=1, end=2), beam_size=4, max_length=10)[0][0]
print(best.ids)
