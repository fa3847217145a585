"""Check what there is, say what is missing, write one zip: `python submit.py [NAME]`, in the student's folder."""

import runpy

if __name__ == "__main__":
    runpy.run_module("handin.submission", run_name="__main__")
