"""Operations besides serving: metrics, logs, audit, health, the reaper. observers.py puts them together.

logs.py records calls, metrics.py counts them, health.py answers probes by vital_signs.py, reaper.py removes expired
objects.
"""
