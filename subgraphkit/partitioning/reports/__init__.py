"""Reports on a finished partitioning: tables, reasons, quality and graphs."""
