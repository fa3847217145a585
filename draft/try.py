import time, torch, sys
from problem1 import program as P
from problem1.variables import words, entries, vocabulary
from problem1.published import published_adder
from problem1.dataset import split_pairs
from problem1.every_pair import random_pairs
torch.set_num_threads(1)
model,_=published_adder()
print({(k,q):len(vocabulary(k,q)) for k,n in (("encoder",7),("self",4),("cross",4)) for q in range(n)})
t=time.process_time(); o=P.Outputs(model,P.mean_pairs()); print("outputs",time.process_time()-t)
t=time.process_time(); p=P.choose(o,split_pairs("validation"),float(sys.argv[1])); print("choose",time.process_time()-t)
for name,vs in p.choice.items():
    kind={"Encoder":"encoder","Decoder Self":"self","Decoder Cross":"cross"}[name.split(" L")[0]]
    if any(vs): print(name,[ (q,words(v,kind,q),entries(v)) for q,v in enumerate(vs) if v])
print(p.entries, p.add("663+497"))
for s,kinds in P.STAGES.items():
    t=time.process_time(); print(s, p.only(kinds).smallest_margin(random_pairs(20000,3,5)), time.process_time()-t, flush=True)
