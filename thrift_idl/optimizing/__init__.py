__all__ = ['ttypes', 'constants', 'Optimizer']
