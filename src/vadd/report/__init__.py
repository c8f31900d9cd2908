"""Pictures, tables and one self-contained page. Numbers and samples come in; models never do."""
