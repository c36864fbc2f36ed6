"""Datadog's API client: `datadog.py ADDRESS COUNT`."""

import time

from common import arguments, fail, records, state
from datadog_api_client import ApiClient, Configuration
from datadog_api_client.v2.api.logs_api import LogsApi
from datadog_api_client.v2.model.content_encoding import ContentEncoding
from datadog_api_client.v2.model.http_log import HTTPLog
from datadog_api_client.v2.model.http_log_item import HTTPLogItem

host, port, count = arguments()
configuration = Configuration(host=f"http://{host}:{port}")
configuration.server_index = None
configuration.api_key["apiKeyAuth"] = "00000000000000000000000000000000"
with ApiClient(configuration) as client:
    logs = LogsApi(client)
    for record in records(count):
        item = HTTPLogItem(
            ddsource="python",
            ddtags="env:prod,team:checkout",
            hostname="a1",
            service="shop",
            message=record.message,
            status=record.level,
            order=str(record.n),
        )
        for _ in range(300):
            try:
                logs.submit_log(content_encoding=ContentEncoding.GZIP, body=HTTPLog([item]))
                break
            except Exception as error:  # The library does not repeat.
                last = error
                time.sleep(0.1)
        else:
            fail(last)
        state(
            record.message,
            {"service.name": "shop", "host.name": "a1", "source": "python", "env": "prod"},
            {"order": str(record.n), "team": "checkout", "severity_text": record.level},
        )
