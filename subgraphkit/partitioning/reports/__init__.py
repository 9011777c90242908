"""Reports of a finished partitioning: tables, reasons, quality and graphs."""
