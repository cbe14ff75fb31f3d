"""What all tests share: how Hypothesis looks for examples.

The same examples in every run, because a test that fails now and then is a broken one;
`HYPOTHESIS_PROFILE=explore` looks for new ones. And nothing that the user has configured has a say in them.
"""

import os

from hypothesis import settings

for _variable in [name for name in os.environ if name.startswith(("INTERBED_CATALOG__", "INTERBED_DEFAULT_CATALOG"))]:
    del os.environ[_variable]
os.environ["INTERBED_CONFIG"] = os.devnull

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
