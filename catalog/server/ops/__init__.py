"""What stands beside serving: metrics, logs, audit, health, the reaper."""
