"""What tables and pages say of their numbers, by the keys of ``notes.yaml``."""

from importlib import resources

import yaml

NOTES: dict[str, str] = yaml.safe_load(resources.files("vadd").joinpath("report", "notes.yaml").read_text("utf-8"))
