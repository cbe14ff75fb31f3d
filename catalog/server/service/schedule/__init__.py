"""When scheduled queries run: their model and the grammar of their schedules, without a database."""
