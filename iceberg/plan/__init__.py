"""Which files a read takes, and which deletes apply to each. Pure, but for the planner."""
