"""Fast twins of what is plain above them. Would vanish if the hardware were infinitely fast;

The plain form defines right.
"""
