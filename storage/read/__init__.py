"""From splits to Arrow batches."""
