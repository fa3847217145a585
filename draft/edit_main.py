import sys; sys.path.insert(0,'draft')
from nb import NB; from renumber import renumber
n=NB('./notebooks/problem2.ipynb')
renumber(n,'Table',14,1); renumber(n,'Figure',10,1)
for var in ('broken','needs'):
    n.sub(f'''plots.factors(
    over_seeds({var}.query("set == 'exact'"), ["name", "length"], "balanced accuracy"),
    over_seeds({var}.query("set == 'new' and corruption == 'adjacent'"), ["name", "length"], "balanced accuracy"),
    shown,
)''',f'''plots.factors(analysis.easy_and_hard({var}), shown)''')
n.sub('from problem2.sweep import CHOICE_SEEDS, COMPARED, LOCAL, SEEDS, study_seeds','from problem2.studies import CHOICE_SEEDS, COMPARED, LOCAL, SEEDS, study_seeds') if any('from problem2.sweep import' in ''.join(c['source']) for c in n.nb['cells']) else None
i=n.find('**Figure 9.** With everything')+1
n.insert(i,'markdown','''### The hard test with full attention

A window hands a classifier the neighbours that it has to compare. Can an encoding do without? Every registered encoding, also those that this notebook has not studied otherwise yet, is trained here like the classifier above (min pooling, a smooth start, items half of which are dense and half of whose unsorted ones are adjacent swaps), but with full attention: once with softmax, once with scalable softmax, whose logits grow with the logarithm of the number of keys (Nakanishi, 2025).

Declared before any of these read a sequence longer than 16: three seeds for each; ten for those that reach 0.99 on the development length 96 in each of the three; length 4,096 for those that reach 0.995 at 1,024 in each of ten.''')
n.insert(i+1,'code','''hard_items = analysis.hard_study()
plots.controls(analysis.first_seeds(hard_items, SEEDS["studies"], [16, 96, 256, 1_024]), group="softmax")
plt.show()''')
n.insert(i+2,'code','''ten = analysis.with_all_seeds(hard_items, SEEDS["encodings"])
length_table(ten[ten["length"].isin([16, 96, 256, 512, 1_024])], "balanced accuracy", cell=analysis.with_lowest)''')
n.insert(i+3,'code','''Markdown(analysis.hard_study_in_words(hard_items, SEEDS))''',['caption'])
n.save()
