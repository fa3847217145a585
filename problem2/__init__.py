"""Problem 2: an encoder tells sorted from unsorted sequences; which positional encodings extrapolate, and why?"""
