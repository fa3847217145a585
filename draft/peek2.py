import json, glob, pandas as pd
R=[]
for f in glob.glob('study/problem2/results/grid/train_and_examine-*.json'):
    r=json.load(open(f)); c=r['configuration']
    for x in r['result']['rows']:
        R.append(dict(enc=c['encoding'],aug=c['augment'],smooth=c['smooth'],seed=c['seed'],window=c['window'],policy=x['policy'],set=x['set'],cor=x['corruption'],length=x['length'],acc=x['accuracy'],ba=x['balanced accuracy'],const=x['constant prediction']))
d=pd.DataFrame(R)
print(d.groupby(['enc','aug']).seed.nunique())
for e in ('sinusoidal','learned'):
    s=d[(d.enc==e)&(d.cor=='swaps')&d.length.isin([32,64,128,256])&d.set.isin(['exact','crowded'])]
    print(e); print(s.pivot_table(index=['policy','set'],columns='length',values='ba',aggfunc=['mean','min']).round(3).to_string())
s=d[(d.set=='exact')&d.length.isin([16,32,64,128,256])]
own=s.groupby(['enc','seed']).policy.transform('first')==s.policy
print(s[own].pivot_table(index='enc',columns='length',values='acc',aggfunc=['mean','min']).round(3).to_string())
s=d[(d.set=='new')&(d.cor=='adjacent')]; own=s.groupby(['enc','seed']).policy.transform('first')==s.policy
print(s[own].pivot_table(index='enc',columns='length',values='ba',aggfunc='mean').round(3).to_string())
