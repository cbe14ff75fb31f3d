"""What all tests share: how Hypothesis looks for examples.

The same examples in every run, because a test that fails now and then is a broken one;
`HYPOTHESIS_PROFILE=explore` looks for new ones.
"""

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
