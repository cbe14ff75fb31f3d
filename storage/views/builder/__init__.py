"""pypaimon's builders on interbed's engine: code written for pypaimon runs after its import is changed."""
