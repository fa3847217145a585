import time, torch, sys
from problem1 import program as P
from problem1.variables import words, entries, vocabulary
from problem1.published import published_adder
from problem1.dataset import split_pairs
from problem1.every_pair import random_pairs
torch.set_num_threads(1)
model,_=published_adder()
o=P.Outputs(model,P.mean_pairs())
t=time.process_time(); p=P.choose(o,split_pairs("validation")); print("choose",time.process_time()-t)
print(P.listing(p).to_string()); print(p.entries, p.add("663+497"))
for s,kinds in P.STAGES.items():
    t=time.process_time(); print(s, p.only(kinds).smallest_margin(random_pairs(20000,3,5)), time.process_time()-t, flush=True)
from problem1 import programs as G
t=time.process_time(); pairs=random_pairs(G.CONTROL_PAIRS,3,G.CONTROL_SEED); print(G.changed_tables(p,o,pairs)); print("untrained",G.untrained(p,pairs,P.mean_pairs()),time.process_time()-t)
