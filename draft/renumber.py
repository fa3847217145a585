import re
def renumber(nb, kind, first, by):
    """Tables or figures from `first` on get numbers higher by `by`, in sources and nowhere else."""
    def up(text):
        def change(m):
            return re.sub(r'\d+', lambda n: str(int(n[0]) + by) if int(n[0]) >= first else n[0], m[0])
        return re.sub(rf'\b{kind}s? \d+((, \d+)*,? (and|to) \d+)?', change, text)
    for c in nb.nb['cells']:
        c['source'] = up(''.join(c['source'])).splitlines(keepends=True)
