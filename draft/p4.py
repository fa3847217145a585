import torch, time
from problem1 import program as P
from problem1.variables import *
from problem1.published import published_adder
from problem1.dataset import split_pairs
torch.set_num_threads(1)
model,_=published_adder()
o=P.Outputs(model,P.mean_pairs()); val=split_pairs("validation")
known=[vocabulary("cross",q) for q in range(4)]
full={}
for h in P.heads_of(model,"cross"):
    full[h]=[o.best(h,q,known[q]) for q in range(4)]
    for q in range(4): print(h,q,words(full[h][q],"cross",q),entries(full[h][q]),"unexplained %.4f"%o.unexplained(h,q,full[h][q]))
prog=P.make_program(o,full); print("all cross",prog.smallest_margin(val))
for h in full:
    print(h, P.make_program(o,{h:full[h]}).smallest_margin(val))
for s in ("L0","L1"):
    print(s, P.make_program(o,{h:v for h,v in full.items() if s in h}).smallest_margin(val))
