"""helpers for editing a notebook's cells by text"""
import json, sys
class NB:
    def __init__(s,p): s.p=p; s.nb=json.load(open(p))
    def find(s,text):
        hits=[i for i,c in enumerate(s.nb['cells']) if text in ''.join(c['source'])]
        assert len(hits)==1,(text,hits); return hits[0]
    def src(s,i): return ''.join(s.nb['cells'][i]['source'])
    def set(s,i,src): s.nb['cells'][i]['source']=src.splitlines(keepends=True)
    def sub(s,a,b):
        i=s.find(a); t=s.src(i); assert t.count(a)==1,(a,t.count(a)); s.set(i,t.replace(a,b))
    def insert(s,i,kind,src,tags=None):
        like=next(c for c in s.nb['cells'] if c['cell_type']==kind and (c['metadata'].get('tags')==tags))
        meta=json.loads(json.dumps(like['metadata'])); import uuid
        c={'cell_type':kind,'id':uuid.uuid4().hex[:8],'metadata':meta,'source':src.splitlines(keepends=True)}
        if kind=='code': c|={'execution_count':None,'outputs':[]}
        s.nb['cells'].insert(i,c)
    def save(s):
        json.dump(s.nb,open(s.p,'w'),indent=1,ensure_ascii=False); open(s.p,'a').write('\n')
