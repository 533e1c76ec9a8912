"""The demo service with a label on each page, as a service that uses `pyrometer.labels` has it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "demo"))
import service

from pyrometer import labels

for page, answer in service.ENDPOINTS.items():
    service.ENDPOINTS[page] = labels(endpoint=page)(answer)
service.main()
