"""Proof by enumeration that a classifier is right on every sequence of every length: `python -m problem2.certificate`.

One layer, attention to the two neighbours, no absolute position, a logit per token, the lowest of which is that of the
sequence. Then the logit of a token depends on at most three values, and all logits that tokens can ever have fit into
three tables. A token rejects when its logit is not positive, else it accepts.

    (a) no token rejects in a sorted triple, or at a sorted end
    (b) no walk along accepting tokens leads over a descent to an accepting last token

A sorted sequence shows its tokens only sorted triples and ends, and every sorted triple and end occurs in one: (a) says
that all sorted sequences are accepted. An unsorted sequence is accepted exactly when all its tokens accept, which makes
it a walk of (b): from its first pair of neighbours to its last, each step one accepting middle token. So (a) and (b)
together are necessary and sufficient.

The tables hold an interval for each logit (see rounding.py), in which lie the exact value and that of any evaluation in
float64. (a) is shown for the lower ends and (b) for the upper ends: a proof for real numbers. In float32 the forward
pass is run on every pair and triple as well, and must stay far from the margin; on longer sequences, where sums may be
taken in another order, it is sampled.

What is certified is a file of weights, read by the code as it is written, in a process of its own: that is what the
command does. In a process that somebody has tampered with, `check_form` refuses what it can see; what was replaced
before this package was imported, or inside torch, it cannot see.

form.py             the forms of classifier for which the argument holds
untouched.py        is the code that a classifier runs still what was imported?
tables.py           every logit there can be, and runs of the model that must agree with it
rounding.py         the interval of each logit
enumeration.py      (a) and (b)
proof.py            all of this together: the Certificate
command.py          the command
counterexamples.py  training until the certificate holds: `python -m problem2.certificate.counterexamples --seed 1`
"""

from problem2.certificate.proof import Certificate, certify
from problem2.certificate.tables import Tables

__all__ = ["Certificate", "Tables", "certify"]
