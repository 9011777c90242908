"""What a finished partitioning tells: tables, reasons, quality and pictures."""
