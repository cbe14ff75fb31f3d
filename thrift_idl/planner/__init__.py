__all__ = ['ttypes', 'constants', 'Planner']
